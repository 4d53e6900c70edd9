"""Weighs the stories of each end against each other: the cheapest is told.

A story costs its prior, each culprit beyond the first, the surprise that it leaves
unexplained, and each thing that must be seen and is contradicted. Its margin is by how
many bits it is cheaper than the cheapest story that names somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ncclforensics.frames import remembered
from ncclforensics.theory import explanations, facts, replay, weights
from ncclforensics.theory.case import Case

if TYPE_CHECKING:
    from ncclforensics.findings import Cite
    from ncclforensics.frames import Frames
    from ncclforensics.theory.case import End
    from ncclforensics.theory.story import Story

Confidence = Literal["certain", "likely", "possible"]


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of one end: the cheapest story, its margin in bits, its rivals."""

    end: End
    story: Story
    margin: float
    confidence: Confidence | None
    rivals: tuple[Story, ...] = ()
    cites: tuple[Cite, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the theory says of a standstill, what most ranks hang on first."""

    ends: tuple[Told, ...] = ()

    def of(self, *slugs: str) -> list[Told]:
        """Return the ends that a class explains well enough to be told."""
        return [
            told
            for told in self.ends
            if told.story.slug in slugs and told.confidence is not None
        ]


@remembered
def weighed(frames: Frames) -> Weighed:
    """Weigh all stories of all ends; nothing where the job is proved to go on."""
    if frames["calls"].is_empty() or is_moving(frames):
        return Weighed()
    case = case_of(frames)
    return Weighed(tuple(_told(case, end) for end in case.ends))


@remembered
def case_of(frames: Frames) -> Case:
    """Return the case of some frames, once."""
    return Case(frames)


def is_moving(frames: Frames) -> bool:
    """Whether the job is proved to go on, and not to stand still."""
    return (
        facts.standing(frames).answer != "yes" and facts.motion(frames).answer == "yes"
    )


def _told(case: Case, end: End) -> Told:
    stories = sorted(
        (_replayed(case, end, s) for s in explanations.propose(case, end)),
        key=lambda s: (s.cost, s.slug, s.ranks),
    )
    best, *rest = stories
    tie = _tied(best, rest)
    if tie is not None:
        best, rest = tie
    other = [s for s in rest if {*s.ranks} != {*best.ranks}]
    margin = min((s.cost for s in other), default=weights.CERTAIN * 2) - best.cost
    sure = _confidence(case, best, margin)
    return Told(end, best, margin, sure, tuple(rest), _cites(case, best))


def _cites(case: Case, story: Story) -> tuple[Cite, ...]:
    """Return where the sides of a story's call say what they are in, if they differ."""
    sides = () if story.call is None else case.sides.get(story.call["call"], ())
    return tuple(cite for side in sides[:2] for cite in side.cites)


def _tied(best: Story, rest: list[Story]) -> tuple[Story, list[Story]] | None:
    """Join two stories of one class and cost that blame two sides of a call."""
    same = [
        s
        for s in rest
        if s.slug == best.slug
        and s.cost - best.cost < weights.TIE
        and not {*s.ranks} & {*best.ranks}
    ]
    if not same or best.slug not in TIES:
        return None
    ranks = tuple(sorted({*best.ranks, *(r for s in same for r in s.ranks)}))
    others = (*best.others, *(s.call for s in same if s.call is not None))
    unique = {
        c["call"]: c for c in others if best.call and c["call"] != best.call["call"]
    }
    joined = replace(
        best, ranks=ranks, others=tuple(unique.values()), what=f"tie {best.what}"
    )
    return joined, [
        s for s in rest if not {*s.ranks} <= {*ranks} or s.slug != best.slug
    ]


TIES = ("collective-mismatch", "shape-mismatch", "call-order-deadlock")


def _replayed(case: Case, end: End, story: Story) -> Story:
    """Charge a story for the ranks that would still wait if it were undone."""
    if not story.slug:
        return story
    calls = [] if story.call is None else [story.call["call"]]
    ends = calls if story.slug in ENDING else []
    goes_on = {*story.ranks, *(case.graph.waiters.get(calls[0], ()) if ends else ())}
    left = replay.still_waiting(case.graph, goes_on, ends) & end.blocked
    idle = {*end.ranks} - {*story.ranks} if end.kind == "absent" else set()
    if story.slug in LEAVES_IDLE:
        idle = set()
    owed = story.slug != "unmatched-p2p" and end.kind == "circle" and case.owes(end)
    costs = (
        *story.costs,
        ("unexplained wait", min(len(left), MOST)),
        ("unexplained idle", min(len(idle), MOST)),
        ("halves", float(owed)),
    )
    return replace(story, costs=costs)


# classes whose story lets the call itself end, and those beside which ranks may be idle
ENDING = ("stuck-in-collective", "collective-mismatch", "shape-mismatch", "straggler")
LEAVES_IDLE = ("rank-conditional-collective", "unmatched-p2p")
MOST = 4  # of one kind that are counted: more of it is no more a contradiction


def _confidence(case: Case, story: Story, margin: float) -> Confidence | None:
    """Return how sure a story is: its margin, and whether the job is known to stand."""
    if not story.slug or margin < weights.POSSIBLE:
        return None
    if facts.standing(case.frames).answer != "yes" or story.what == "lost":
        return "possible"
    if margin >= weights.CERTAIN:
        return "certain"
    return "likely" if margin >= weights.LIKELY else "possible"
