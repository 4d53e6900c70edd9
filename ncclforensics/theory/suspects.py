"""The ranked suspects: how much blame all stories together put on each rank.

A story that costs one bit more is half as likely. A rank's weight is the likelihood of
the stories that blame it, summed over all ends, each end weighted by how many ranks it
blocks.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING

from ncclforensics.correlate.waits import roll_call
from ncclforensics.evidence import common, seen_places, silent_nodes
from ncclforensics.model.findings import MOST_SUSPECTS, Suspect
from ncclforensics.model.folding import count, noun
from ncclforensics.theory import uncollected, weigh, wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.story import Story
    from ncclforensics.theory.weigh import Told

LEAST = 0.02  # smaller shares are not worth a look


def suspects(frames: Frames) -> tuple[Suspect, ...]:
    """Return at most eight ranks with their shares of blame, largest first.

    Ranks on a node that did not answer are told as well, but not above a story's.
    """
    found = _blamed(frames)
    silent = silent_nodes.ranks(frames)
    if not silent or weigh.is_moving(frames):
        return found
    told = {suspect.rank for suspect in found}
    beside = (_also(suspect, silent.get(suspect.rank)) for suspect in found)
    weight = LEAST if found else round(1 / len(silent), 3)
    more = (
        Suspect(rank, common.host_of(frames, rank), weight, why, cites)
        for rank, (why, cites) in sorted(silent.items())
        if rank not in told
    )
    return (*beside, *more)[:MOST_SUSPECTS]


def _also(suspect: Suspect, silent: tuple[str, tuple[Cite, ...]] | None) -> Suspect:
    """Return a suspect with what is known of its node."""
    if silent is None:
        return suspect
    why, cites = silent
    return dataclasses.replace(
        suspect, why=f"{suspect.why}; {why}", evidence=(*suspect.evidence, *cites)
    )


def _blamed(frames: Frames) -> tuple[Suspect, ...]:
    """Return the ranks that stories blame, or that were not heard or collected."""
    ends = weighed(frames).ends
    if not ends:
        return () if weigh.is_moving(frames) else _uncollected(frames)
    told = [blame for blame in _shares(ends) if blame.share >= LEAST]
    return _suspects(frames, told) or _unheard(frames)


def awaited(frames: Frames) -> tuple[Suspect, ...]:
    """Return the ranks that others wait for, though no story of them is likely.

    Where all members came to a call, all of them do.
    """
    told = _shares(weighed(frames).ends)
    return _suspects(frames, [one for one in told if one.told.end.kind != "full"])


@dataclasses.dataclass(frozen=True, slots=True)
class _Blame:
    """The share of blame of a rank, and the likeliest story of it at any end."""

    rank: int
    share: float
    told: Told
    story: Story


def _shares(ends: Sequence[Told]) -> list[_Blame]:
    """Return the ranks that any story blames, the largest share first."""
    many = sum(len(told.end.blocked) for told in ends) or 1
    share: defaultdict[int, float] = defaultdict(float)
    best: dict[int, tuple[float, Told, Story]] = {}
    for told in ends:
        stories = told.stories
        cheapest = min(story.cost for story in stories)
        odds = {n: 2.0 ** (cheapest - max(s.cost, 0.0)) for n, s in enumerate(stories)}
        whole = sum(odds.values())
        for n, story in enumerate(stories):
            part = odds[n] / whole * max(len(told.end.blocked), 1) / many
            for rank in story.ranks:
                share[rank] += part / len(story.ranks) ** SHARED
                if rank not in best or part > best[rank][0]:
                    best[rank] = (part, told, story)
    order = sorted(share, key=lambda rank: (-share[rank], rank))
    return [_Blame(rank, share[rank], *best[rank][1:]) for rank in order]


def _suspects(frames: Frames, blamed: Sequence[_Blame]) -> tuple[Suspect, ...]:
    return tuple(
        _suspect(frames, one.rank, max(min(one.share, 1.0), LEAST), one.told, one.story)
        for one in blamed[:MOST_SUSPECTS]
    )


def _unheard(frames: Frames) -> tuple[Suspect, ...]:
    """Return the ranks that log lines single out where no story blames anybody.

    These are the silent and unseen ranks while others timed out, the members of their
    calls if these are known. If there are none, they are the ranks in the calls with
    the fewest waiters.
    """
    told = roll_call.call(frames)
    if not told.timed_out:
        return ()
    unheard = told.silent | told.unseen
    members = frozenset(frames["calls"]["members"].explode().drop_nulls())
    ranks = sorted(unheard & members or unheard)
    many = count(len(told.timed_out), "rank")
    why = f"{many} timed out, and nothing was heard from it"
    if not ranks:
        held = sorted(frames["calls"]["waiting"].to_list(), key=lambda some: len(some))
        least = len(held[0]) if len(held) > 1 else 0
        ranks = sorted({r for some in held for r in some if len(some) == least})
        why = f"{many} timed out, and the fewest of them stopped at its call"
    return tuple(
        Suspect(rank, common.host_of(frames, rank), LEAST, why)
        for rank in ranks[:MOST_SUSPECTS]
    )


def _uncollected(frames: Frames) -> tuple[Suspect, ...]:
    """Return the ranks without any evidence, for cases in which nobody waits."""
    ranks = uncollected.uncollected(frames)
    why = "nothing of it was collected, although its peers left dumps"
    weight = round(1 / max(len(ranks), 1), 3)
    return tuple(
        Suspect(rank, common.host_of(frames, rank), weight, why)
        for rank in ranks[:MOST_SUSPECTS]
    )


SHARED = 0.5  # exponent: a story that blames several ranks counts less for each


def _suspect(
    frames: Frames, rank: int, weight: float, told: Told, story: Story
) -> Suspect:
    host = common.host_of(frames, rank)
    call = story.call
    cites = () if call is None else wording.waiting(frames, call, [rank])[:1]
    place = seen_places.place_of(frames, rank)
    stood = f"; its stack was in {place}" if place else ""
    why = _why(told, story, rank) + stood
    return Suspect(rank, host, round(weight, 3), why, cites)


def _why(told: Told, story: Story, here: int) -> str:
    """Return one line that says why the rank `here` is suspect."""
    others = len(told.end.blocked - {*story.ranks})
    many = count(others, "rank")
    hang = f"{many} {noun(others, 'waits', 'wait')} for it"
    if story.what == "lost":
        left = story.slug == "missing-rank"
        what = "nothing shows what it did" if left else "nothing of it was collected"
        return f"{hang}; {what}"
    if story.slug == "missing-rank" and told.end.kind == "circle":
        return f"{hang}; it went past the call that they wait in"
    if story.slug == "call-order-deadlock" and story.what in weigh.SIDES:
        peers = [rank for rank in told.end.ranks if rank != here]
        return f"it and {common.ranks(peers)} wait for each other"
    late = story.what == "at work"
    because = "its log shows it at work" if late else WORDS.get(story.slug, "")
    if told.end.kind == "full":
        return f"{count(len(told.end.blocked), 'rank')} are stuck; {because}"
    if not others:
        return because
    return f"{hang}; {because}" if because else hang


WORDS = {
    "missing-rank": "it waits for nobody",
    "straggler": "it made the call after they had timed out",
    "gpu-stall": "its GPU is stuck in a call that the others finished",
    "collective-mismatch": "it called another operation than the others",
    "shape-mismatch": "it passed another size than the others",
    "rank-conditional-collective": "it is in a call that the others never made",
    "uneven-inputs": "it is in a call after its loop",
    "unmatched-p2p": "it never posted its send or receive",
    "call-order-deadlock": "it entered its groups in another order",
}
