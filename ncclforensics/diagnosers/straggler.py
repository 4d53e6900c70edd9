"""One rank came to a call after its peers' timeout: late, but not lost.

What it means
    The rank was working all the time: it prepared data, saved a checkpoint, compiled a
    kernel, or moved parameters. It did reach the collective, but by then its peers had
    given up on it.

How we know
    This rank made the call later than the others by more than the call's own timeout,
    and all members have made it. Clocks are compared through earlier calls of the group
    that both ranks made. Members that never came speak against this class. The job may
    have gone on afterwards, as dumps are written when a timeout passes: then a pause of
    a whole timeout before the call shows it. Or the rank's own log shows it at work:
    it has lines from the second half of the others' wait, of a kind that no waiting
    rank prints, or a progress bar that is drawn so late.

What to do
    Do the slow work before the first collective, on all ranks at once, or behind a
    barrier of its own with a longer timeout (`init_process_group(timeout=…)`).

Looks like
    `missing-rank` never arrives. A wrong clock makes every call of a host late, not
    one.

References
    torch.distributed.init_process_group, timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, seen_places
from ncclforensics.model import wanted
from ncclforensics.model.actions import OWN_LOG
from ncclforensics.model.findings import Cite
from ncclforensics.model.last_words import BAR, LAST
from ncclforensics.model.words import lasted
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import case_of, weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Finding, Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = ("collectives", "calls")
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = (
    *("timeout-masking", "crashed-rank", "missing-rank", "stuck-in-collective"),
    "gpu-stall",
)
SPREADS = True

REMEDY = (
    OWN_LOG,
    "do that work before the first collective, or raise the timeout for it",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that joined a call after the others' timeout."""
    told = weighed(frames).joined("straggler")
    if told is not None:
        at_work = told.story.what == "at work"
        yield _at_work(frames, told) if at_work else _finding(frames, told)


def _at_work(frames: Frames, told: Told) -> Finding:
    """Return the finding on ranks that their logs show at work in the others' wait."""
    call, ranks = told.story.call, told.story.ranks
    assert call is not None
    who, its = common.ranks(ranks), "its" if len(ranks) == 1 else "their"
    failing = common.call_words(common.collective(frames, call))
    last = common.printed(frames, ranks, LAST)
    did = f"still logged work of {its} own late in that wait"
    if last.is_empty():
        last = frames["events"].filter(pl.col("message") == BAR)
        did = "alone did not wait, and a progress bar was still drawn late in that wait"
    return wording.finding(
        frames,
        told,
        f"{who} had not joined {failing}: {its} log shows {_it(ranks)} at work",
        f"{wording.spread(frames, call, len(told.end.blocked))} {who.capitalize()} "
        f"{did}."
        f"{seen_places.told_at_work(frames, ranks)}",
        REMEDY,
        (*wording.waiting(frames, call), *common.cites(last.sort("t").tail(1))),
    )


def _it(ranks: tuple[int, ...]) -> str:
    return "it" if len(ranks) == 1 else "them"


def _finding(frames: Frames, told: Told) -> Finding:
    call, ranks = told.story.call, told.story.ranks
    assert call is not None
    all_late, calls = case_of(frames).late, (call, *told.story.others)
    late = pl.concat([all_late[c["call"]] for c in calls if c["call"] in all_late])
    failing = common.collective(frames, call)
    who = common.ranks(ranks)
    seconds = float(str(late["after"].max())) / 1e3
    timeout = float(str(late["timeout_ms"].max())) / 1e3
    ago = pl.duration(milliseconds="after")
    came = "All that left a dump" if call["unseen"] else "All members"
    cited = tuple(
        Cite(
            row["source"],
            row["line"],
            f"rank {row['rank']} made the call at {row['t']}",
        )
        for row in late.head(3).to_dicts()
    )
    return wording.finding(
        frames,
        told,
        f"{who} came {lasted(seconds)} late to {common.call_words(failing)}",
        f"{came} made {common.call_words(failing)}, but {who} made it "
        f"{lasted(seconds)} after the first, when the timeout of {lasted(timeout)} had "
        f"passed and the others had given up.{seen_places.told_at_work(frames, ranks)}",
        REMEDY,
        (*cited, *wording.waiting(frames, call)),
        first_seen=wording.onset(frames, call)
        or common.first_seen(late.with_columns(pl.col("t") - ago)),
    )
