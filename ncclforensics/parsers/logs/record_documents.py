"""JSON documents that hold log records: a list of them, or an answer with streams.

`gcloud logging read --format json`, `aws logs get-log-events`, `journalctl -o
json-pretty`, Fluent Bit's `format json`; the answers of Elasticsearch's and Loki's HTTP
API and of Splunk; OTLP, as the file exporter of the OpenTelemetry collector and
protobuf's JSON spell it. A file may hold one document, or one per line. Every record
becomes an object that `json_records` reads. Rendered from the documentation of each.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import polars as pl

from ncclforensics.parsers.logs.lines import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEYS = r'"(?:MESSAGE|log|message|msg|line|textPayload|_raw|body)"\s*:'
_LINE_KEY = re.compile((_KEYS + r'\s*"').encode())
_FIRST_RECORD = re.compile(rb"\[\s*?(\n[ \t]*)\{")
# of OTLP: a value, and a list of named values
_STRING = r'"(?:[^"\\]|\\.)*"'
_VALUE = (
    r'\{\s*"(?:string|int|double|bool)Value"\s*:\s*' + rf"({_STRING}|[^\s{{}}]+)\s*\}}"
)
_NAMED = (
    rf'\{{\s*"key"\s*:\s*({_STRING})\s*,\s*"value"\s*:\s*({_STRING}|[\w.+-]+)\s*\}}'
)
_PAIRS = rf"(?:\s*{_STRING}\s*:\s*(?:{_STRING}|[\w.+-]+)\s*,?)*"
_LISTED = rf'("attributes"\s*:\s*)\[({_PAIRS})\s*\]'


class _Events(msgspec.Struct):
    events: list[msgspec.Raw]


class _Results(msgspec.Struct):
    results: list[msgspec.Raw]


class _Hits(msgspec.Struct):
    hits: list[msgspec.Raw]


class _Search(msgspec.Struct):
    hits: _Hits


class _Stream(msgspec.Struct):
    stream: msgspec.Raw
    values: list[msgspec.Raw]


class _Streams(msgspec.Struct):
    result: list[_Stream]


class _Query(msgspec.Struct):
    data: _Streams


class _Scope(msgspec.Struct, rename="camel"):
    log_records: list[msgspec.Raw] = []


class _Resource(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = msgspec.Raw(b"{}")
    scope_logs: list[_Scope] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_logs: list[_Resource]


Part = tuple[bytes, list[msgspec.Raw]]  # what is told of all records, and the records


class Form(NamedTuple):
    """How one kind of document is read.

    `parts` are those of a document of type `type`; `record` spells a record, `raw`,
    of a part that tells `of`, as an object. `line_at` is the line of an indented
    document `below` lines under which a record's own line stands.
    """

    begins: re.Pattern[bytes]
    type: object
    parts: Callable[..., Iterator[Part]]
    record: pl.Expr = pl.col("raw")
    line_at: str = r"^[\s{]*" + _KEYS
    below: int = 0


def _begins(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\s*" + pattern, re.DOTALL)


def _flat(spelled: pl.Expr) -> pl.Expr:
    """Spell the typed values of OTLP as JSON does."""
    spelled = spelled.str.replace_all(_VALUE, "${1}")
    named = spelled.str.replace_all(_NAMED, "${1}:${2}")
    return named.str.replace_all(_LISTED, "${1}{${2}}")


_PAIR = pl.col("raw").str.extract_groups(rf'(?s)^\[\s*"(\d+)"\s*,\s*({_STRING})').struct
FORMS = (
    Form(_begins(rb'\[\s*\{\s*"'), list[msgspec.Raw], lambda d: iter([(b"", d)])),
    Form(
        _begins(rb'\{\s*"events"\s*:\s*\['), _Events, lambda d: iter([(b"", d.events)])
    ),
    Form(
        _begins(rb'\{[^\[\]]{0,200}"results"\s*:\s*\[\s*\{'),
        _Results,
        lambda d: iter([(b"", d.results)]),
    ),
    Form(
        _begins(rb'\{.{0,400}"hits"\s*:\s*\[\s*\{\s*"_index"'),
        _Search,
        lambda d: iter([(b"", d.hits.hits)]),
    ),
    Form(
        _begins(rb'\{.{0,400}"result"\s*:\s*\[\s*\{\s*"stream"\s*:'),
        _Query,
        lambda d: ((bytes(s.stream), s.values) for s in d.data.result),
        pl.concat_str(
            *(pl.lit('{"labels":'), pl.col("of"), pl.lit(',"timestamp":"')),
            *(_PAIR.field("1"), pl.lit('","line":'), _PAIR.field("2"), pl.lit("}")),
        ),
        line_at=r'^\s*"\d{19}",$',
        below=1,
    ),
    Form(
        _begins(rb'\{\s*"resourceLogs"\s*:\s*\['),
        _Export,
        lambda d: (
            (bytes(of.resource), scope.log_records)
            for of in d.resource_logs
            for scope in of.scope_logs
        ),
        pl.concat_str(
            *(pl.lit('{"resource":'), _flat(pl.col("of")), pl.lit(",")),
            _flat(pl.col("raw")).str.replace(r"^\s*\{", ""),
        ),
        line_at=r'^\s*"body"\s*:\s*\{$',
        below=1,
    ),
)
# one object after the other, each over several lines
_OBJECTS = Form(_begins(rb'\{\s*\n\s*"'), list[msgspec.Raw], FORMS[0].parts)


def form(head: bytes) -> Form | None:
    """Return the form of a document with log records, judged by its head, or None."""
    nested = next((f for f in FORMS[1:] if f.begins.match(head)), None)
    if nested is None and _LINE_KEY.search(head):
        return next((f for f in (FORMS[0], _OBJECTS) if f.begins.match(head)), None)
    return nested


def read(data: bytes, form: Form) -> pl.DataFrame:
    """Return the records of a file, cut or whole: `line` Int64 and `raw`, an object.

    Raises msgspec.DecodeError if it holds no such documents.
    """
    documents, data = _documents(data, form)
    parts = [
        (line, *part) for line, document in documents for part in form.parts(document)
    ]
    records = chain.from_iterable(part[2] for part in parts)
    raw = pl.Series("raw", list(map(bytes, records)), pl.Binary).cast(pl.String)
    told = pl.DataFrame(
        {"line": [p[0] for p in parts], "of": [p[1] for p in parts]},
        schema={"line": pl.Int64, "of": pl.Binary},
    ).with_columns(pl.col("of").cast(pl.String))
    sizes = pl.Series([len(part[2]) for part in parts], dtype=pl.Int64)
    whose = pl.int_range(len(parts), eager=True).repeat_by(sizes).explode().drop_nulls()
    lines = decoded(data, 1).lines
    at = lines.filter(pl.col("raw").str.contains(form.line_at))["line"] + form.below
    told = told[whose].with_columns(raw)
    if at.len() == raw.len():
        told = told.with_columns(at.alias("line"))
    return told.select("line", form.record.alias("raw"))


def _documents(data: bytes, form: Form) -> tuple[list[tuple[int, Any]], bytes]:
    """Return the documents of a file with the lines they begin on, and what was read.

    A file that is one document after the other, or is cut, is read as far as it goes.
    """
    decoder = msgspec.json.Decoder(form.type)
    try:
        return [(1, decoder.decode(data))], data
    except msgspec.DecodeError:
        if form is _OBJECTS:
            listed = b"[" + re.sub(rb"\n\}\s*\n\{", b"\n},{", data) + b"]"
            return [(1, decoder.decode(listed))], data
    try:
        return list(enumerate(decoder.decode_lines(data), 1)), data
    except msgspec.DecodeError:
        data = _closed(data)
        return [(1, decoder.decode(data))], data


def _closed(data: bytes) -> bytes:
    """Close a document behind its last whole record: the brace below the first one."""
    first = _FIRST_RECORD.search(data)
    if first is None:
        return data
    last = data.rfind(first[1] + b"}") + len(first[1]) + 1
    return data[:last] + (b"]}" if data.lstrip().startswith(b"{") else b"]")
