"""What long reports show in addition to the contract: excerpts and two pictures.

All of it comes from the evidence and is computed once, so that renderers compute
nothing: the lines around citations, the calls that ranks are stuck in, each rank's
progress in the failing group, and when the first signs of failure were printed.
"""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from msgspec import Struct

from ncclforensics.model.tables import FAILING
from ncclforensics.report.folding import fold_spread
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report

State = Literal["done", "waits", "behind", "absent", "unseen"]
MOST_CALLS, MOST_LANES, MOST_SIGNS = 12, 14, 400
BY_NOW: tuple[State, ...] = ("done", "behind", "absent")
COLUMNS = 4  # calls before the one that hangs
NAME = 120  # characters of a name from a log


class Excerpt(Struct, frozen=True):
    """Lines of one file around cited ones; `first` is the number of the first line."""

    source: str
    first: int
    lines: tuple[str, ...]
    cited: tuple[int, ...]

    @property
    def numbered(self) -> tuple[str, ...]:
        """The lines with their numbers; > marks cited ones."""
        width = len(str(self.first + len(self.lines)))
        return tuple(
            f"{'>' if number in self.cited else ' '} {number:>{width}}  {text}"
            for number, text in enumerate(self.lines, self.first)
        )


class Call(Struct, frozen=True):
    """A hanging call, and its members as folded ranks by their state in it."""

    name: str
    waiting: str
    behind: str
    done: str
    absent: str
    unseen: str

    @property
    def is_spread(self) -> bool:
        """Whether some of its ranks are folded with a stride, as in `0-56:8`."""
        sides = (self.waiting, self.behind, self.done, self.absent, self.unseen)
        return any(":" in side for side in sides)


class Lane(Struct, frozen=True):
    """Ranks with the same progress: a state for each column."""

    ranks: str
    named: bool
    states: tuple[State, ...]


class Progress(Struct, frozen=True):
    """The progress of ranks in one group: columns are sequence numbers."""

    group: str
    columns: tuple[int, ...]
    lanes: tuple[Lane, ...]
    hidden: int


class Sign(Struct, frozen=True):
    """The first time that some ranks print a message, in UTC nanoseconds."""

    t: int
    ranks: str
    text: str
    named: bool


class Details(Struct, frozen=True):
    """Everything in addition to the contract; empty for a saved report."""

    excerpts: tuple[Excerpt, ...] = ()
    calls: tuple[Call, ...] = ()
    more_calls: int = 0
    progress: Progress | None = None
    signs: tuple[Sign, ...] = ()
    more_signs: int = 0


def details(
    report: Report, frames: Frames, excerpts: Sequence[Excerpt] = ()
) -> Details:
    """Return the details of a report from the frames that it was built from."""
    calls = _calls(report, frames)
    signs = _signs(report, frames)
    return Details(
        excerpts=tuple(excerpts),
        calls=tuple(_call(row) for row in calls[:MOST_CALLS]),
        more_calls=max(len(calls) - MOST_CALLS, 0),
        progress=_progress(report, frames, calls),
        signs=signs[:MOST_LANES],
        more_signs=max(len(signs) - MOST_LANES, 0),
    )


def around_last(report: Report, details: Details) -> Excerpt | None:
    """Return the excerpt with the culprit's last own line, None if there is none."""
    last = None if report.onset is None else report.onset.last_line
    if last is None or report.verdict is None:
        return None
    of = (e for e in details.excerpts if e.source == last.source)
    return next((excerpt for excerpt in of if last.line in excerpt.cited), None)


def _calls(report: Report, frames: Frames) -> list[dict[str, Any]]:
    """Return the hanging calls: the verdict's first, then by number of waiters."""
    call = None if report.verdict is None else report.verdict.collective
    rows = frames["calls"].to_dicts()

    def order(row: dict[str, Any]) -> tuple[bool, int, int]:
        own = call is not None and (row["pg"], row["seq"]) == (
            call.process_group,
            call.seq,
        )
        return (not own, -len(row["waiting"] or ()), row["call"])

    return sorted(rows, key=order)


