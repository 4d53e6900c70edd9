"""What a shipper or a store of logs puts around a JSON record, one record per line.

Elasticsearch's hit, Splunk's result, Fluent Bit's pair of time and record (`[t, {…}]`,
since 2.1 `[[t, {}], {…}]`), the same as its stdout prints it, with `=>` and nothing
escaped, and Fluentd's `time tag: {…}`. Each becomes the object inside, which
`json_records` reads. Rendered from the documentation of each.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.parsers.logs.ascii_regex import ascii_only

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?"
# the head of a line that may be such a record
SHIPPED = ascii_only(
    r'^(?:\{\s*"(?:_index|preview)"\s*:|\[\s*\[?\s*"?\d{10}'
    rf'|\[\d{{1,9}}\] [^ ]+: \[\[?\d{{10}}|{_STAMP}[^{{]+\{{")'
)
# a record is the object to which a path leads
_INSIDE = {r'^\{\s*"_index"\s*:': "$._source", r'^\{\s*"preview"\s*:': "$.result"}
# the time stands beside the object, and becomes its first key
_BESIDE = {
    ascii_only(
        r'(?s)^\[\s*\[?\s*"?(\d{10}[.\d]*)"?(?:\s*,\s*\{[^{}]*\}\s*\])?\s*,'
        r'\s*\{\s*(".*\})\s*\]\s*$'
    ): '{"date":${1},${2}',
    ascii_only(
        rf"^({_STAMP}) ?(Z|[+-]\d\d:?\d\d)?[ \t]+[^\s{{]+[ \t]+"
        r'\{(".*\})\s*$'
    ): '{"time":"${1}${2}",${3}',
}
# Fluent Bit's stdout; a line break at the end of a value breaks the record
_PRINTED = ascii_only(
    r"^\[\d{1,9}\] [^ ]+: \[\[?(\d{10}\.\d{1,9})(?:, \{[^{}]*\}\])?, "
    r'\{(".*?)(\}\])?$'
)
_MARK = "\x1f"  # a quote that is one of the record, and not of a value inside
_QUOTES = (
    ("\\", "\\\\"),
    (_MARK, ""),
)
_KEYS = (
    (r'(^|[{ ])"([\w.@/-]{1,100})"=>"', "${1}\x1f${2}\x1f:\x1f"),
    (r'(^|[{ ])"([\w.@/-]{1,100})"=>', "${1}\x1f${2}\x1f:"),
    (r'"(\}*, \x1f|\}*$)', "\x1f${1}"),
)


def bared(raw: pl.Series) -> pl.Series:
    """Return the object inside of each line, and other lines as they are."""
    if not raw.str.contains(SHIPPED).any():
        return raw
    own = pl.col("raw")
    inside = [
        pl.when(own.str.contains(head)).then(own.str.json_path_match(path))
        for head, path in _INSIDE.items()
    ]
    beside = [
        pl.when(own.str.contains(form)).then(own.str.replace(form, record))
        for form, record in _BESIDE.items()
    ]
    part = own.str.extract_groups(_PRINTED).struct
    printed = pl.concat_str(
        pl.lit('{"date":'), part.field("1"), pl.lit(","), _quoted(part), pl.lit("}")
    )
    return (
        raw.alias("raw")
        .to_frame()
        .select(pl.coalesce(*inside, *beside, printed, own))["raw"]
        .alias(raw.name)
    )


def _quoted(part: pl.expr.struct.ExprStructNameSpace) -> pl.Expr:
    """Spell the keys and values that Fluent Bit's stdout prints as JSON does."""
    body = part.field("2") + pl.when(part.field("3").is_null()).then(
        pl.lit('"')
    ).otherwise(pl.lit(""))
    for plain, escaped in _QUOTES:
        body = body.str.replace_all(plain, escaped, literal=True)
    for form, marked in _KEYS:
        body = body.str.replace_all(form, marked)
    body = body.str.replace_all('"', '\\"', literal=True)
    return body.str.replace_all(_MARK, '"', literal=True)
