"""How requests are built, sent and answered."""
