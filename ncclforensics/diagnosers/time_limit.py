"""The scheduler ended the job at its time limit: nothing failed.

What it means
    The requested time is over. The scheduler sends SIGTERM, then SIGKILL, and every
    process reports a signal or a lost peer. There is nothing to repair.

How we know
    Slurm's `DUE TO TIME LIMIT` or job state TIMEOUT, PBS' `walltime … exceeded limit`,
    LSF's `TERM_RUNLIMIT`, Grid Engine's `exceeded hard wallclock time`, Flux'
    `type=timeout`, submitit's `Job not requeued because: timed-out`, Kubernetes'
    `active longer than specified deadline`, or AWS Batch's `Job attempt duration
    exceeded timeout`, with nothing before it that says that the job had already failed
    or hung.

What to do
    Ask for more time, or save often enough and requeue the job. Have the scheduler
    announce the end in time: `#SBATCH --signal=B:USR1@300` leaves five minutes.

Looks like
    A job that hung until its limit: the timeouts or open calls before it show the
    cause, and this class is ruled out. `DUE TO PREEMPTION` is `preempted`.

References
    Slurm sbatch(1) --time and --signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.evidence import common, external_stop
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding, RuledOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    *("slurm.", "launchers.pbs", "launchers.lsf", "launchers.kubernetes", "cloud."),
    *("launchers.sge", "launchers.flux"),
)
MISSING, NEXT_TIME = wanted.SCHEDULER
EXPLAINS = external_stop.ECHOES
SPREADS = True

LINES = (
    "slurm.cancelled",
    "slurm.state",
    "slurm.sacct.timeout",
    *("slurm.submitit.timed_out", "slurm.allocation_ended"),
    "launchers.pbs.walltime",
    "launchers.lsf.runlimit",
    *("launchers.kubernetes.deadline", "launchers.sge.wallclock"),
    *("launchers.flux.timeout", "cloud.deadline"),
)
REMEDY = (
    Action(
        "sbatch --time=<longer> …   # or start again from the last checkpoint",
        only="slurm",
    ),
    Action(
        "#SBATCH --signal=B:USR1@300   # five minutes' notice: save when it comes",
        only="slurm",
    ),
    Action(
        "ask for a longer limit, or start again from the last checkpoint",
        only="no slurm",
    ),
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report that the time was over, unless the job had already failed."""
    lines = external_stop.lines(frames, LINES, "TIME LIMIT", "TIMEOUT")
    if lines.is_empty():
        return
    before = external_stop.failed_before(frames, lines)
    if before.height:
        why = "the job had failed or hung before its time was over"
        yield RuledOut("time-limit", why, common.cites(before, 2))
        return
    yield Finding(
        slug="time-limit",
        confidence="certain",
        headline="the scheduler ended the job at its time limit",
        evidence=common.cites(lines),
        explanation="The time that was asked for was over, and nothing had failed "
        "before. Signals and lost peers after that line are teardown.",
        remedy=REMEDY,
        first_seen=common.first_seen(lines),
    )
