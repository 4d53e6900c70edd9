"""The machine was taken back: the scheduler preempted the job, or a spot machine ended.

What it means
    A job with higher priority got the nodes, or the cloud took its machine back.
    Processes there were told to stop and then killed. Nothing in the job is wrong.

How we know
    Slurm's `DUE TO PREEMPTION` or job state PREEMPTED, LSF's `TERM_PREEMPT`,
    Kubernetes' `Preempted by …` or `PreemptionByScheduler`, Volcano's and Kueue's words
    for it, a pod that its autoscaler deletes with the node, Ray Train's watcher,
    submitit's `this job is preempted` or a pod that ended in `node shutdown` (likely: a
    person may have done it), TPUEstimator's `lame workers found` (likely: they may have
    an internal error), or a spot or preemption notice of AWS, Google, Azure or
    SkyPilot, with nothing before it that says that the job had already failed or hung.

What to do
    Restart from the last checkpoint. Save a checkpoint when the notice comes: SIGTERM
    comes before SIGKILL (`GraceTime` in Slurm, two minutes on AWS, half a minute
    elsewhere).

Looks like
    SIGTERM from torchrun's agent after a failure, or `Received 15 death signal` alone:
    neither says why the job was stopped. `DUE TO TIME LIMIT` is `time-limit`.

References
    Slurm preemption guide; cloud providers' spot interruption notices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, external_stop
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding, RuledOut
from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    *("slurm.", "cloud.", "launchers.kubernetes", "launchers.ray"),
    *("launchers.lsf", "jax.lame_workers"),
)
MISSING, NEXT_TIME = wanted.SCHEDULER
EXPLAINS = (
    "crashed-rank",
    "missing-rank",
    "timeout-masking",
    "socket-error",
    "ib-error",
    "rendezvous-failed",
    "node-lost",
    "elastic-below-min",
    "gil-deadlock",
    "straggler",
)
SPREADS = True

SUBMITIT = "slurm.submitit.preempted"
SHUTDOWN = "launchers.kubernetes.node_shutdown"
LAME = "jax.lame_workers"  # what a coordinator says of other machines
LINES = (
    "slurm.cancelled",
    "slurm.state",
    "slurm.sacct.preempted",
    SUBMITIT,
    "launchers.kubernetes.preempted",
    "launchers.ray.preempted",
    "launchers.ray.actor_preempted",
    "cloud.spot.aws",
    "cloud.spot.itn",
    "cloud.spot.google",
    "cloud.spot.azure",
    *("cloud.skypilot.preempted", "launchers.lsf.preempted", SHUTDOWN),
    LAME,
)
# who shut the machine down, or who sent the signal, is not said
UNSURE = (SUBMITIT, SHUTDOWN, LAME)
REMEDY = (
    Action("sbatch --requeue …   # from the last checkpoint", only="slurm"),
    Action("#SBATCH --signal=B:USR1@120   # trap it, and save", only="slurm"),
    Action(
        "start again from the last checkpoint; a job controller does it by itself",
        only="no slurm",
    ),
    Action("trap SIGTERM and save: it comes before the machine goes", only="no slurm"),
)


def _by_slurm(lines: pl.DataFrame) -> str:
    """Say that Slurm cancelled the whole job; the node only printed the line."""
    told = lines.filter(pl.col("message") == "slurm.cancelled")
    return ": Slurm cancelled all of it" if told.height else ""


def _failed_again(frames: Frames, lines: pl.DataFrame) -> pl.Series:
    """Return which `lines` are of submitit, in logs where its next start failed."""
    start = frames.message("slurm.submitit.started")
    start = start.group_by("source").agg(pl.col("line").max().alias("started"))
    bad = frames["events"].filter(pl.col("role").is_in(FAILING))
    bad = bad.join(start, on="source").filter(pl.col("line") > pl.col("started"))
    again = lines.select("message", "source", "line").join(
        bad.group_by("source").agg(pl.col("started").first()),
        on="source",
        how="left",
        maintain_order="left",
    )
    return (
        (again["message"] == SUBMITIT) & (again["line"] < again["started"])
    ).fill_null(False)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the node that was taken back, unless the job had already failed."""
    lines = external_stop.lines(frames, LINES, "PREEMPTION", "PREEMPTED")
    lines = lines.filter(~_failed_again(frames, lines))
    if lines.is_empty():
        return
    before = external_stop.failed_before(frames, lines)
    if before.height:
        why = "the job had failed or hung before it was preempted"
        yield RuledOut("preempted", why, common.cites(before, 2))
        return
    nodes = lines["node"] if "node" in lines.columns else lines["host"].clear()
    listed = lines["nodes"].explode() if "nodes" in lines.columns else nodes
    # Slurm takes back all nodes of a job; only one of them prints the line
    own = lines.filter(pl.col("message") != LAME)["host"]
    hosts = common.strings(nodes) or common.strings(listed) or common.hosts(own)
    pods = common.pods(lines)
    for named in ("disrupted", "evicted"):
        pods += common.strings(lines[named]) if named in lines.columns else ()
    pods = tuple(sorted(set(pods)))
    # a cloud takes back the machine that prints its notice
    taken = lines.filter(pl.col("message").str.starts_with("cloud."))["host"]
    ranks = common.ranks_on(frames, pods or common.hosts(taken))
    if "preempted" in lines.columns:
        told = lines["preempted"].drop_nulls().str.extract_all(r"\d+").explode()
        ranks = common.numbers(told.cast(pl.Int64, strict=False)) or ranks
    hosts = hosts or pods or common.hosts_of(frames, ranks)
    if not hosts and "drained" in lines.columns:
        # Ray's own name of a node, where nothing maps it to a host
        listed = lines["drained"].drop_nulls().str.extract_all(r"\w+").explode()
        hosts = common.strings(listed)
    where = common.on(hosts)
    where += f" with {common.ranks(ranks)}" if ranks else ""
    yield Finding(
        slug="preempted",
        confidence="likely" if lines["message"].is_in(UNSURE).all() else "certain",
        headline=f"the job was preempted{where}{_by_slurm(lines)}",
        evidence=common.cites(lines),
        explanation="It was stopped from outside to make room, and nothing had failed "
        "before. Signals and lost peers after that line are teardown.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )
