"""Converts dump entries to rows of `entries` and `templates`.

Most fields of a call (group, name, sizes, dtypes, state) repeat: every training step
makes the same few dozen calls. So entries are interned by those fields, Python
processes each distinct call once, and polars maps the result to all entries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.parsers.flight_recorder.fields import NUMBERS, SHARED, dtype
from ncclforensics.parsers.limits import MAX_SEQ, MAX_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ncclforensics.parsers.flight_recorder.fields import Columns

# group ranks: both `send 0->3` and `recv 3<-0` go from 0 to 3; `?` is any source
P2P = re.compile(r"(send|recv) (\d{1,9})(?:->|<-)(\d{1,9}|\?)")
ENTRY_BITS = 20  # a dump has fewer entries, so fewer distinct calls, than 2^20
BACKEND = re.compile(r"[A-Za-z][\w-]*")

Operation = tuple[str | None, str | None, int | None, int | None]
GroupKey = tuple[str | None, str | None, str | None]  # pg_id, pg, pg_desc


@dataclass(frozen=True, slots=True)
class Calls:
    """The distinct calls of a dump, and the distinct call of each entry.

    `fields` has a column per field of SHARED. `groups` and `p2p` give the process group
    of each distinct call and whether it is point-to-point. `numbers` maps each entry to
    its distinct call; `firsts` is the first entry of each distinct call, ascending.
    """

    fields: Mapping[str, Sequence[Any]]
    numbers: list[int]
    groups: list[GroupKey]
    p2p: list[bool | None]
    firsts: list[int]

    @property
    def first(self) -> dict[GroupKey, int]:
        """Return the index of each group's first entry, in entry order."""
        result: dict[GroupKey, int] = {}
        for first, group in zip(self.firsts, self.groups, strict=True):
            result.setdefault(group, first)
        return result

    def last(self, latest: Iterable[int]) -> dict[str | None, bool]:
        """Return for each pg_id whether its last entry is point-to-point.

        `latest` lists entry indices, newest first; one per distinct call is enough.
        """
        result: dict[str | None, bool] = {}
        for number in dict.fromkeys(map(self.numbers.__getitem__, latest)):
            result.setdefault(self.groups[number][0], self.p2p[number] is True)
        return result


@lru_cache(maxsize=4096)
def operation(
    name: str | None,
) -> tuple[str | None, str | None, int | None, int | None]:
    """Split a profiling_name into backend, op, src and dst (group ranks).

    `nccl:all_reduce` has no src or dst. A name without a backend is all op.
    """
    if name is None:
        return None, None, None, None
    backend, colon, op = name.partition(":")
    if not colon or not BACKEND.fullmatch(backend):
        backend, op = "", name
    ends = P2P.fullmatch(op)
    if ends is None:
        return backend or None, op, None, None
    own, peer = int(ends[2]), None if ends[3] == "?" else int(ends[3])
    src, dst = (own, peer) if ends[1] == "send" else (peer, own)
    return backend or None, ends[1], src, dst


def calls(columns: Columns) -> Calls:
    """Intern the entries by the fields of SHARED."""
    missing = [None] * columns.height
    shared = [columns.shared.get(key, missing) for key in SHARED]
    rows = list(zip(*shared, strict=True))
    keys = list(map(msgspec.msgpack.Encoder().encode, rows))
    distinct = dict(zip(keys, rows, strict=True))
    number = {key: n for n, key in enumerate(distinct)}
    fields = dict(zip(SHARED, zip(*distinct.values(), strict=True), strict=True))
    pairs = zip(fields["pg_id"], fields["process_group"], strict=True)
    names = zip(fields["profiling_name"], fields["is_p2p"], strict=True)
    own = [number[key] for key in keys]
    first = dict(zip(reversed(own), range(len(own) - 1, -1, -1), strict=True))
    return Calls(
        fields,
        own,
        [_group(pg_id, pair) for pg_id, pair in pairs],
        [_is_p2p(name, told) for name, told in names],
        [first[n] for n in range(len(first))],
    )


def _group(pg_id: int | None, process_group: Sequence[str] | None) -> GroupKey:
    name, desc = [*(process_group or ()), None, None][:2]
    return None if pg_id is None else str(pg_id), name, desc


def _is_p2p(name: str | None, told: bool | None) -> bool | None:
    """Return `told`, or derive it from the name: torch before 2.4 has no `is_p2p`."""
    if told is None and name is not None:
        return operation(name)[1] in ("send", "recv")
    return told


