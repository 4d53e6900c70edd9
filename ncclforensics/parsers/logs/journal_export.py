r"""Records of `journalctl -o export`: a field per line, an empty line after each.

`_HOSTNAME=gpu0001`, `__REALTIME_TIMESTAMP=<us>`, `MESSAGE=<line>`. A value with a line
break is binary: the name alone, LF, its size as 64 bit little endian, the bytes, LF
(systemd's `docs/JOURNAL_EXPORT_FORMATS.md`, from 187 on).
"""

from __future__ import annotations

import re

import polars as pl

from ncclforensics.parsers.logs import json_records
from ncclforensics.parsers.logs.lines import decoded

HEAD = b"__CURSOR="
BREAK = "\x1d"  # stands for a line break within a value
FIELDS = {
    "MESSAGE": "raw",
    "_HOSTNAME": "told_host",
    "__REALTIME_TIMESTAMP": "told_t",
    "CONTAINER_NAME": "told_container",
}
_BINARY = re.compile(rb"^([A-Z0-9_]{1,64})\n(.{8})", re.DOTALL | re.MULTILINE)
_FIELD = r"^(" + "|".join(FIELDS) + r")=((?s:.*))$"


def read(data: bytes) -> pl.DataFrame:
    """Read an export: `line` (of the message), `raw` and COLUMNS, as strings."""
    lines = decoded(_as_text(data), 1).lines
    field = pl.col("raw").str.extract_groups(_FIELD)
    # a value's own line breaks are lines of the file
    above = pl.col("raw").str.count_matches(BREAK).cast(pl.Int64).cum_sum().shift(1)
    told = lines.select(
        (pl.col("line") + above.fill_null(0)).alias("line"),
        pl.col("raw").eq("").cum_sum().alias("record"),
        field.struct.field("1").alias("field"),
        field.struct.field("2").alias("value"),
    ).drop_nulls("field")
    value, name = pl.col("value"), pl.col("field")
    records = told.group_by("record", maintain_order=True).agg(
        pl.col("line").filter(name == "MESSAGE").first(),
        *(value.filter(name == key).first().alias(c) for key, c in FIELDS.items()),
    )
    missing = [c for c in json_records.COLUMNS if c not in FIELDS.values()]
    value = pl.col("raw").str.strip_chars_start(BREAK)
    above = pl.col("raw").str.len_bytes() - value.str.len_bytes()
    return (
        records.drop_nulls("raw")
        .with_columns(
            pl.col("line") + above.cast(pl.Int64),
            value.str.replace_all(BREAK, "\n", literal=True),
            json_records.moment(pl.col("told_t")),
            *(pl.lit(None, pl.String).alias(c) for c in missing),
        )
        .select("line", "raw", *json_records.COLUMNS)
    )


def _as_text(data: bytes) -> bytes:
    """Turn binary values into lines, with BREAK for each line break of the file.

    Few fields of a job's log are binary: only messages of several lines.
    """
    parts, done = [], 0
    while found := _BINARY.search(data, done):
        end = found.end() + int.from_bytes(found[2], "little")
        value = data[found.end() : end].replace(b"\n", BREAK.encode())
        # LF behind the name, and bytes of the size that happen to be one
        above = BREAK.encode() * (1 + found[2].count(b"\n"))
        parts += [data[done : found.start()], found[1], b"=", above, value]
        done = end
    return b"".join([*parts, data[done:]])
