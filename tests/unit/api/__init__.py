"""What the HTTP edge decides without a socket."""
