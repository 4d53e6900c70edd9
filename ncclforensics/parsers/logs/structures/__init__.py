"""Inner structure of the few messages that have some, read with pyparsing.

Each module has `parse(text) -> list of rows` (dicts of plain values): `text` is the
message and the lines under it, behind their decorations. Garbage gives an empty list;
nothing raises. `COLUMNS` are those of each row. `KINDS` types columns that are no
strings and no frame's, for where a torn log leaves nothing in them. `limits` caps what
they look at.
"""
