"""Lays two runs, attempts or incidents beside each other and says what differs."""
