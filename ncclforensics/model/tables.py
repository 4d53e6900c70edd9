"""The schema of every frame, in one place.

Parsers pass their frames through `conform`, which adds the columns that a format lacks
as nulls and raises on a parser's mistake. `rank` is always the global rank; the rank
within a process group is `group_rank`. Times are UTC nanoseconds. The last two columns
of a row cite its origin: `source` is the name of the file within the evidence, `line`
its 1-based line (in a dump: the 1-based entry).
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.columns import same

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncclforensics.model.notes import Note

Schema = dict[str, pl.DataType]

# roles of `events` that a healthy job does not print
FAILING = ("culprit", "victim", "either")
# the same, and an agent's message about a failed child
TROUBLED = (*FAILING, "agent")
# backends that also set `retired` on a call that they abort
ABORTS_RETIRE = ("nccl", "ncclx", "rccl", "rcclx", "mccl", "hccl", "xccl")
# NCCL's calls between two ranks. They pair up in any order, so that the two sides share
# no number
NCCL_P2P = ("Send", "Recv", "PutSignal", "Signal", "WaitSignal")

YEARLESS = 1972  # the year of times whose year is unknown: a leap year
TIME = pl.Datetime("ns", "UTC")
CITE: Schema = {"source": pl.String(), "line": pl.Int64()}

# Who wrote something, as far as the line, its prefixes and its path identify it. `task`
# is the launcher's number of the process; it is the global rank only if each task is
# one rank. `host_alias` is what a launcher's prefix or the path calls the host: a pod,
# a service of compose, a machine of SageMaker. `host` is what the host calls itself;
# where nothing tells, `correlate` sets it to the alias. `in_pod` is the pod that a
# prefix tells, NAMESPACE/POD/CONTAINER; what it does not tell is empty.
WHO: Schema = {
    "rank": pl.Int64(),
    "local_rank": pl.Int64(),
    "task": pl.Int64(),
    "host": pl.String(),
    "host_alias": pl.String(),
    "in_pod": pl.String(),
    "pid": pl.Int64(),
    "device": pl.Int64(),
    "attempt": pl.Int64(),
}

# A process group as one rank names it. `pg_id` counts the groups of one process, so it
# means different groups on different ranks; `pg` is the name that all members share.
GROUP: Schema = {
    "pg": pl.String(),
    "pg_id": pl.String(),
    "pg_desc": pl.String(),
    "group_rank": pl.Int64(),
}

CALLS: Schema = {
    "call": pl.Int64(),
    "group": pl.String(),
    "pg": pl.String(),
    "pg_desc": pl.String(),
    "seq": pl.Int64(),
    "op": pl.String(),
    "is_p2p": pl.Boolean(),
    "members": pl.List(pl.Int64()),
    "waiting": pl.List(pl.Int64()),
    "behind": pl.List(pl.Int64()),
    "done": pl.List(pl.Int64()),
    "absent": pl.List(pl.Int64()),
    "unseen": pl.List(pl.Int64()),
    "unstarted": pl.List(pl.Int64()),
    "stack": pl.UInt64(),
    "t": TIME,
    **CITE,
}

SCHEMAS: dict[str, Schema] = {
    # a file of the evidence; `why` is the reason for `kind`; `cut`: the last line is
    # incomplete, or a dump could not be read to its end; `modified`: the mtime
    "sources": {
        "kind": pl.String(),
        "why": pl.String(),
        "rank": pl.Int64(),
        "local_rank": pl.Int64(),
        "host": pl.String(),
        "attempt": pl.Int64(),
        "stream": pl.String(),
        "bytes": pl.Int64(),
        "lines": pl.Int64(),
        "rows": pl.Int64(),
        "cut": pl.Boolean(),
        "sha256": pl.String(),
        "modified": TIME,
        **CITE,
    },
    # a recognised log line; `role` is who prints such a line, according to the grammar;
    # `prefix` stands in front of `text` and tells who prints it, null if it does not;
    # `yearless` and `dayless` are times without one (see parsers.logs.timestamps)
    "events": {
        "message": pl.String(),
        "role": pl.String(),
        "level": pl.String(),
        "prefix": pl.String(),
        "text": pl.String(),
        "t": TIME,
        "yearless": TIME,
        "dayless": TIME,
        **WHO,
        **GROUP,
        **CITE,
    },
    # identities of ranks: claims before `correlate`, one row per rank after it
    "ranks": {
        "rank": pl.Int64(),
        "local_rank": pl.Int64(),
        "host": pl.String(),
        "pid": pl.Int64(),
        "device": pl.Int64(),
        "bus_id": pl.String(),
        "attempt": pl.Int64(),
        **CITE,
    },
    # a process group as one rank's evidence lists it; `members` are global ranks
    "groups": {
        "rank": pl.Int64(),
        **GROUP,
        "members": pl.List(pl.Int64()),
        "size": pl.Int64(),
        **CITE,
    },
    # one call of one rank; sizes are one shape per tensor, `src`/`dst` group ranks.
    # Calls of dumps are stored in two frames and joined on demand: see Frames.scan
    "collectives": {
        "rank": pl.Int64(),
        **GROUP,
        "seq": pl.Int64(),
        "p2p_seq": pl.Int64(),
        "op_id": pl.Int64(),
        "record_id": pl.Int64(),
        "op": pl.String(),
        "backend": pl.String(),
        "is_p2p": pl.Boolean(),
        "src": pl.Int64(),
        "dst": pl.Int64(),
        "in_sizes": pl.List(pl.List(pl.Int64())),
        "out_sizes": pl.List(pl.List(pl.Int64())),
        "in_dtypes": pl.List(pl.String()),
        "out_dtypes": pl.List(pl.String()),
        "state": pl.String(),
        "retired": pl.Boolean(),
        "t": TIME,
        "t_started": TIME,
        "t_completed": TIME,
        "duration_ms": pl.Float64(),
        "timeout_ms": pl.Int64(),
        "stack": pl.UInt64(),
        **CITE,
    },
    # a rank's progress in a group; `timed_out` is the call that its watchdog gave up on
    "positions": {
        "rank": pl.Int64(),
        **GROUP,
        "op": pl.String(),
        "timed_out": pl.Int64(),
        "last_enqueued": pl.Int64(),
        "last_started": pl.Int64(),
        "last_completed": pl.Int64(),
        "numel_in": pl.Int64(),
        "numel_out": pl.Int64(),
        "timeout_ms": pl.Int64(),
        "ran_ms": pl.Int64(),
        "t": TIME,
        "attempt": pl.Int64(),
        **CITE,
    },
    # an interned stack: `stack` is its id, `depth` 0 the innermost frame
    "stacks": {
        "stack": pl.UInt64(),
        "depth": pl.Int64(),
        "function": pl.String(),
        "file": pl.String(),
        "file_line": pl.Int64(),
        **CITE,
    },
    # a process that ended; `code` as Python spells it (-9 is SIGKILL)
    "exits": {
        **WHO,
        "code": pl.Int64(),
        "reason": pl.String(),
        "reported_by": pl.String(),
        "called_root_cause": pl.Boolean(),
        "t": TIME,
        **CITE,
    },
    # correlated: a rank's progress in a group, from dumps and logs together;
    # `waits_in` is its first unfinished call there, `place` its order on that rank
    "standings": {
        "rank": pl.Int64(),
        "group": pl.String(),
        "pg": pl.String(),
        "pg_desc": pl.String(),
        "waits_in": pl.Int64(),
        "op": pl.String(),
        "enqueued": pl.Int64(),
        "completed": pl.Int64(),
        "place": pl.Int64(),
        "t": TIME,
        **CITE,
    },
    # correlated: a call that blocks some rank, and the state of each member in it:
    # `behind` have joined it but are blocked earlier; `unseen` have no evidence;
    # `unstarted` are those of `waiting` whose GPU has not started it while others' have
    "calls": CALLS,
    # correlated: a root of the wait-for graph: others wait for this rank, it waits for
    # none; `call` is where most of them wait directly, `blocked` counts all ranks that
    # depend on it
    "roots": {
        "rank": pl.Int64(),
        "why": pl.String(),
        "call": pl.Int64(),
        "blocked": pl.Int64(),
    },
    # correlated: whether a rank moved between two observations of a `kind`: dump,
    # stack, ras, log (the watchdog's counts) or process (its CPU time). `moved` is null
    # if nothing changed and it is unknown whether time passed, or if there is no second
    # observation. `t` is the time of the last one, which is cited; `apart_ms` the known
    # time between both
    "looks": {
        "rank": pl.Int64(),
        "kind": pl.String(),
        "moved": pl.Boolean(),
        "what": pl.String(),
        "apart_ms": pl.Int64(),
        "t": TIME,
        "earlier_source": pl.String(),
        **CITE,
    },
    # correlated, of a job that runs: in each slice of its history the share of the time
    # that a rank works longer than the ranks of its role
    "lateness": {
        "rank": pl.Int64(),
        "slice": pl.Int64(),
        "share": pl.Float64(),
    },
    # jobs and attempts whose rows `correlate` left out; a null stands for the others.
    # An attempt ran from `first_step` to `step`, according to the cited line
    "others": {
        "job": pl.String(),
        "attempt": pl.Int64(),
        "first_step": pl.Int64(),
        "step": pl.Int64(),
        "text": pl.String(),
        **CITE,
    },
    # NCCL's calls in one communicator that a log has from line `first` to above `line`,
    # which are counted and not read; `numbered` are those that are no P2P
    "unread_calls": {
        "first": pl.Int64(),
        "calls": pl.Int64(),
        "numbered": pl.Int64(),
        **CITE,
    },
    # of a dataset: the last line with text of a log above the line `end`, its first
    # trouble, or of all where there is none
    "last_lines": {"end": pl.Int64(), "text": pl.String(), **CITE},
    # what was damaged, skipped or assumed, and at which stage
    "notes": {"stage": pl.String(), "text": pl.String(), **CITE},
}


# Fields that repeat from step to step are stored in a dump's few templates. Each entry
# refers to a template and holds only its own fields.
OWN = (
    *("seq", "p2p_seq", "op_id", "record_id", "t", "t_started", "t_completed"),
    *("duration_ms", "stack", "line"),
)
_CALL = SCHEMAS["collectives"]
INNER: dict[str, Schema] = {
    "entries": {"template": pl.UInt64(), **{c: _CALL[c] for c in OWN}},
    "templates": {
        "template": pl.UInt64(),
        **{c: dtype for c, dtype in _CALL.items() if c not in OWN},
        "line": pl.Int64(),  # of the first entry
    },
    # the unfinished calls, and of the finished ones those that are first, last or
    # extreme in some respect; each stands for `times` calls, and together for all
    "outline": {"times": pl.Int64(), **_CALL},
    # the calls that may block each rank, the most likely first (`choice` 0)
    "held": {
        "rank": pl.Int64(),
        "choice": pl.Int64(),
        "group": pl.String(),
        "seq": pl.Int64(),
        "op": pl.String(),
        "is_p2p": pl.Boolean(),
        "src": pl.Int64(),
        "dst": pl.Int64(),
        "t": TIME,
        **CITE,
    },
    # the group that a rank refers to; without a name, only `pg_id` distinguishes groups
    "group_names": {
        "rank": pl.Int64(),
        **dict.fromkeys(("pg", "pg_desc", "pg_id", "group"), pl.String()),
    },
}
SCHEMAS |= INNER


def picked(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return what a frame has of the columns of schema `name`, conformed to it."""
    own = [column for column in frame.columns if column in SCHEMAS[name]]
    return conform(name, frame[own]) if frame.height else empty(name)


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with exactly the columns, order and dtypes of schema `name`.

    Missing columns become null. Raises ValueError on a column that is not in the
    schema, and polars' InvalidOperationError on a value that does not fit its dtype.
    """
    schema = SCHEMAS[name]
    if strangers := [column for column in frame.columns if column not in schema]:
        raise ValueError(f"frame {name!r} has no column {', '.join(strangers)}")
    own = {column.name: column for column in frame.get_columns()}
    return pl.DataFrame(
        [
            own[column].cast(dtype)
            if column in own
            else same(column, None, frame.height, dtype)
            for column, dtype in schema.items()
        ]
    )


def with_nulls(frame: pl.DataFrame, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Add the columns of `types` that a frame lacks, as nulls.

    Lines of a message have only the captures that one of them had at least.
    """
    nulls = [pl.lit(None, types[c]).alias(c) for c in types if c not in frame.columns]
    return frame.with_columns(nulls) if nulls else frame


