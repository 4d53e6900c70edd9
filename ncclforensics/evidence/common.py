"""Helpers that diagnosers share: cites, the hosts of ranks, words for a call."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import host_blocks, placements
from ncclforensics.correlate.identity.host_names import NOWHERE
from ncclforensics.correlate.traces import code_places
from ncclforensics.model import folding
from ncclforensics.model.columns import distinct
from ncclforensics.model.findings import Cite, Collective
from ncclforensics.model.frames import needing
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import YEARLESS
from ncclforensics.model.words import name_group

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ncclforensics.model.frames import Frames

NOBODY = "a process"  # of which neither rank nor group is known
MAX_CITES = 6  # per claim; the rest is counted in its explanation
TRACEBACK = "python.traceback"


def sentence(*parts: str | pl.Expr) -> pl.Expr:
    """Join literals and columns to one string per row; null if a column is null.

    Replaces `pl.format`, which panics on a frame of several chunks (polars 2.1).
    """
    return pl.concat_str(pl.lit(p) if isinstance(p, str) else p for p in parts)


@needing(otherwise=())
def cites(frame: pl.DataFrame, limit: int = MAX_CITES) -> tuple[Cite, ...]:
    """Cite the first rows of a frame that has `text`, `source` and `line`.

    Every source is cited once before any is cited twice, and each text once per source:
    NCCL repeats some errors a thousand times.
    """
    places = collected(
        frame.lazy()
        .select("source", "line", "text")
        .unique(["source", "text"], keep="first", maintain_order=True)
        .with_columns(pl.int_range(pl.len()).over("source").alias("turn"))
        .sort("turn", "source", "line", maintain_order=True)
        .head(limit)
    )
    return tuple(
        Cite(source or "?", line, text or "")
        for source, line, text, _ in places.iter_rows()
    )


def numbers(column: pl.Series) -> tuple[int, ...]:
    """Return the distinct integers of a column, sorted, without nulls."""
    return tuple(sorted(int(v) for v in distinct(column)))


def strings(column: pl.Series) -> tuple[str, ...]:
    """Return the distinct strings of a column, sorted, without nulls."""
    return tuple(sorted(str(v) for v in distinct(column)))


def hosts(column: pl.Series) -> tuple[str, ...]:
    """Return the distinct hosts of a column, sorted, without `localhost`.

    Every machine is called so by itself: such a name tells nobody where to look.
    """
    return tuple(host for host in strings(column) if not re.search(NOWHERE, host))


def host_of_file(frames: Frames, lines: pl.DataFrame) -> tuple[str, ...]:
    """Return the only host that the files of some lines name, as a prompt or a prefix.

    For what a kernel or a service says of its own machine, without its name, and what
    an agent's processes print beside its table.
    """
    here = pl.col("source").is_in(lines["source"].implode())
    told = (frames[name].filter(here)["host"] for name in ("events", "exits"))
    named = hosts(pl.concat(told))
    return named if len(named) == 1 else ()


def hosts_of(frames: Frames, ranks: Iterable[int]) -> tuple[str, ...]:
    """Return the hosts of some global ranks, as far as they are known.

    Of the one block that hosts leave over it is the one host that has no ranks. If
    hosts are known in part, it is the one whose block they are in.
    """
    some = [*ranks]
    mine = frames["ranks"].filter(pl.col("rank").is_in(some))
    home, around = host_blocks.home, host_blocks.around
    return hosts(mine["host"]) or home(frames, some) or around(frames, some)


def ranks_on(frames: Frames, hosts: Iterable[str]) -> tuple[int, ...]:
    """Return the global ranks of some hosts, as far as they are known.

    Those of its pods are a node's. Of one host it is the whole block that the other
    hosts leave to it.
    """
    named = list(hosts)
    named += placements.pods_on(frames, tuple(named))
    mine = frames["ranks"].filter(pl.col("host").is_in(named))
    block = host_blocks.ranks_on(frames, named[0]) if len(named) == 1 else ()
    return block or numbers(mine["rank"])


def speakers(frames: Frames, lines: pl.DataFrame) -> str:
    """Return who wrote some lines in words: ranks, or ranks of a group if that is all.

    If they name neither, the tasks of a launcher, else NOBODY. `lines` has `rank`,
    `source` and `line`.
    """
    if spoke := numbers(lines["rank"]):
        return ranks(spoke)
    at = lines.select("source", "line")
    # the event of a traceback stands where it says what was raised
    ends = frames.quoted(TRACEBACK).join(at, on=["source", "line"])
    at = pl.concat([at, ends.select("source", line="said_line")])
    events = frames["events"].join(at, on=["source", "line"], how="semi")
    tasks = numbers(events["task"])
    told = events.drop_nulls("group_rank").select(
        "group_rank", pl.coalesce("pg_desc", "pg", "pg_id", pl.lit("")).alias("group")
    )
    if told["group"].n_unique() != 1:
        return ranks(tasks, "task") if tasks and told.is_empty() else NOBODY
    group = told["group"][0]
    name = f" of {group}" if group else ""
    return ranks(numbers(told["group_rank"]), "group rank") + name


def pods(lines: pl.DataFrame) -> tuple[str, ...]:
    """Return the pods that lines name: in a pod the host name is the pod's."""
    return strings(lines["pod"]) if "pod" in lines.columns else ()


