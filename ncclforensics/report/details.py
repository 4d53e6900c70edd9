"""What long reports show in addition to the contract: excerpts and pictures.

All of it comes from the evidence and is computed once, so that renderers compute
nothing: the lines around citations, the calls that ranks are stuck in, what each rank
did in the calls before, where waits lead, and the first signs of failure.
"""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct

from ncclforensics.model.folding import fold_ranks
from ncclforensics.model.tables import FAILING
from ncclforensics.model.words import name_group
from ncclforensics.report.late_ranks import LateRanks, late_ranks
from ncclforensics.report.rank_calls import RankCalls, rank_calls
from ncclforensics.report.sanitize import line
from ncclforensics.report.wait_groups import WaitGroups, wait_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report

MOST_CALLS, MOST_SIGNS, SIGNS_READ = 12, 14, 400
NAME, QUOTE = 120, 400  # characters of a name, and of a line, from a log


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


class Sign(Struct, frozen=True):
    """The first time that some ranks print a kind of line, in UTC nanoseconds.

    `text` are the words of the first of these lines.
    """

    t: int
    ranks: str
    text: str
    named: bool


class Details(Struct, frozen=True):
    """Everything in addition to the contract; empty for a saved report."""

    excerpts: tuple[Excerpt, ...] = ()
    calls: tuple[Call, ...] = ()
    more_calls: int = 0
    rank_calls: RankCalls | None = None
    late_ranks: LateRanks | None = None
    waits: WaitGroups | None = None
    signs: tuple[Sign, ...] = ()
    more_signs: int = 0


def details(
    report: Report, frames: Frames, excerpts: Sequence[Excerpt] = ()
) -> Details:
    """Return the details of a report from the frames that it was built from.

    Of a job that runs, calls that were under way when dumps were taken are no waits.
    """
    goes_on = report.outcome == "no-failure" or (
        report.verdict is not None and report.verdict.slug == "slow-rank"
    )
    calls = [] if goes_on else _calls(report, frames)
    signs = _signs(report, frames)
    return Details(
        excerpts=tuple(excerpts),
        calls=tuple(_call(row) for row in calls[:MOST_CALLS]),
        more_calls=max(len(calls) - MOST_CALLS, 0),
        rank_calls=rank_calls(report, frames),
        late_ranks=late_ranks(report, frames),
        waits=None if goes_on else wait_groups(report, frames),
        signs=signs[:MOST_SIGNS],
        more_signs=max(len(signs) - MOST_SIGNS, 0),
    )


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
    number = "" if row["seq"] is None else f"SeqNum={row['seq']}"
    what = row["op"] or ("" if number else "a call")
    parts = [what, number, "in", _group(row)]
    name = line(" ".join(part for part in parts if part), NAME)
    sides = ("waiting", "behind", "done", "absent", "unseen")
    return Call(name, *(fold_ranks(row[side] or ()) for side in sides))


def _group(row: Mapping[str, Any]) -> str:
    """Name a process group: `process group 35 (TENSOR_MODEL_PARALLEL)`."""
    return line(name_group(row["pg"], row["pg_desc"]), NAME)


def _signs(report: Report, frames: Frames) -> tuple[Sign, ...]:
    """Return when ranks first printed each sign of failure, or ended; by time."""
    events = frames["events"].filter(
        pl.col("role").is_in(FAILING) & pl.col("t").is_not_null()
    )
    exits = frames["exits"].filter(
        (pl.col("code") != 0) & pl.col("t").is_not_null() & pl.col("rank").is_not_null()
    )
    ended_ = _ended(pl.col("code"))
    both = pl.concat(
        [
            events.select("t", "rank", kind=pl.col("message"), text=pl.col("text")),
            exits.select("t", "rank", kind=ended_, text=ended_),
        ]
    )
    first = (
        both.sort("t", "text")
        .group_by("rank", "kind", maintain_order=True)
        .agg(pl.col("t", "text").first())
    )
    second = pl.col("t").dt.truncate("1s")
    rows = (
        first.group_by("kind", second=second, maintain_order=True)
        .agg(pl.col("t", "text").first(), pl.col("rank").drop_nulls().sort())
        .sort("t", "kind", pl.col("rank").list.first())
        .head(SIGNS_READ)
        .select(pl.col("t").dt.epoch("ns"), "rank", "text")
        .to_dicts()
    )
    named = _named(report)
    return tuple(
        Sign(
            r["t"],
            fold_ranks(r["rank"]),
            line(r["text"] or "", QUOTE),
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
