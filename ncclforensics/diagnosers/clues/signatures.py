"""Who disagrees with whom about one call: the members of a group by their signature.

The signature is the operation, or the sizes and dtypes of an operation that needs them
equal. Three kinds of evidence give it: Flight Recorder entries, the fingerprints that
torch compares under TORCH_DISTRIBUTED_DEBUG=DETAIL, and WorkNCCL's text in watchdog
lines. The smaller side is the odd one; two equal sides are a tie.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.diagnosers.clues import common, programs, purposes, votes
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Cite, Collective, Confidence
    from ncclforensics.frames import Frames

Aspect = Literal["op", "shape"]

BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class Split:
    """One call and the sides its members take: (signature, ranks), smallest first.

    `strays` are the ranks of a side that came from another place of their program, and
    `kind` says what they, or the smaller side, do there if it is no mistaken call.
    """

    call: Collective
    sides: tuple[tuple[str, tuple[int, ...]], ...]
    evidence: tuple[Cite, ...]
    confidence: Confidence
    first_seen: int | None
    unseen: int = 0
    strays: tuple[int, ...] = ()
    kind: purposes.Purpose | None = None

    @property
    def decided(self) -> bool:
        """Whether one side is smaller than every other, whoever was not seen."""
        small, large = len(self.sides[0][1]), len(self.sides[-1][1])
        return small < len(self.sides[1][1]) and _is_less(small, large, self.unseen)

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks of the smaller side; of all sides where there is none.

        Nobody where members are unseen, which may belong to either.
        """
        if self.unseen and not self.decided:
            return ()
        if self.decided:
            *small, _ = self.sides
            return tuple(sorted({rank for _, ranks in small for rank in ranks}))
        return tuple(sorted({rank for _, ranks in self.sides for rank in ranks}))

    @property
    def doubt(self) -> str:
        """Why nobody, or everybody, is named."""
        if self.unseen:
            return (
                f"Of {self.unseen:,} members nothing was given, so it is not known "
                "which side is the smaller one."
            )
        return "No side is the smaller one."

    @property
    def odd_op(self) -> str:
        """The signature of the smallest side."""
        return self.sides[0][0]

    @property
    def usual_op(self) -> str:
        """The signature of the largest side."""
        return self.sides[-1][0]


def splits(frames: Frames, aspect: Aspect) -> Iterator[Split]:
    """Yield the calls whose members differ, the first call of a group only.

    Dumps come before fingerprints and watchdog lines, as they hold every member.
    """
    for split in _from_votes(frames, votes.entries(frames), aspect):
        if split.kind is None:
            yield split
    yield from _from_votes(frames, votes.fingerprints(frames), aspect)
    yield from _from_votes(frames, votes.watchdogs(frames), aspect)


def strays(frames: Frames, kind: purposes.Purpose) -> Iterator[Split]:
    """Yield the calls to which one side came from another place of its program.

    `kind` is what it does there: a call of a few ranks alone, or one after the loop.
    """
    for aspect in ("op", "shape"):
        for split in _from_votes(frames, votes.entries(frames), aspect):
            if split.kind == kind:
                yield split


def stray(
    frames: Frames,
    split: Split,
    slug: str,
    headline: str,
    explanation: str,
    remedy: tuple[str, ...],
) -> Finding:
    """Return the finding of a class whose ranks are the `strays` of a split."""
    return Finding(
        slug=slug,
        confidence="likely",
        headline=headline,
        evidence=split.evidence,
        explanation=explanation,
        remedy=remedy,
        ranks=split.strays,
        hosts=common.hosts_of(frames, split.strays),
        devices=common.devices_of(frames, split.strays),
        collective=split.call,
        first_seen=split.first_seen,
    )


def _from_votes(frames: Frames, cast: pl.DataFrame, aspect: Aspect) -> Iterator[Split]:
    """Find the groups' first calls on which the votes that were `cast` differ.

    `cast` has `pg pg_desc seq op shape rank t source line text`.
    """
    if cast.is_empty():
        return
    # split groups may share a name: where the evidence tells the call, it decides
    key = ["call"] if "call" in cast.columns else ["pg", "pg_desc", "seq"]
    if aspect == "shape":
        # sizes are compared only where all agree on an operation
        one = pl.col("op").n_unique().over(key) == 1
        cast = cast.filter(one).drop_nulls("shape")
    # a damaged entry has no operation, and is on no side
    side = pl.when(pl.col("rank").is_not_null()).then(pl.col(aspect)).drop_nulls()
    differing = cast.filter(side.n_unique().over(key) > 1)
    group = key if key == ["call"] else key[:2]
    first = differing.filter(pl.col("seq").eq_missing(pl.col("seq").min().over(group)))
    for _, call in first.group_by(group, maintain_order=True):
        yield _split(frames, call, aspect)


