"""Entries of a dump as rows of `collectives`.

Most of a call (group, name, sizes, dtypes, state) repeats: a training step makes the
same few dozen calls again and again. So entries are interned by those fields, Python
looks at each distinct call once, and polars hands the result out to all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TYPE_CHECKING

import msgspec
import polars as pl

from ncclforensics import tables

if TYPE_CHECKING:
    from ncclforensics.parsers.fr_fields import Columns
    from collections.abc import Callable, Mapping, Sequence

# what tells calls apart, without what differs from call to call
CALL = (
    "pg_id",
    "process_group",
    "profiling_name",
    "is_p2p",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
    "state",
    "retired",
    "timeout_ms",
)
# group ranks: `send 0->3` goes from 0 to 3, `recv 3<-0` as well; `?` is any source
P2P = re.compile(r"(send|recv) (\d{1,9})(?:->|<-)(\d{1,9}|\?)")
BACKEND = re.compile(r"[A-Za-z][\w-]*")

GroupKey = tuple[str | None, str | None, str | None]  # pg_id, pg, pg_desc


@dataclass(frozen=True, slots=True)
class Calls:
    """The distinct calls of a dump, and which of them each entry is.

    `groups` has the group of each distinct call, `p2p` whether it is point to point;
    `last` is the distinct call that a group (by pg_id) made last, `first` the index of
    the first entry of a group.
    """

    rows: Sequence[tuple[Any, ...]]
    numbers: list[int]
    groups: list[GroupKey]

    @property
    def first(self) -> Mapping[GroupKey, int]:
        """Return the index of the first entry of each group, in that order."""
        found: dict[int, int] = {}
        for number, entry in zip(
            reversed(self.numbers), range(len(self.numbers) - 1, -1, -1), strict=True
        ):
            found[number] = entry
        result: dict[GroupKey, int] = {}
        for number in sorted(found, key=found.__getitem__):
            result.setdefault(self.groups[number], found[number])
        return result


@lru_cache(maxsize=4096)
def operation(name: str | None) -> tuple[str | None, str | None, int | None, int | None]:
    """Split a profiling_name into backend, op, src and dst (group ranks).

    `nccl:all_reduce` has no src and dst; a name without a backend is all op.
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
    """Intern the entries by what their calls have in common."""
    rows = list(zip(*(columns[key] for key in CALL), strict=True))
    keys = list(map(msgspec.msgpack.Encoder().encode, rows))
    distinct = dict(zip(keys, rows, strict=True))
    number = {key: n for n, key in enumerate(distinct)}
    different = list(distinct.values())
    return Calls(
        different,
        list(map(number.__getitem__, keys)),
        [_group(row[0], row[1]) for row in different],
    )


def _group(pg_id: int | None, process_group: Sequence[str] | None) -> GroupKey:
    name, desc = [*(process_group or ()), None, None][:2]
    return None if pg_id is None else str(pg_id), name, desc


def collectives(
    columns: Columns, made: Calls, group_rank: Callable[[GroupKey], int | None]
) -> pl.DataFrame:
    """Return the rows of `collectives` without rank, stack and cite.

    Times that are 0 (JSON's null) or negative are null. Calls of torch 2.2 and 2.3
    count collectives and P2P in one `seq`.
    """
    numbers = pl.Series(made.numbers, dtype=pl.UInt32)
    seq = "seq_id" if "seq_id" in columns.values else "collective_seq_id"
    own = {
        "seq": columns[seq],
        "p2p_seq": columns["p2p_seq_id"],
        "op_id": columns["op_id"],
        "record_id": columns["record_id"],
        "t": columns["time_created_ns"],
        "t_started": columns["time_discovered_started_ns"],
        "t_completed": columns["time_discovered_completed_ns"],
    }
    frame = pl.DataFrame(
        [
            *_distinct(made, group_rank)[numbers].get_columns(),
            *(pl.Series(name, v, dtype=pl.Int64) for name, v in own.items()),
            pl.Series("duration_ms", columns["duration_ms"], dtype=pl.Float64),
        ]
    )
    if "time_created_us" in columns.values:
        micros = pl.Series(columns["time_created_us"], dtype=pl.Int64)
        micros = micros.set(micros.abs() >= 2**53, None)  # ns of it must fit
        frame = frame.with_columns(pl.coalesce("t", micros * 1000))
    times = [pl.col(c) for c in ("t", "t_started", "t_completed")]
    return frame.with_columns(
        pl.when(t > 0).then(t).cast(tables.TIME).name.keep() for t in times
    )


def _distinct(
    made: Calls, group_rank: Callable[[GroupKey], int | None]
) -> pl.DataFrame:
    """Return one row per distinct call: the columns that the calls share."""
    fields = dict(zip(CALL, zip(*made.rows, strict=True), strict=True))
    named = [operation(name) for name in fields["profiling_name"]]
    is_p2p = [
        op in ("send", "recv") if told is None and op is not None else told
        for told, (_, op, _, _) in zip(fields["is_p2p"], named, strict=True)
    ]
    schema = tables.SCHEMAS["collectives"]
    plain: dict[str, Sequence[Any]] = {
        "pg": [group[1] for group in made.groups],
        "pg_id": [group[0] for group in made.groups],
        "pg_desc": [group[2] for group in made.groups],
        "group_rank": [group_rank(group) for group in made.groups],
        "backend": [backend for backend, _, _, _ in named],
        "op": [op for _, op, _, _ in named],
        "src": [src for _, _, src, _ in named],
        "dst": [dst for _, _, _, dst in named],
        "is_p2p": is_p2p,
        "state": fields["state"],
        "retired": fields["retired"],
        "timeout_ms": fields["timeout_ms"],
    }
    lists = {
        "in_sizes": fields["input_sizes"],
        "out_sizes": fields["output_sizes"],
        "in_dtypes": fields["input_dtypes"],
        "out_dtypes": fields["output_dtypes"],
    }
    return pl.DataFrame(
        [
            *(pl.Series(name, v, dtype=schema[name]) for name, v in plain.items()),
            *(nested(name, v, schema[name]) for name, v in lists.items()),
        ]
    )


def nested(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Build a Series of lists; by way of JSON, 20 times faster than from Python lists."""
    if not values:
        return pl.Series(name, [], dtype=dtype)
    text = msgspec.json.encode(values).decode()
    return pl.Series(name, [text]).str.json_decode(pl.List(dtype)).explode()
