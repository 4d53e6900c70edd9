"""The first visible failure is a timeout, but the job had stopped long before.

What it means
    A watchdog reports a call only when the call has waited as long as its timeout. The
    job stopped when that call began to wait, and in between it looked alive. A timeout
    says which ranks waited, never which rank they waited for.

How we know
    `ran for N milliseconds before timing out` in a watchdog's line: the onset is the
    line's time less N. If another class names the cause, this finding is listed with
    it and says how long the cause was hidden. Alone, it accuses nobody.

What to do
    Shorten the timeout (`init_process_group(timeout=…)`) as far as the longest healthy
    call allows. To see the cause next time, set TORCH_FR_BUFFER_SIZE=2000 and keep the
    dumps and the log of every rank, above all of the silent ones.

Looks like
    Any class in which peers wait: this is only how the waiting ended.

References
    torch ProcessGroupNCCL watchdog; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.actions import DUMPS
from ncclforensics.model.findings import Finding
from ncclforensics.model.folding import count
from ncclforensics.model.words import lasted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "runtime"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.LOGS
EXPLAINS = ()
SPREADS = False

TIMEOUTS = ("c10d.watchdog.timeout", "c10d.gloo.timeout")

REMEDY = (
    DUMPS,
    "keep the log of every rank: torchrun --log-dir DIR --redirects 3 --tee 3",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report how long the job had been stopped when its timeouts were logged."""
    lines = frames.message(*TIMEOUTS)
    if lines.is_empty():
        return
    waited = [pl.col(c) for c in ("ran_ms", "waited_ms") if c in lines.columns]
    told = lines.with_columns(
        pl.coalesce(*waited, pl.lit(None, pl.Int64)).alias("ran")
    ).with_columns((pl.col("t") - pl.duration(milliseconds="ran")).alias("t"))
    ran = told["ran"].max()
    ranks = common.numbers(told["rank"])
    hidden = (
        f" The job had stopped {lasted(int(str(ran)) / 1e3)} before." if ran else ""
    )
    calls = frames["calls"].filter(pl.col("waiting").list.len() > 0)
    call = None
    for row in (
        calls.sort(pl.col("waiting").list.len(), descending=True).head(1).to_dicts()
    ):
        call = common.collective(frames, row)
    spoke = common.speakers(frames, told)
    if ranks:
        spoke = count(len(ranks), "rank")
    elif spoke == common.NOBODY:
        spoke = count(told.height, "line")
    if hosts := common.hosts(told["host"]):
        spoke += f" on {common.named(hosts)}"
    yield Finding(
        slug="timeout-masking",
        confidence="certain",
        headline="the first visible failure is a timeout"
        + (f" in {common.call_words(call)}" if call and call.op else ""),
        evidence=common.cites(lines, 3),
        explanation=f"Timeouts were reported by {spoke}.{hidden} They show which ranks "
        f"waited, not which rank they waited for.",
        remedy=REMEDY,
        collective=call,
        first_seen=common.first_seen(told),
    )
