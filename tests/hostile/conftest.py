"""The suites of a sender run over every sender there is."""

from tests.fakes.sending import each_sender

__all__ = ["each_sender"]
