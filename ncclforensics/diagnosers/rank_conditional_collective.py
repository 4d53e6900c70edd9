"""Some ranks make a call that the others never make at all.

What it means
    A collective is inside a condition that is true on only a few ranks: evaluation,
    logging or saving on rank 0, or an early stop that not all ranks see. The ranks that
    make the call wait in it. The others have gone on, or finished.

How we know
    The other ranks wait for these ranks elsewhere, in a cycle, or wait for nobody. And
    the earlier calls of these ranks' role do not predict this call here, or it is in a
    function that evaluates, logs or saves. Four things count against this class: no
    history shows the deviation; the others have made the call as well; the call is
    outside the loop; the lowest rank is not among those that make it. The ranks that
    make the call are named. Without dumps: every rank timed out, and by its traceback
    one of them did so at another place; or torch's analyzer of dumps saw only one come.

What to do
    Move the collective out of the condition, or let every rank take the branch. Check
    `if rank == 0:` blocks for metrics, barriers and state_dict calls of sharded models.

Looks like
    One absent rank among many is `missing-rank`: each blamed rank makes an explanation
    less likely, so the one that blames fewer ranks is reported.
    A rank that has left its loop and waits at the end of it is `uneven-inputs`.

References
    torch.distributed: all ranks must make the same calls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ncclforensics.evidence import (
    analyzer_reports,
    common,
    horovod_stalls,
    seen_places,
)
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.model.folding import count, noun
from ncclforensics.model.last_words import DONE
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "desync"
NEEDS = (
    *("standings", "calls", "c10d.gloo.timeout", "c10d.analyzer.not_joined"),
    "launchers.horovod",
)
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = (
    *("timeout-masking", "crashed-rank", "missing-rank", "unmatched-p2p"),
    *("collective-mismatch", "shape-mismatch", "stuck-in-collective"),
)
SPREADS = True

REMEDY = (
    Action(
        "look for a condition on the rank around {site}",
        "look for a condition on the rank around that call",
    ),
    "move the collective out of the condition, or let every rank take the branch",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that are in a call that the others never make."""
    found = weighed(frames).joined("rank-conditional-collective")
    reports = analyzer_reports.not_joined(frames), horovod_stalls.not_joined(frames)
    alone = next((told for told in reports if told and told.is_of_one), None)
    if found is None and frames["calls"].is_empty() and alone is None:
        yield NotChecked("rank-conditional-collective", MISSING, NEXT_TIME)
    if found is None and alone is not None:
        yield _reported(frames, alone)
    if (told := found) is not None:
        call, ranks = told.story.call, told.story.ranks
        assert call is not None
        call = wording.as_made_by(frames, call, ranks)
        told = replace(told, story=replace(told.story, call=call))
        what = common.call_words(common.collective(frames, call))
        who = common.ranks(ranks)
        others = (
            f"{count(len(call['absent']), 'other member')} never made it, and "
            f"{noun(len(call['absent']), 'waits', 'wait')} for nobody."
            if told.end.kind == "absent"
            else f"the others never made it{wording.elsewhere(frames, told)}"
        )
        unheard = (*call["absent"], *call["unseen"])
        over = common.printed(frames, unheard, DONE)
        waits = wording.waiting(frames, call, ranks) or told.cites
        said = ""
        if told.story.what == "after" and over.height:
            words = str(over["text"][0]).strip()[:120]
            said = f" They are through: one of them printed `{words}`."
        yield wording.finding(
            frames,
            told,
            f"{who} alone made {what}",
            f"Only {who} made {what}; {others}"
            + said
            + wording.others_behind(frames, ranks)
            + seen_places.told_at_work(frames, call["absent"]),
            REMEDY,
            (*waits, *common.cites(over, 2)),
            first_seen=wording.onset(frames, call, ranks),
        )


def _reported(frames: Frames, told: analyzer_reports.Report) -> Finding:
    """Report a call that one rank of several joined, as others tell of it."""
    who, what = common.ranks(told.came), common.call_words(told.call)
    return Finding(
        slug="rank-conditional-collective",
        confidence="possible",
        headline=f"{who} alone made {what}",
        evidence=common.cites(told.lines),
        explanation=f"{told.said}. A call that a single rank makes is "
        "mostly that rank's own; but the others may also wait elsewhere, which that "
        "report does not show.",
        remedy=REMEDY,
        ranks=told.came,
        hosts=common.hosts_of(frames, told.came),
        collective=told.call,
        first_seen=common.first_seen(told.lines),
    )
