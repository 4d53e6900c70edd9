"""Inner structure of the few messages that have some, read with pyparsing.

Each module has `parse(text) -> list of rows` (dicts of plain values): `text` is the
message and the lines under it, behind their decorations. Garbage gives an empty list;
nothing raises. `limits` caps what they look at.
"""
