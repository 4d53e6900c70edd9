"""A person or a policy ended the job while it ran: nothing failed.

What it means
    Somebody cancelled the job (`scancel`, Ctrl-C, `bkill`, `kubectl delete`), or a rule
    of the site did. Every process reports a signal or a lost peer. No rank is at fault.

How we know
    Slurm's `CANCELLED` without `DUE TO`, or `DUE to SIGNAL`; job state CANCELLED or
    DEADLINE; `CANCELLED by <uid>` of sacct; LSF's `TERM_OWNER` or `TERM_ADMIN`; PBS' or
    Grid Engine's `qdel`; Flux' `type=cancel`; Determined's `was killed by user`; a pod
    with a deletion timestamp; SIGINT or SIGHUP (the terminal was closed) that reached
    the agent, srun or every rank; with nothing before it that says that the job had
    already failed or hung. A cancelled step without its job says nothing, as srun also
    cancels a step after one of its tasks failed, unless srun shows that all tasks ended
    by its signal, or that it got SIGCONT itself, with which Slurm begins to end a whole
    job.

What to do
    Ask who cancelled it: `sacct -j <job> -X -o JobID,State%30,End` names the user id.
    If it was ended because it seemed to hang, dump the ranks first next time:
    `ncclforensics collect`.

Looks like
    `DUE TO TIME LIMIT` is `time-limit`, `DUE TO PREEMPTION` is `preempted`. A job that
    hung or lost a rank and was cancelled afterwards: the hang is the verdict, this
    class is ruled out, and the cancel is how it ended. SIGTERM alone, to torchrun or to
    a process: who sent it is not known.

References
    Slurm scancel(1), sacct(1); LSF bhist(1); Kubernetes pod termination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.evidence import common, exceptions, external_stop
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding, RuledOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    *("slurm.", "launchers.lsf", "launchers.kubernetes", "torchelastic.", "python."),
    *("launchers.killed_by_user", "launchers.batch", "launchers.flux"),
)
MISSING, NEXT_TIME = wanted.SCHEDULER
EXPLAINS = external_stop.ECHOES
SPREADS = True

# ended by a request or a rule; other states have a class of their own
STATES = ("CANCELLED", "DEADLINE")
OWNED = (
    *("slurm.sacct.cancelled", "launchers.lsf.killed_by", "slurm.interrupted"),
    *("launchers.killed_by_user", "launchers.batch.deleted"),
    "launchers.flux.cancelled",
)
# schedulers and root, who delete a job for reasons of their own
NO_USER = r"^(?:maui|moab|pbs_server|Scheduler|root)$"
# a controller may delete a pod as well as a person
DELETED = "launchers.kubernetes.deleted"
AUDITED = "launchers.kubernetes.audit_deleted"
# users of the cluster itself, such as the controller that cleans up an ended job
SYSTEM = "system:"
CONTINUED = "slurm.continued"
# an agent passes on the signal that it got itself; after a failure it sends SIGTERM
SIGNALLED = (
    *("torchelastic.signalled", "torchelastic.signalled.raised"),
    "torchelastic.closing",
)
SENT = r"(?:^|\.)(?:KeyboardInterrupt|SignalException)$"
INTERRUPT = r"^(?:[12]|(?:Signals\.)?SIG(?:INT|HUP))$"  # Ctrl-C, a closed terminal
HANGUP = r"^(?:1|(?:Signals\.)?SIGHUP)$"
# states and causes of other classes that end a job from outside
OTHER_CAUSES = r"^(?:TIME LIMIT|PREEMPTION|NODE FAILURE|TASK FAILURE)"
OTHER_STATES = ("TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY")
OTHERS = (
    *("slurm.sacct.timeout", "slurm.sacct.preempted", "slurm.sacct.node_fail"),
    *("slurm.sacct.out_of_memory", "slurm.oom_kill", "slurm.memory_limit"),
    "launchers.kubernetes.preempted",
    *("launchers.kubernetes.deadline", "launchers.kubernetes.evicted"),
    *("launchers.batch.memory_limit", "launchers.lsf.preempted"),
    *("launchers.sge.wallclock", "launchers.flux.timeout", "cloud.skypilot.preempted"),
)
# a rank gave up on a call: nothing that a signal leaves
GAVE_UP = r"^c10d\.(?:watchdog|gloo|blocking_wait)\.timeout"
REMEDY = (
    Action(
        "sacct -j <job> -X -o JobID,User,State%30,End   # CANCELLED by <uid>",
        only="slurm",
    ),
    Action(
        "scontrol requeue <job>   # or sbatch again, from the last checkpoint",
        only="slurm",
    ),
    Action("start the job again, from its last checkpoint", only="no slurm"),
)


DETACH = "start it under sbatch, tmux or nohup: closing its terminal ends it"


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report that somebody ended the job, unless it had already failed."""
    lines = _lines(frames)
    if lines.is_empty() or _is_step_alone(frames, lines) or _has_other_cause(frames):
        return
    before = pl.concat(
        [
            external_stop.failed_before(frames, lines),
            _of_unknown_order(frames, lines),
            _ends(frames),
        ]
    )
    if before.height:
        why = "the job had failed or hung before; the cancel is only how it ended"
        yield RuledOut("cancelled", why, common.cites(before, 2))
        return
    yield Finding(
        slug="cancelled",
        confidence=_confidence(lines),
        headline=f"the job was cancelled{_by(lines)}: nothing failed before",
        evidence=common.cites(lines),
        explanation="It was ended by a request or a rule, and nothing in this evidence "
        "says that it had failed or hung before. Signals and lost peers after that "
        "line are teardown.",
        remedy=(DETACH, *REMEDY) if _hung_up(lines) else REMEDY,
        first_seen=common.first_seen(lines),
    )


