"""Records of `gcloud logging read` without a format: a YAML document per record.

A document begins with `---`, its keys are sorted: `insertId`, `labels`, `resource`,
`severity`, `textPayload` or `jsonPayload`, `timestamp`. A line is a scalar, quoted or
not, that YAML breaks at 80 columns, or a block below `|-` if it has several lines.
Rendered as PyYAML writes the records of the documentation.
"""

from __future__ import annotations

import re

import polars as pl

from ncclforensics.parsers.logs import json_records
from ncclforensics.parsers.logs.lines import decoded

HEAD = re.compile(rb"(?:---\n)?insertId: [^\n]+\n")
# top-level key, and the key below it if any
FIELDS = {
    ("textPayload", ""): "raw",
    ("jsonPayload", "message"): "raw",
    ("jsonPayload", "log"): "raw",
    ("timestamp", ""): "told_t",
    ("severity", ""): "told_level",
    ("labels", "compute.googleapis.com/resource_name"): "told_host",
    ("labels", "node_name"): "told_host",
    ("resource", "pod_name"): "told_pod",
    ("resource", "namespace_name"): "told_namespace",
    ("resource", "container_name"): "told_container",
}
_TOP = r"^([A-Za-z]\w*):(?: (.*))?$"
_BLOCK = r"^\|[-+]?\s*$"
_KEY = r"^ {2,4}([\w./-]+):(?: (.*))?$"
# keys below which there are only keys; a line's own words may look like one
_PARENTS = ("labels", "resource", "jsonPayload")


def read(data: bytes) -> pl.DataFrame:
    """Read the records: `line` (of the message), `raw` and COLUMNS, as strings."""
    raw, line = pl.col("raw"), pl.col("line")
    top, key = (raw.str.extract_groups(p).struct for p in (_TOP, _KEY))
    told = decoded(data, 1).lines.with_columns(
        raw.str.contains(r"^---\s*$").cum_sum().alias("record"),
        top.field("1").forward_fill().alias("top"),
    )
    is_key = pl.col("top").is_in(_PARENTS) & key.field("1").is_not_null()
    begins = raw.str.contains(_TOP) | is_key | raw.str.contains(r"^---\s*$")
    told = told.with_columns(
        begins.cum_sum().alias("field"),
        pl.when(is_key).then(key.field("1")).otherwise(pl.lit("")).alias("key"),
        pl.when(begins)
        .then(pl.coalesce(top.field("2"), key.field("2"), pl.lit("")))
        .otherwise(raw.str.strip_chars_start())
        .alias("value"),
        pl.when(~begins).then(raw.str.extract(r"^( *)\S").str.len_bytes()).alias("in"),
    )
    own = pl.DataFrame(
        [(*where, column) for where, column in FIELDS.items()],
        schema=["top", "key", "column"],
        orient="row",
    )
    deeper = pl.lit(" ").repeat_by(pl.col("in") - pl.col("in").min()).list.join("")
    block = pl.concat_str(deeper.fill_null(""), "value")
    fields = (
        told.group_by("record", "field", maintain_order=True)
        .agg(
            *(line.first(), pl.col("top").first(), pl.col("key").first()),
            pl.col("value").first().alias("style"),
            pl.col("value").str.join("\n").alias("folded"),
            block.over("record", "field").slice(1).str.join("\n").alias("block"),
        )
        .join(own, on=["top", "key"], maintain_order="left")
        .with_columns(
            _scalar().alias("value"), line + pl.col("style").str.contains(_BLOCK)
        )
    )
    value, column = pl.col("value"), pl.col("column")
    records = fields.group_by("record", maintain_order=True).agg(
        line.filter(column == "raw").first(),
        *(
            value.filter(column == c).first().alias(c)
            for c in ("raw", *json_records.COLUMNS)
        ),
    )
    return records.drop("record").drop_nulls("raw")


def _scalar() -> pl.Expr:
    """Return the text of a scalar: `folded` are its lines, `block` those below `|`."""
    style, block = pl.col("style"), pl.col("block")
    lines = pl.col("folded")
    # a line break is a blank, and an empty line is a line break
    joined = lines.str.replace_all(r"([^\n])\n([^\n])", "${1} ${2}")
    joined = joined.str.replace_all(r"\n\n", "\n")
    single = joined.str.extract(r"(?s)^'(.*)'\s*$").str.replace_all("''", "'")
    double = lines.str.replace_all(r"\\\n\\?", "").str.replace_all(r"\n", " ")
    double = double.str.replace_all(r"\\ ", " ").str.replace_all(r"\\e", r"\u001b")
    decodable = pl.when(double.str.contains(r'(?s)^".*"\s*$')).then(double)
    return (
        pl.when(style.str.contains(_BLOCK))
        .then(block)
        .when(style.str.starts_with("'"))
        .then(single)
        .when(style.str.starts_with('"'))
        .then(decodable.str.json_decode(pl.String()))
        .otherwise(joined)
    )
