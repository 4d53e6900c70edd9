"""Build findings on members of one call that differ in the operation or in sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, detail_fingerprints
from ncclforensics.model.findings import Collective, Finding
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import OPEN_TIE, case_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncclforensics.model.actions import Action
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

MOST = 200  # characters of a headline
NO_SMALLER = " The sides are of equal size."
UNHEARD = (
    " Not all ranks were heard from, so it is unknown which side is the smaller one."
)

Side = tuple[str, tuple[int, ...]]  # what some ranks called, and which ranks


@dataclass(frozen=True, slots=True)
class Words:
    """How a class words a difference.

    `alone(who, mine, theirs)` is the headline for odd ranks: the ranks in words, what
    they did, what others did. `both` is the headline for two sides of which neither is
    the odd one. `of` stands between the ranks and what they did, `differ` after "the
    members".
    """

    slug: str
    of: str
    differ: str
    alone: Callable[[str, str, str], str]
    both: Callable[[Side, Side], str]
    remedy: tuple[str | Action, ...]


def shown(frames: Frames, told: Told, words: Words) -> Finding:
    """Return the finding for sides that dumps or watchdog lines show."""
    call, ranks = told.story.call, told.story.ranks
    assert call is not None
    found = case_of(frames).signatures[call["call"]]
    sides = [(side.what, side.ranks) for side in found]
    usual, _ = max(sides, key=lambda side: len(side[1]))
    mine = next((what for what, some in sides if {*some} <= {*ranks}), None)
    is_open = told.story.what == OPEN_TIE
    tie = told.story.what == "tie" or is_open
    if is_open:
        told = replace(told, story=replace(told.story, ranks=()))
    headline = (
        words.both(sides[0], sides[1])
        if tie or mine is None
        else words.alone(common.ranks(ranks), mine, usual)
    )
    return wording.finding(
        frames,
        told,
        headline[:MOST],
        _explained(words, common.collective(frames, call), sides)
        + (UNHEARD if is_open else NO_SMALLER if tie else ""),
        words.remedy,
        tuple(cite for side in found[:2] for cite in side.cites),
    )


def printed(
    frames: Frames, votes: list[tuple[str, pl.DataFrame]], words: Words
) -> Finding:
    """Return the finding for sides that torch's own check of each call printed.

    `votes` holds for each side what it called and its rows, fewest ranks first.
    """
    sides = [(what, common.numbers(some["rank"])) for what, some in votes]
    small, large = sides[0], sides[-1]
    tie = len(small[1]) == len(large[1])
    unheard = detail_fingerprints.is_open(frames, votes)
    # that members differ is proved, whoever they are
    sure = unheard or tie or not detail_fingerprints.unheard(frames, votes)
    odd = tuple(sorted(r for _, some in sides for r in some)) if tie else small[1]
    odd = () if unheard else odd
    read = next(some for what, some in votes if what != detail_fingerprints.UNREAD)
    row = read.row(0, named=True)
    call = Collective(row["pg"], row["pg_desc"], row["seq"], row["op"])
    headline = (
        words.both(small, large)
        if tie or unheard
        else words.alone(common.ranks(odd), small[0], large[0])
    )
    return Finding(
        slug=words.slug,
        confidence="certain" if sure else "likely",
        headline=headline[:MOST],
        evidence=tuple(
            cite for _, some in (votes[0], votes[-1]) for cite in common.cites(some, 3)
        ),
        explanation=_explained(words, call, sides)
        + (UNHEARD if unheard else NO_SMALLER if tie else ""),
        remedy=words.remedy,
        ranks=odd,
        hosts=common.hosts_of(frames, odd),
        devices=common.devices_of(frames, odd),
        collective=call,
        first_seen=common.first_seen(pl.concat([some for _, some in votes])),
    )


def _explained(words: Words, call: Collective, sides: Sequence[Side]) -> str:
    listed = "; ".join(
        f"{common.ranks(ranks)} {words.of} {what}" for what, ranks in sides
    )
    return f"At {common.call_words(call)} the members {words.differ}: {listed}."
