"""Weigh the stories of each end against each other: the cheapest is the verdict.

A story costs its prior, each culprit beyond the first, the surprise that it leaves
unexplained, and each observation that contradicts it. Its margin is how many bits it is
cheaper than the cheapest story that names somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ncclforensics.correlate.identity import world
from ncclforensics.evidence import blocked_processes, seen_places
from ncclforensics.model.frames import remembered
from ncclforensics.theory import (
    explanations,
    log_only,
    replay,
    running_margin,
    sides,
    standstill,
    weights,
)
from ncclforensics.theory.case import Case
from ncclforensics.theory.ends import is_crossed

if TYPE_CHECKING:
    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.case import Call
    from ncclforensics.theory.ends import End
    from ncclforensics.theory.story import Story

Confidence = Literal["certain", "likely", "possible"]


@dataclass(frozen=True, slots=True)
class Told:
    """The result for one end: the cheapest story, its margin in bits, its rivals.

    `confidence` is None if the story is not sure enough to report.
    """

    end: End
    story: Story
    margin: float
    confidence: Confidence | None
    rivals: tuple[Story, ...] = ()
    cites: tuple[Cite, ...] = ()

    @property
    def stories(self) -> tuple[Story, ...]:
        """Return the cheapest story and its rivals."""
        return (self.story, *self.rivals)


@dataclass(frozen=True, slots=True)
class Weighed:
    """The results for all ends of a standstill, those that block most ranks first.

    There are none if the job `runs`: that explains what its ranks did far more cheaply,
    by `running` bits, which are null if it does not explain it at all.
    """

    ends: tuple[Told, ...] = ()
    runs: bool = False
    running: float | None = None

    def of(self, *slugs: str) -> list[Told]:
        """Return the results of some classes that are sure enough to report."""
        return [
            told
            for told in self.ends
            if told.story.slug in slugs and told.confidence is not None
        ]

    def together(self, *slugs: str) -> list[Told]:
        """Return the results of some classes that one verdict names.

        A possible one is not named with a surer one; each is as sure as the least sure.
        """
        found = self.of(*slugs)
        doubt = bool(found) and found[0].confidence == "possible"
        same = [told for told in found if (told.confidence == "possible") == doubt]
        likely = [told for told in same if told.confidence == "likely"]
        least = (likely or same)[0].confidence if same else None
        return [replace(told, confidence=least) for told in same]

    def joined(self, slug: str) -> Told | None:
        """Return what one verdict names of a class, merged into its first result.

        One bug in a program shows at several ends: in each pipeline, in each group.
        Only results of one kind are merged. None if there are none.
        """
        found = self.together(slug)
        if not found:
            return None
        first = found[0]
        same = [told for told in found if told.story.what == first.story.what]
        ranks = {rank for told in same for rank in told.story.ranks}
        calls = {
            call["call"]: call
            for told in same
            for call in (told.story.call, *told.story.others)
            if call is not None and call is not first.story.call
        }
        ends = {rank for told in same for rank in told.end.ranks}
        blocked = {rank for told in same for rank in told.end.blocked}
        return replace(
            first,
            story=replace(
                first.story, ranks=tuple(sorted(ranks)), others=tuple(calls.values())
            ),
            end=replace(
                first.end, ranks=tuple(sorted(ends)), blocked=frozenset(blocked)
            ),
        )


@remembered
def weighed(frames: Frames) -> Weighed:
    """Weigh all stories of all ends; empty if the job goes on."""
    case = case_of(frames)
    if not case.calls:
        return Weighed()
    if is_proved_moving(frames):
        return Weighed(runs=True)
    told = tuple(_told(case, end) for end in case.ends)
    runs = running_margin.margin(case, told)
    # that nothing failed is as much of a promise as a name
    if runs is not None and runs >= weights.CERTAIN:
        return Weighed(runs=True, running=runs)
    if runs is not None and runs > -weights.POSSIBLE:
        told = tuple(replace(one, confidence=None) for one in told)
    return Weighed(told, running=runs)


@remembered
def case_of(frames: Frames) -> Case:
    """Return the case of some frames, cached."""
    return Case(frames)


def is_moving(frames: Frames) -> bool:
    """Whether the job goes on: by proof, or as what its ranks did is likeliest then."""
    return is_proved_moving(frames) or weighed(frames).runs


def is_proved_moving(frames: Frames) -> bool:
    """Whether the job is proved to go on, and not proved to stand still.

    That nobody had waited for long yet is no proof where ranks wait for each other, or
    members of a call are in different ones.
    """
    motion = standstill.motion(frames)
    if standstill.standing(frames).answer == "yes" or motion.answer != "yes":
        return False
    case = case_of(frames)
    return motion.name != standstill.EARLY or not any(
        is_crossed(case, end) or not case.signatures.keys().isdisjoint(end.calls)
        for end in case.ends
    )


def _told(case: Case, end: End) -> Told:
    # other ends have stories of their own
    apart = {r for other in case.ends if other is not end for r in other.ranks}
    stories = sorted(
        (_replayed(case, end, s, apart) for s in explanations.propose(case, end)),
        key=lambda s: (s.cost, s.slug, s.ranks),
    )
    # the story that nobody is odd counts only if the best sides tie
    whole = next((s for s in stories if s.what == "all"), None)
    odd = [s for s in stories if s is not whole]
    least = odd[0].cost
    best, *rest = _weakest_first(odd)
    if (tie := _tied(whole, [best, *rest])) is not None:
        best, rest = tie
        least = min(least, best.cost)
        if best.slug in UNEQUAL and end.lacks:
            best = replace(best, what=OPEN_TIE)
    other = [s for s in rest if _contradicts(s, best, is_tie=tie is not None)]
    margin = min((s.cost - least for s in other), default=weights.CAP)
    # if two accusations are equally good, neither is made
    even = any(s.ranks and s.cost - least <= weights.TIE for s in other)
    sure = None if even and best.ranks else _confidence(case, end, best, margin)
    # what is certain is the class as well, and that nobody else is a culprit too
    near = (s for s in rest if s.cost - least < weights.LIKELY)
    if sure == "certain" and any(
        (s.slug, {*s.ranks}) != (best.slug, {*best.ranks}) for s in near
    ):
        sure = "likely"
    return Told(end, best, margin, sure, tuple(rest), _cites(case, best))


def _contradicts(story: Story, best: Story, *, is_tie: bool) -> bool:
    """Whether a story blames somebody else than the best one, or names no class.

    One that blames part of a tie does not, nor does one that blames more ranks.
    """
    theirs, mine = {*story.ranks}, {*best.ranks}
    agrees = theirs <= mine if is_tie or not mine else mine <= theirs
    return not (story.slug and agrees)


def _weakest_first(stories: list[Story]) -> list[Story]:
    """Return the stories, sorted by cost, with the one to be told first.

    Where two classes tie that explain why a call is another one, only that it is one is
    known: that class is told.
    """
    best = stories[0]
    same = [s for s in stories if s.ranks == best.ranks and s.slug != best.slug]
    even = [s for s in same if s.cost - best.cost < weights.TIE]
    plain = next((s for s in same if s.slug in UNEQUAL), None)
    if not even or plain is None or best.slug in UNEQUAL:
        return stories
    return [plain, *(s for s in stories if s is not plain)]


def _cites(case: Case, story: Story) -> tuple[Cite, ...]:
    """Return the cites of the first two sides of a story's call, if members differ."""
    sides = () if story.call is None else case.signatures.get(story.call["call"], ())
    return tuple(cite for side in sides[:2] for cite in side.cites)


