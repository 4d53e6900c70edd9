"""JSON documents that hold log records: a list of them, or an answer with streams.

`gcloud logging read --format json`, `aws logs get-log-events`, `journalctl -o
json-pretty`, Fluent Bit's `format json`; the answers of Elasticsearch's and Loki's HTTP
API and of Splunk; OTLP, as the file exporter of the OpenTelemetry collector and
protobuf's JSON spell it. A file may hold one document, or one per line. Every record
becomes an object that `json_records` reads. Rendered from the documentation of each.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import polars as pl

from ncclforensics.parsers.logs.lines import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEYS = r'"(?:MESSAGE|log|message|msg|line|textPayload|_raw|body)"\s*:'
_LINE_KEY = re.compile((_KEYS + r'\s*"').encode())
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

    `begins` captures how its first record begins, `closes` what follows the last one.
    `parts` are those of a document of type `type`; `record` spells a record, `raw`,
    of a part that tells `of`, as an object. `line_at` is the line of an indented
    document `below` lines under which a record's own line stands.
    """

    begins: re.Pattern[bytes]
    type: object
    parts: Callable[..., Iterator[Part]]
    closes: bytes = b""
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
_FIRST = rb'(\{\s*"[^"]*")'  # of a record
FORMS = (
    Form(
        _begins(rb"\[\s*" + _FIRST), list[msgspec.Raw], lambda d: iter([(b"", d)]), b"]"
    ),
    Form(
        _begins(rb'\{\s*"events"\s*:\s*\[\s*' + _FIRST),
        _Events,
        lambda d: iter([(b"", d.events)]),
        b"]}",
    ),
    Form(
        _begins(rb'\{[^\[\]]{0,200}"results"\s*:\s*\[\s*' + _FIRST),
        _Results,
        lambda d: iter([(b"", d.results)]),
        b"]}",
    ),
    Form(
        _begins(rb'\{.{0,400}"hits"\s*:\s*\[\s*(\{\s*"_index")'),
        _Search,
        lambda d: iter([(b"", d.hits.hits)]),
        b"]}}",
    ),
    Form(
        _begins(
            rb'\{.{0,400}"result"\s*:\s*\[\s*\{\s*"stream"\s*:.*?"values"\s*:\s*\[\s*'
            rb'(\[\s*")'
        ),
        _Query,
        lambda d: ((bytes(s.stream), s.values) for s in d.data.result),
        b"]}]}}",
        pl.concat_str(
            *(pl.lit('{"labels":'), pl.col("of"), pl.lit(',"timestamp":"')),
            *(_PAIR.field("1"), pl.lit('","line":'), _PAIR.field("2"), pl.lit("}")),
        ),
        line_at=r'^\s*"\d{19}",$',
        below=1,
    ),
    Form(
        _begins(rb'\{\s*"resourceLogs"\s*:\s*\[.*?"logRecords"\s*:\s*\[\s*' + _FIRST),
        _Export,
        lambda d: (
            (bytes(of.resource), scope.log_records)
            for of in d.resource_logs
            for scope in of.scope_logs
        ),
        b"]}]}]}",
        pl.concat_str(
            *(pl.lit('{"resource":'), _flat(pl.col("of")), pl.lit(",")),
            _flat(pl.col("raw")).str.replace(r"^\s*\{", ""),
        ),
        line_at=r'^\s*"body"\s*:\s*\{$',
        below=1,
    ),
)
# one object after the other, each over several lines
_OBJECTS = Form(_begins(rb'(\{\s*\n\s*")'), list[msgspec.Raw], FORMS[0].parts)


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

    A file that is one document per line, or is cut, is read as far as it is whole.
    """
    decoder = msgspec.json.Decoder(form.type)
    if form is _OBJECTS:
        data = data[: data.rfind(b"\n}") + 2]
        listed = b"[" + re.sub(rb"\n\}\s*\n\{", b"\n},{", data) + b"]"
        return [(1, decoder.decode(listed))], data
    for whole in (data, data[: data.rfind(b"\n")]):
        with suppress(msgspec.DecodeError):
            return list(enumerate(decoder.decode_lines(whole), 1)), whole
    with suppress(msgspec.DecodeError):
        return [(1, decoder.decode(data))], data
    data = _closed(data, form)
    return [(1, decoder.decode(data))], data


def _closed(data: bytes, form: Form) -> bytes:
    """Close a document in front of its last record, which is not whole."""
    first = form.begins.match(data)
    end = len(data)
    while first and (end := data.rfind(first[1], first.end(), end)) > 0:
        above = data[:end].rstrip()
        if above.endswith(b","):
            return above[:-1] + form.closes
    return data
