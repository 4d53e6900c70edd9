"""Parsers for messages with an inner structure: tables, tracebacks, reports.

Each module has `parse(text) -> list of rows` (dicts of plain values). `text` is the
message and the lines below it, without decorations. Garbage yields an empty list;
nothing raises. `COLUMNS` names the columns of each row. `KINDS` types the columns that
are neither strings nor columns of a frame, in case a truncated log leaves them all
null. `limits` caps what is read.
"""