def _tied(
    whole: Story | None, stories: list[Story]
) -> tuple[Story, list[Story]] | None:
    """Return the story for a tie and its rivals, or None if there is no tie.

    It is a tie if blaming a disjoint side costs as little as blaming the best one. For
    a cycle, the result is `whole`, which blames no side in particular; for a call on
    which members differ, it is a story that names both sides. `stories` are sorted by
    cost. If the first one accuses nobody, `whole` has to be cheaper than it.
    """
    best = next((s for s in stories if s.ranks), None)
    if best is None:
        return None
    is_first = best is stories[0]
    rest = [s for s in stories if s is not best]
    equal = [
        s
        for s in rest
        if s.ranks
        and not {*s.ranks} & {*best.ranks}
        and abs(_on_whom(s) - _on_whom(best)) < weights.TIE
    ]
    if not equal:
        return None
    if whole is not None:
        near = any(s.cost - best.cost < weights.LIKELY for s in equal)
        better = is_first or whole.cost < stories[0].cost
        return (whole, rest) if near and better else None
    same = [s for s in equal if s.slug == best.slug and s.slug in UNEQUAL]
    if not same or not is_first:
        return None
    ranks = tuple(sorted({*best.ranks, *(r for s in same for r in s.ranks)}))
    joined = replace(best, ranks=ranks, what="tie")
    return joined, [s for s in rest if not {*s.ranks} <= {*ranks}]


# both sides are shown, and an unseen rank may be on either
OPEN_TIE = "open tie"
SIDES = ("all", "all alike", "tie", OPEN_TIE)  # all sides together: none is the odd one
# these leave open who it was, or whether others are missing
OPEN = ("lost", "seen", "together", *SIDES)
UNEQUAL = ("collective-mismatch", "shape-mismatch")  # some rank differs from others
# costs that depend on the ranks blamed, and not on the class
WHO = (
    *("culprit", "kin", "surprise", "no surprise", "no history", "unexplained wait"),
    "odd words",
)


def _on_whom(story: Story) -> float:
    return sum(weights.bits(n, x) for n, x in story.costs if n in WHO and x > 0)


