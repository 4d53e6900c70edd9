"""A rank never made the call that its peers wait in.

What it means
    Every member of a process group has to make each collective. One rank did not: it is
    in other code (a checkpoint, a data loader, a lock), it left its loop, or it died.
    Each of its peers waits until its timeout and then reports an error. The missing
    rank reports none.

How we know
    Peers wait in SeqNum N of a group, this rank's last call there is older, and it does
    not wait in any group: followed across all groups, the waits end at it. Or the waits
    form a cycle, and by its earlier calls this rank skipped the call that closes the
    cycle. Each blamed rank counts against this explanation, and so does each other rank
    whose calls left the usual order. Calls are read from Flight Recorder dumps and from
    the watchdogs' `last enqueued work`. Or a line names the rank: from
    monitoredBarrier, from the desync report, as one of a store barrier's
    `missing_ranks`, in Horovod's list, in a barrier of JAX, in HCCL's timeouts, or from
    a communicator that all but one rank began to build. Or torch's analyzer of dumps
    found it missing: of several groups, those missing in all.

What to do
    Read that rank's log, and its stack at the call site that the report names
    (`py-spy dump --pid PID` while it hangs). For next time, set
    TORCH_FR_BUFFER_SIZE=2000 to keep dumps. Raise the timeout only if the rank is known
    to be slow for a reason.

Looks like
    A rank that waits in another group is an echo: it is late because it waits itself.
    A rank whose dump was lost is unseen, not absent: where all waits lead to it, it is
    possibly a `crashed-rank`.
    A job that runs, dumped while one rank loads its data: where nothing proves that the
    job stands still, the rank is no more than `possible`.
    A rank that died is `crashed-rank`, which explains its absence.

References
    torch.distributed Flight Recorder tutorial; torch.distributed.monitored_barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import blocked_processes, common, seen_places
from ncclforensics.evidence.reported_missing import named
from ncclforensics.model import wanted
from ncclforensics.model.actions import DUMPS, OWN_LOG, STACK
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = (
    "standings",
    *("c10d.", "nccl.init.", "ncclras.", "launchers.horovod", "stacks."),
    *("hccl.", "jax.barrier_timeout"),
)
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = (
    *("timeout-masking", "crashed-rank", "stuck-in-collective"),
    *("socket-error", "ib-error"),
)
SPREADS = True

MAX_MORE = 5  # ends in the explanation, each with its absent ranks and their call

REMEDY = (OWN_LOG, STACK, DUMPS)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that others wait for, with the call that most of them wait in."""
    found = weighed(frames).together("missing-rank")
    told = bool(found) and found[0].story.call is not None
    # a log line that names a rank is better than calls derived from log lines
    if told and found[0].confidence == "certain":
        yield _finding(frames, found)
        return
    by_name = list(named(frames))
    if told and not any(f.confidence == "certain" for f in by_name):
        yield _finding(frames, found)
        return
    yield from by_name
    if not by_name:
        yield from _unseen(frames)


def _finding(frames: Frames, found: list[Told]) -> Finding:
    """Return the finding for the first end; it mentions ranks missing elsewhere."""
    story = found[0].story
    call = story.call
    assert call is not None
    ranks = story.ranks
    failing = common.collective(frames, call)
    everyone = tuple(sorted({rank for f in found for rank in f.story.ranks}))
    here = pl.col("rank").is_in(ranks) & (pl.col("group") == call["group"])
    own = frames["standings"].filter(here)
    last = common.numbers(own["enqueued"])
    one = len(ranks) == 1
    its, they, it = ("its", "It waits", "it") if one else ("their", "They wait", "them")
    reached = f" ({its} last call there is SeqNum={last[-1]})" if last else ""
    who = common.ranks(ranks)
    also = [
        f" {common.ranks(f.story.ranks).capitalize()} never joined "
        f"{common.call_words(common.collective(frames, f.story.call))}."
        if f.story.call is not None
        else f" {common.ranks(f.story.ranks).capitalize()} made no call either."
        for f in found[1:MAX_MORE]
    ]
    others = tuple(rank for rank in everyone if rank not in ranks)
    elsewhere = f"; {common.ranks(others)} missing elsewhere" if others else ""
    did = (
        "went past that call and waits in another one"
        f"{wording.elsewhere(frames, found[0])}"
        if story.what == "skipped"
        else f"never made that call{reached}. {they} for nobody; everyone else waits "
        f"for {it}."
    )
    seen = seen_places.told_at_work(frames, ranks) + blocked_processes.words(
        frames, ranks
    )
    return wording.finding(
        frames,
        found[0],
        f"{who} never joined {common.call_words(failing)}{elsewhere}",
        f"{wording.spread(frames, call, len(found[0].end.blocked))} "
        f"{who.capitalize()} {did}{seen}{''.join(also)}",
        REMEDY,
        (
            *wording.waiting(frames, call),
            *wording.cites(own, "came as far as"),
            *blocked_processes.cites(frames, ranks),
        ),
        ranks=everyone,
    )


def _unseen(frames: Frames) -> Iterator[NotChecked]:
    """Yield whose dump is needed, if the waits lead to ranks without evidence."""
    if told := seen_places.nameless(frames):
        yield NotChecked(
            "missing-rank",
            told,
            "keep the dump of each process as rank_N.txt, or the logs that tell the "
            "rank of each pid",
        )
    unseen = common.numbers(frames["calls"]["unseen"].explode())
    if unseen:
        who = common.ranks(unseen)
        yield NotChecked(
            "missing-rank",
            f"others wait in calls that {who} must make too, and nothing shows what "
            f"{'it' if len(unseen) == 1 else 'they'} did",
            f"keep the log and the dump of {who}: others wait for them",
        )
    mute = common.numbers(frames["roots"].filter(pl.col("why") == "mute")["rank"])
    if mute:
        who = common.ranks(mute)
        yield NotChecked(
            "missing-rank",
            f"{who} did not make the call, but sends and receives messages, which Gloo "
            "does not record: it may wait in one",
            f"py-spy dump of {who} while it hangs; and keep its log, which shows "
            "messages that timed out",
        )