def _lines(frames: Frames) -> pl.DataFrame:
    """Return the lines that tell of a cancel or of an interrupt."""
    stopped = external_stop.slurm_time(frames.message("slurm.cancelled"))
    if "cause" in stopped.columns:
        own = pl.col("cause").is_null() | pl.col("cause").str.starts_with("SIGNAL")
        stopped = stopped.filter(own | (pl.col("cause") == "JOB REQUEUE"))
    states = external_stop.slurm_time(frames.message("slurm.state"))
    if "state" in states.columns:
        states = states.filter(pl.col("state").is_in(STATES))
    owned = external_stop.slurm_time(frames.message(*OWNED, DELETED))
    if "user" in owned.columns:
        by_rule = pl.col("user").str.contains(NO_USER).fill_null(False)
        owned = owned.filter(~by_rule)
    audited = frames.message(AUDITED)
    if "user" in audited.columns:
        audited = audited.filter(~pl.col("user").str.starts_with(SYSTEM))
    told = [stopped, states, owned, audited, _interrupts(frames)]
    return pl.concat(told, how="diagonal_relaxed")


def _interrupts(frames: Frames) -> pl.DataFrame:
    """Return the lines of an agent or a rank that got SIGINT."""
    agents = frames.message(*SIGNALLED)
    if "signal" in agents.columns:
        agents = agents.filter(pl.col("signal").str.contains(INTERRUPT))
    raised = frames.message(*exceptions.TRACEBACKS)
    if "exception" not in raised.columns:  # none was read to its end
        raised = raised.clear()
    else:
        # if one rank raised something else, its agent may have interrupted the others
        # what is pasted may end with the head of one more
        raised = raised.drop_nulls("span")
        own = pl.col("exception").str.contains(SENT)
        alike = raised.select(own.fill_null(False).all()).item()
        is_sigint = pl.col("exception").str.ends_with("KeyboardInterrupt")
        raised = raised.filter(is_sigint & alike)
    return pl.concat([agents, raised], how="diagonal_relaxed")


def _has_other_cause(frames: Frames) -> bool:
    """Whether a scheduler names a cause that is a class of its own."""
    if frames.message(*OTHERS).height:
        return True
    for message, column, found in (
        ("slurm.cancelled", "cause", pl.col("cause").str.contains(OTHER_CAUSES)),
        ("slurm.state", "state", pl.col("state").is_in(OTHER_STATES)),
    ):
        lines = frames.message(message)
        if column in lines.columns and lines.filter(found).height:
            return True
    return False


def _of_unknown_order(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Return the failures that a cancel without a time cannot be shown to precede.

    A table of the accounting may tell no time. Lost peers are no such failures: they
    are also what a cancel leaves.
    """
    signs = frames["events"].filter(
        ((pl.col("role") == "culprit") | pl.col("message").str.contains(GAVE_UP))
        & ~pl.col("message").str.contains(external_stop.OUTSIDE)
        & ~pl.col("source").is_in(lines["source"].unique().implode())
    )
    is_timed = lines["t"].null_count() < lines.height
    return (signs.clear() if is_timed else signs).select("text", "source", "line")


def _ends(frames: Frames) -> pl.DataFrame:
    """Return the tasks that had ended by an error of their own before any stop."""
    ends = exit_records.by_themselves(frames)
    early = ~external_stop.after_stop(frames, ends)
    words = pl.col("text").fill_null("a process ended with an error")
    return ends.filter(early).select(words, "source", "line")


def _confidence(lines: pl.DataFrame) -> Confidence:
    told = set(lines["message"])
    if told == {"slurm.cancelled"} and not (lines["what"] == "JOB").any():
        return "likely"
    return (
        "certain"
        if told & {"slurm.cancelled", "slurm.state", AUDITED, *OWNED}
        else "likely"
    )


def _is_step_alone(frames: Frames, lines: pl.DataFrame) -> bool:
    """Whether only a step was cancelled, which srun also does after a failure.

    Then srun prints which task failed. Where it prints only tasks that got its signal,
    and prints them after the cancel, none had failed. Where Slurm signals srun itself
    and no task failed, the whole job was ended.
    """
    if set(lines["message"]) != {"slurm.cancelled"} or (lines["what"] == "JOB").any():
        return False
    ends = exit_records.torn_down(frames)
    sent = ends["reason"].is_in(exit_records.ENDED_BY_SRUN)
    told = (ends.height and sent.all()) or frames.message(CONTINUED).height
    return not (told and exit_records.of_slurm(frames).is_empty())


def _hung_up(lines: pl.DataFrame) -> bool:
    """Whether the job got SIGHUP, as when its terminal or ssh session is closed."""
    if "signal" not in lines.columns:
        return False
    signals = lines["signal"].drop_nulls()
    return signals.len() > 0 and signals.str.contains(HANGUP).all()


def _by(lines: pl.DataFrame) -> str:
    """Return ` by uid 1001`, or what else is known of who ended it."""
    told = [lines[c].drop_nulls() for c in ("uid", "step_uid") if c in lines.columns]
    users = pl.concat(told).unique().to_list() if told else []
    if len(users) == 1:
        return " by root" if users[0] == 0 else f" by uid {users[0]}"
    if "user" in lines.columns and (names := lines["user"].drop_nulls().unique()).len():
        return f" by {names[0]}" if names.len() == 1 else ""
    messages = set(lines["message"])
    if messages & {"slurm.interrupted", *SIGNALLED, "python.traceback"}:
        return " with its terminal (SIGHUP)" if _hung_up(lines) else " by Ctrl-C"
    return " by deleting its pod" if DELETED in messages else ""