def _split(frames: Frames, call: pl.DataFrame, aspect: Aspect) -> Split:
    sides: dict[str, set[int]] = defaultdict(set)
    for signature, rank in call.select(aspect, "rank").drop_nulls().iter_rows():
        sides[str(signature)].add(rank)
    ordered = sorted(sides.items(), key=lambda side: (len(side[1]), side[0]))
    odd = call.filter(pl.col(aspect) == ordered[0][0])
    usual = call.filter(pl.col(aspect) == ordered[-1][0])
    of = odd if len(ordered[0][1]) < len(ordered[-1][1]) else usual
    told = call.row(0, named=True)
    # one place of the code is nobody's own
    apart = "call" in call.columns and (
        _stack(odd) is None or _stack(odd) != _stack(usual)
    )
    astray = [
        ranks
        for _, ranks in ordered
        if apart and programs.is_out_of_place(frames, told, min(ranks))
    ]
    unseen = int(told.get("unseen") or 0)
    if "call" not in call.columns:
        # lines name who disagrees with the printer, not who else is in the group
        unseen = max(frames["ranks"].height - call["rank"].n_unique(), 0)
        unseen = max(unseen, _unheard(call))
    small, large = len(ordered[0][1]), len(ordered[-1][1])
    # torch itself compared fingerprints: that they differ is beyond doubt
    settled = _is_less(small, large, unseen) or "is_peer" in call.columns
    # that a nameless group is one for all is only most likely
    of_lines = {"call", "is_peer"}.isdisjoint(call.columns)
    known = not unseen and not (of_lines and told["pg"] is None)
    kind: purposes.Purpose | None = None
    if len(astray) == 1:
        kind = "conditional"
    elif apart and len(ordered) == 2:
        left = [
            ranks
            for _, ranks in ordered
            if 2 * len(ranks) <= small + large
            and programs.left_loop(frames, told, min(ranks))
        ]
        if len(left) == 1:
            kind, astray = "uneven", left
        elif small < large:
            kind = _aside(frames, odd, usual)
            astray = [ordered[0][1]] if kind else []
        else:
            # of two equal sides, the one in a function that few ranks come to
            ways = [
                _by_name(frames, *pair) if _is_new(frames, pair[0]) else None
                for pair in ((odd, usual), (usual, odd))
            ]
            if ways.count(None) == 1:
                kind = ways[0] or ways[1]
                astray = [ordered[0 if ways[0] else 1][1]]
    return Split(
        unseen=unseen,
        strays=tuple(sorted(astray[0])) if len(astray) == 1 else (),
        kind=kind,
        call=common.collective(frames, of.row(0, named=True)),
        sides=tuple((name, tuple(sorted(ranks))) for name, ranks in ordered),
        evidence=(*common.cites(odd, 3), *common.cites(usual, 3)),
        confidence="certain" if known else "likely" if settled else "possible",
        first_seen=common.first_seen(call),
    )


def _aside(
    frames: Frames, odd: pl.DataFrame, usual: pl.DataFrame
) -> purposes.Purpose | None:
    """Say what the odd side does at a place of its program where nobody was before.

    Its functions may tell. If not, a barrier there is no mistake for another operation:
    it stands behind a condition, most often on the first rank, or behind a loop.
    """
    if not _is_new(frames, odd):
        return None
    told = _by_name(frames, odd, usual)
    if told or BARRIER not in odd["op"][0] or BARRIER in usual["op"][0]:
        return told
    first = pl.concat([odd["rank"], usual["rank"]]).min()
    return "conditional" if odd["rank"].min() == first else "uneven"


def _by_name(
    frames: Frames, odd: pl.DataFrame, usual: pl.DataFrame
) -> purposes.Purpose | None:
    """Say what a side does by the functions that it alone is in."""
    mine = programs.way(frames, _stack(odd))
    peer = int(str(usual["rank"].min()))
    return purposes.by_name(mine, programs.beside(frames, mine, _stack(usual), peer))


def _is_new(frames: Frames, side: pl.DataFrame) -> bool:
    """Whether nobody was before where the ranks of a side are."""
    stack = _stack(side)
    if stack is None:
        return False
    there = frames.scan("collectives").filter(pl.col("stack") == stack).collect()
    return there.height <= side.height


def _stack(side: pl.DataFrame) -> int | None:
    """Return where a side is, told by the first of its ranks whose dump says so."""
    told = side["stack"].drop_nulls()
    return int(told[0]) if told.len() else None


def _unheard(call: pl.DataFrame) -> int:
    """Return 1 where a rank is known from its peer's line only, else 0.

    All ranks print, so lines are missing, and nothing tells of how many ranks.
    """
    if "is_peer" not in call.columns:
        return 0
    printed = call.filter(~pl.col("is_peer"))["rank"].drop_nulls()
    return int(not call["rank"].drop_nulls().is_in(printed.implode()).all())


def _is_less(small: int, large: int, unseen: int) -> bool:
    """Whether a side stays the smaller one, whichever side unseen members are on.

    One rank against all others is odd though one that was not seen may be like it.
    """
    return not unseen or small + unseen < large + (small == 1)
