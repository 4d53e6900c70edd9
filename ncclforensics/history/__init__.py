"""Keeps what analyses found, and says what happened before: on a node, or likewise."""
