"""Blocking calls and the wait-for graph, from dumps and from log lines."""