def template_base(source: str) -> int:
    """Return the base of a source's template ids: a hash, so that sources differ."""
    digest = blake2b(source.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> ENTRY_BITS << ENTRY_BITS


def numbers(told: Sequence[tuple[Columns, Calls, int]]) -> pl.DataFrame:
    """Return the fields of NUMBERS of all entries of several dumps, and `template`.

    `told` has columns, calls and the template base per dump. A field that no dump has
    is left out. `template` is UInt64.
    """
    keys = [key for key in NUMBERS if any(key in own.numbers for own, _, _ in told)]
    found = {
        key: pl.Series(
            list(chain.from_iterable(own.number(key) for own, _, _ in told)),
            dtype=dtype(key),
        )
        for key in keys
    }
    bases = pl.Series([base for _, _, base in told], dtype=pl.UInt64)
    heights = pl.Series([len(made.numbers) for _, made, _ in told])
    own = list(chain.from_iterable(made.numbers for _, made, _ in told))
    template = pl.Series(own, dtype=pl.UInt64) + bases.repeat_by(heights).explode()
    return pl.DataFrame({**found, "template": template})


def counted(rows: pl.DataFrame, made: Calls, base: int) -> pl.Series:
    """Return `record_id` for all entries of a torch 2.2 dump, given their `numbers`.

    Torch 2.2 does not write it, so entries are numbered in order: from 1 if a group's
    first calls were evicted from the ring buffer, otherwise from 0.
    """
    oldest: dict[str | None, int] = {}
    for template, seq in rows.group_by("template").agg(pl.col("seq_id").min()).rows():
        pg_id = made.groups[template - base][0]
        oldest[pg_id] = min(oldest.get(pg_id, MAX_SEQ), seq or 0)
    first = int(max(oldest.values(), default=0) > 1)
    return pl.int_range(first, first + rows.height, eager=True).alias("record_id")


def entries(plain: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `entries` from their `numbers`; other columns are kept.

    Times that are 0 (null in JSON dumps), negative, or beyond MAX_TIME become null.
    """
    micros = pl.col("time_created_us")
    created = pl.when(micros < 2**53).then(micros * 1000)  # beyond, ns overflow
    return tables.with_nulls(plain, dict.fromkeys(NUMBERS, pl.Int64())).select(
        # torch 2.2 and 2.3 count collectives and P2P in one sequence number
        pl.coalesce("seq_id", "collective_seq_id").alias("seq"),
        pl.col("p2p_seq_id").alias("p2p_seq"),
        "op_id",
        "record_id",
        _time(pl.coalesce(created, "time_created_ns")).alias("t"),
        _time(pl.col("time_discovered_started_ns")).alias("t_started"),
        _time(pl.col("time_discovered_completed_ns")).alias("t_completed"),
        "duration_ms",
        pl.exclude(*NUMBERS),
    )


def _time(nanoseconds: pl.Expr) -> pl.Expr:
    is_time = (nanoseconds > 0) & (nanoseconds < MAX_TIME)
    return pl.when(is_time).then(nanoseconds).cast(tables.TIME)


def templates(
    told: Sequence[tuple[Calls, Callable[[GroupKey], int | None], int]],
) -> pl.DataFrame:
    """Return the rows of `templates` of several dumps, without rank, source and line.

    `told` has, per dump, its calls, a lookup of its rank within each group, and the
    template base.
    """
    schema = tables.SCHEMAS["collectives"]

    def field(key: str) -> list[Any]:
        return [value for made, _, _ in told for value in made.fields[key]]

    groups = [group for made, _, _ in told for group in made.groups]
    named = list(map(operation, field("profiling_name")))
    own = [base + n for made, _, base in told for n in range(len(made.groups))]
    plain: dict[str, Sequence[Any]] = {
        "pg": [group[1] for group in groups],
        "pg_id": [group[0] for group in groups],
        "pg_desc": [group[2] for group in groups],
        "group_rank": [
            place(group) for made, place, _ in told for group in made.groups
        ],
        "backend": [backend for backend, _, _, _ in named],
        "op": [op for _, op, _, _ in named],
        "src": [src for _, _, src, _ in named],
        "dst": [dst for _, _, _, dst in named],
        "is_p2p": [is_p2p for made, _, _ in told for is_p2p in made.p2p],
        **{key: field(key) for key in ("state", "retired", "timeout_ms")},
    }
    lists = {
        "in_sizes": field("input_sizes"),
        "out_sizes": field("output_sizes"),
        "in_dtypes": field("input_dtypes"),
        "out_dtypes": field("output_dtypes"),
    }
    return pl.DataFrame(
        [
            pl.Series("template", own, dtype=pl.UInt64),
            *(pl.Series(name, v, dtype=schema[name]) for name, v in plain.items()),
            *nested(lists, schema).get_columns(),
        ]
    )


def nested(columns: Mapping[str, Sequence[Any]], schema: tables.Schema) -> pl.DataFrame:
    """Build list columns through JSON, 20 times faster than from Python lists."""
    texts = {name: msgspec.json.encode(v).decode() for name, v in columns.items() if v}
    if not texts:
        return pl.DataFrame(schema={name: schema[name] for name in columns})
    return pl.DataFrame([texts]).select(
        pl.col(name).str.json_decode(pl.List(schema[name])).explode() for name in texts
    )
