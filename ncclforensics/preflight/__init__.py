"""Judges nodes before a job starts, and tells the variables that a job should have.

`node/` runs on each node and only tells facts. `checks_*.py` judge one node,
`differences.py` compares nodes. `variables.py` is the table that `prepare` prints.
"""