def _call(row: Mapping[str, Any]) -> Call:
    parts = [row["op"] or "", f"SeqNum={row['seq']}", "in", _group(row)]
    name = line(" ".join(part for part in parts if part), NAME)
    sides = ("waiting", "behind", "done", "absent", "unseen")
    return Call(name, *(fold_spread(row[side] or ()) for side in sides))


def _group(row: Mapping[str, Any]) -> str:
    """Name a process group: `process group 35 (TENSOR_MODEL_PARALLEL)`."""
    described = f" ({row['pg_desc']})" if row["pg_desc"] else ""
    return line(f"process group {row['pg']}{described}", NAME)


def _progress(
    report: Report, frames: Frames, calls: Sequence[Mapping[str, Any]]
) -> Progress | None:
    """Return the progress of the members of the first hanging collective's group."""
    collective = [row for row in calls if not row["is_p2p"] and row["seq"] is not None]
    if not collective:
        return None
    row = collective[0]
    seq = row["seq"]
    columns = tuple(range(min(seq, max(seq - COLUMNS, 1)), seq + 1))
    here = frames["standings"].filter(pl.col("group") == row["group"])
    told = {s["rank"]: s for s in here.to_dicts()}
    here_is: dict[int, State] = {
        rank: what for what in BY_NOW for rank in row[what] or ()
    }
    named = _named(report)

    def state(rank: int, column: int) -> State:
        standing = told.get(rank)
        if column == seq and rank in here_is:
            return here_is[rank]
        if standing is None:
            return "unseen"
        waits, made = standing["waits_in"], standing["enqueued"]
        if standing["completed"] is not None and column <= standing["completed"]:
            return "done"
        if made is None:
            return "unseen"
        if column > made:
            return "absent"
        return "waits" if waits is None or column >= waits else "done"

    alike: dict[tuple[bool, tuple[State, ...]], list[int]] = {}
    for rank in row["members"] or ():
        key = (rank in named, tuple(state(rank, column) for column in columns))
        alike.setdefault(key, []).append(rank)
    groups = sorted(alike.items(), key=lambda g: (not g[0][0], len(g[1]), g[1]))
    lanes = tuple(Lane(fold_spread(r), own, cells) for (own, cells), r in groups)
    return Progress(
        _group(row), columns, lanes[:MOST_LANES], max(len(lanes) - MOST_LANES, 0)
    )


def _signs(report: Report, frames: Frames) -> tuple[Sign, ...]:
    """Return when ranks first printed each sign of failure, or ended; by time."""
    events = frames["events"].filter(
        pl.col("role").is_in(FAILING) & pl.col("t").is_not_null()
    )
    exits = frames["exits"].filter(
        (pl.col("code") != 0) & pl.col("t").is_not_null() & pl.col("rank").is_not_null()
    )
    both = pl.concat(
        [
            events.select("t", "rank", text=pl.col("message")),
            exits.select("t", "rank", text=_ended(pl.col("code"))),
        ]
    )
    first = both.group_by("rank", "text").agg(pl.col("t").min())
    second = pl.col("t").dt.truncate("1s")
    rows = (
        first.group_by("text", second=second)
        .agg(pl.col("t").min(), pl.col("rank").drop_nulls().sort())
        .sort("t", "text", pl.col("rank").list.first())
        .head(MOST_SIGNS)
        .select(pl.col("t").dt.epoch("ns"), "rank", "text")
        .to_dicts()
    )
    named = _named(report)
    return tuple(
        Sign(
            r["t"],
            fold_spread(r["rank"]),
            r["text"],
            bool(r["rank"]) and set(r["rank"]) <= named,
        )
        for r in rows
    )


def ended(code: int) -> str:
    """Describe how a process ended; negative codes are signals, as in Python."""
    try:
        return f"ended by {Signals(-code).name}"
    except ValueError:
        return f"ended with exit code {code}"


def _ended(code: pl.Expr) -> pl.Expr:
    """Return `ended` as an expression."""
    signals = {-int(number): ended(-int(number)) for number in Signals}
    other = pl.lit("ended with exit code ") + code.cast(pl.String)
    return code.replace_strict(signals, default=other, return_dtype=pl.String)


def _named(report: Report) -> set[int]:
    """Return the ranks that the verdict names."""
    return set() if report.verdict is None else set(report.verdict.culprits.ranks)