@cache
def empty(name: str) -> pl.DataFrame:
    """Return the frame `name` without rows."""
    return without_rows(SCHEMAS[name])


def without_rows(schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a frame of `schema` without rows, each time the same one."""
    return _without_rows(tuple(schema.items()))


@cache
def _without_rows(columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


def rows(name: str, records: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Build a conforming frame from a few records (never from a whole log)."""
    listed = list(records)
    if not listed:
        return empty(name)
    dtypes = SCHEMAS[name]
    used = {c: dtypes[c] for record in listed for c in record if c in dtypes}
    strangers = {c for record in listed for c in record} - used.keys()
    if strangers:
        raise ValueError(f"frame {name!r} has no column {', '.join(sorted(strangers))}")
    return conform(name, pl.DataFrame(listed, schema=used, strict=False))


def noted(notes: Iterable[Note]) -> pl.DataFrame:
    """Return notes as a frame of schema `notes`."""
    return rows("notes", (asdict(note) for note in notes))


def begun() -> pl.Expr:
    """Return an expression: whether a row of `collectives` shows that it started."""
    started = pl.col("t_started").is_not_null() | (pl.col("state") == "started")
    return started.fill_null(False)


def done() -> pl.Expr:
    """Return an expression: whether a row of `collectives` shows that it finished."""
    aborts = pl.col("backend").is_in(ABORTS_RETIRE)
    retired = pl.col("retired").fill_null(False) & ~aborts.fill_null(True)
    return (pl.col("state") == "completed").fill_null(False) | retired