def host_of(frames: Frames, rank: int) -> str | None:
    """Return the host of a rank, the first of several, or None."""
    return next(iter(hosts_of(frames, [rank])), None)


def devices_of(frames: Frames, ranks: Iterable[int]) -> tuple[str, ...]:
    """Return the CUDA devices of some global ranks, as far as they are known."""
    mine = frames["ranks"].filter(pl.col("rank").is_in(list(ranks)))
    return tuple(str(device) for device in numbers(mine["device"]))


def first_seen(frame: pl.DataFrame) -> int | None:
    """Return the earliest `t` of a frame whose year is known, in UTC nanoseconds."""
    if frame.is_empty():
        return None
    t = pl.col("t")
    first = t.filter(t.dt.year() != YEARLESS).min().dt.epoch("ns")
    return frame.select(first).item()  # type: ignore[no-any-return]


def call_site(frames: Frames, stack: int | None) -> str | None:
    """Return `file:line function` of the frame that tells a stack best, if any does."""
    if stack is None:
        return None
    best = pl.coalesce(
        pl.when(place).then(number) for number, place in enumerate(code_places.places())
    )
    mine = collected(
        frames["stacks"]
        .lazy()
        .filter(pl.col("stack") == stack)
        .with_columns(best.alias("best"))
        .drop_nulls("best")
        .sort("best", "depth", maintain_order=True)
        .head(1)
    )
    for row in mine.iter_rows(named=True):
        file = str(row["file"]).rpartition("/")[2]
        at = "" if row["file_line"] is None else f":{row['file_line']}"
        return f"{file}{at} {row['function']}"
    return None


def collective(frames: Frames, call: Mapping[str, object]) -> Collective:
    """Return the call that a row of `calls` (or one with its columns) describes."""
    stack = call.get("stack")
    return Collective(
        process_group=_text(call.get("pg")),
        process_group_desc=_text(call.get("pg_desc")),
        seq=call["seq"] if isinstance(call.get("seq"), int) else None,  # type: ignore[arg-type]
        op=_text(call.get("op")),
        call_site=call_site(frames, stack if isinstance(stack, int) else None),
    )


def call_words(call: Collective) -> str:
    """Return `all_reduce SeqNum=7 on process group 35 (TP)`, as far as it is known."""
    words = [call.op or "a call"]
    if call.seq is not None:
        words.append(f"SeqNum={call.seq}")
    if call.process_group:
        group = name_group(call.process_group, call.process_group_desc)
        words.append(f"on {group}")
    return " ".join(words)


def printed(frames: Frames, ranks: Collection[int], message: str) -> pl.DataFrame:
    """Return the rows of `events` of one message that some ranks printed."""
    theirs = pl.col("rank").is_in(list(ranks)) & (pl.col("message") == message)
    return frames["events"].filter(theirs)


def some(values: Sequence[object], limit: int = 4) -> str:
    """Return `a, b, c and 9 more`, for what does not fold: cards, variables, words."""
    shown = ", ".join(str(value) for value in values[:limit])
    rest = len(values) - limit
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def on(hosts: Sequence[str]) -> str:
    """Return ` on gpu[0001-0128]`, "" if the hosts are not known."""
    return f" on {named(hosts)}" if hosts else ""


ranks, named = folding.name_ranks, folding.name_hosts


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def exit_words(code: pl.Expr) -> pl.Expr:
    """Return `SIGSEGV` or `exit code 3` for a code in Python's convention."""
    names = {-s.value: s.name for s in signal.Signals}
    return (
        pl.when(code.is_in(list(names)))
        .then(code.replace_strict(names, default=None, return_dtype=pl.String))
        .otherwise(sentence("exit code ", code))
    )