def _replayed(case: Case, end: End, story: Story, apart: set[int]) -> Story:
    """Return a story charged for the ranks that would still wait without its cause.

    Ranks `apart`, which are at other ends, go on in any case.
    """
    idle = {*end.ranks} - {*story.ranks} if end.kind == "absent" else set()
    # a rank that timed out was not idle: it waited in a call that is not recorded
    hidden = idle & case.waited
    idle -= hidden
    if story.slug in LEAVES_IDLE or story.what in ENDS_OTHERS:
        idle = set()
    stood = ("unexplained idle", min(len(idle), weights.MOST))
    if not story.slug:
        return replace(story, costs=(*story.costs, stood))
    calls = [] if story.call is None else [story.call["call"]]
    ends = calls if story.slug in ENDING else []
    let_go = case.graph.waiters.get(calls[0], ()) if ends else ()
    if story.slug == "unmatched-p2p":
        # both halves are posted: they wait for the one that is not, in their batch
        ends = [n for n in end.calls if _is_posted(case.calls[n])]
    beside = end.ranks if story.what == "died" else ()
    goes_on = apart.union(story.ranks, beside, let_go)
    left = replay.still_waiting(case.graph, goes_on | hidden, ends, case.fallen)
    left &= end.blocked
    owed = story.slug != "unmatched-p2p" and end.kind == "circle" and case.owes(end)
    costs = (
        *story.costs,
        ("unexplained wait", min(len(left) + bool(hidden), weights.MOST)),
        stood,
        ("halves", float(owed)),
        ("late", float(_is_late(case, end) and story.slug != "straggler")),
    )
    return replace(story, costs=costs)


def _is_posted(call: Call) -> bool:
    return bool(call["is_p2p"]) and not call["absent"] and not call["unseen"]


def _is_late(case: Case, end: End) -> bool:
    """Whether a rank came to a call of an end after the call's timeout."""
    return any(n in case.late or case.late_at_work(n) for n in end.calls)


# facts that a standstill shows in the dumps themselves
OF_DUMPS = ("aborted", "given up", "written", "overdue", "late")
GONE = ("crashed-rank", "node-lost")  # of ranks that nothing shows to have lived
# classes whose stories end the call itself, and those that allow idle ranks
ENDING = ("stuck-in-collective", "collective-mismatch", "shape-mismatch", "straggler")
LEAVES_IDLE = ("rank-conditional-collective", "unmatched-p2p")
ENDS_OTHERS = ("running", "died")  # idle ranks work on, or were ended with the dead one


def _confidence(case: Case, end: End, story: Story, margin: float) -> Confidence | None:
    """Return how sure a story is, by its margin and by proof of the standstill.

    None if it is not sure enough to report.
    """
    if not story.slug or margin < weights.POSSIBLE or _may_be_others(case, end, story):
        return None
    standing, motion = (
        f(case.frames) for f in (standstill.standing, standstill.motion)
    )
    stands = standing.answer == "yes"
    looked_twice = standing.name == standstill.LOOKS
    # dumps of a job that went on show one moment, whatever a line says of another; one
    # that waited for a slow rank goes on once it has come
    moved = motion.answer == "yes" and end.kind != "late" and story.slug != "straggler"
    # two looks show more than that nobody had waited for long, and dumps of a job that
    # stopped show more than that it had gone on before
    moved &= not (looked_twice and motion.name == standstill.EARLY)
    moved &= not (standing.name in OF_DUMPS and motion.name == standstill.LOOKS)
    if not stands and seen_places.shows_motion(case.frames, story.ranks, end.blocked):
        return None
    # that the others stood there meanwhile does not make a slow rank a stuck one
    works = seen_places.at_work(case.frames)
    if (not stands or looked_twice) and not works.isdisjoint(story.ranks):
        return None
    if not stands or moved or story.what in OPEN:
        return "possible"
    heard = log_only.is_hearsay(case, story)
    if margin >= weights.CERTAIN and story.ranks and not heard:
        return "certain"
    return "likely" if margin >= weights.LIKELY else "possible"


def _may_be_others(case: Case, end: End, story: Story) -> bool:
    """Whether the evidence leaves open whom a story has to blame."""
    # an unseen rank may be on either side: that members differ is known all the same
    if story.what in SIDES and end.lacks:
        return story.what != OPEN_TIE
    # where nothing tells how many ranks there are, others may be missing as well
    unheard = story.what == "lost" and story.slug in GONE
    listed = case.frames["groups"]["members"].count() > 0
    if unheard and not (listed or world.told_size(case.frames)):
        return True
    # stacks show a message, but not of whom: any of several may owe it
    for call in (case.calls[n] for n in end.calls):
        if sides.is_bare(call):
            blamed, waits = {*story.ranks}, {*call["waiting"]}
            if len(blamed if waits <= blamed else {*call["members"]} - waits) > 1:
                return True
    # the peers of a stopped process wait for it, whatever call it is in
    stopped = {*blocked_processes.stopped(case.frames)["rank"]}
    here = end.blocked | {*end.ranks}
    return story.slug != "missing-rank" and not stopped.isdisjoint(here)
