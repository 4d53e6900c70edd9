"""Facts on the job as a whole, and whether anything failed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import finished
from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.traces import call_summary, communicators
from ncclforensics.correlate.traces.communicators import PROCESS
from ncclforensics.model.frames import needing, remembered
from ncclforensics.model.tables import CITE, FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# programs that report on the machine: their lines need not concern the job
MACHINE = r"^(?:kernel|nvidia|amd)\."
NODE_FAILED = "slurm.node_failure"
# tables of a machine's state, which anybody may have asked for at any time
STATE = (
    r"^(?:nvidia\.|amd\.|system\.(?:ip_json|ethtool|mtu|ps)$"
    r"|rdma\.(?:ports|link|linkinfo|counter|query_errors|mlxlink)$)"
)
# somebody asked for this state alone: what is not listed as active is well
ASKED = "nvidia.smi.clocks"
# printed by the last ranks of a job after the first ones have exited
CLOSING = (
    *("nccl.socket.peer_closed", "nccl.socket.io_failed", "c10d.gloo.closed"),
    "torchelastic.rendezvous.lost",
)
# no sign of failure: a store is gone after a normal end as well as after rank 0 died; a
# connection may come from outside the job
SAYS_NOTHING = ("c10d.store.lost", "c10d.dump.flag_unreadable", "nccl.socket.stranger")
# what NCCL tries while it builds a communicator, and can do without
TRIED = (
    *("nccl.ib.device_unusable", "nccl.ib.call_failed", "nccl.ib.call_failed.early"),
    *("nccl.cuda.failure", "nccl.nvls.cuda_failure", "nccl.mnnvl.unavailable"),
    *("nccl.syscall_failed", "nccl.net.no_same_subnet"),
)
# lines of a program that tell which rank prints them
TAGGED = ("python.tagged", "uncaught.record")
METRICS = "python.metrics"  # of Hugging Face's Trainer: epochs, and no step
BATCH = "python.step.batch"  # counts anew in each epoch
STEPS = (
    *("python.step", "python.step.equals", "python.step.iteration"),
    BATCH,
    "launchers.megatron.iteration",
    "launchers.nemo.step",
)
# a step number in an exception's text is not a step
AN_EXCEPTION = r"^\s*raise |^[\w.]+(?:Error|Exception): "
# topology lines that NCCL prints once all ranks of a communicator have joined
TOPOLOGY = (
    *("nccl.topology.affinity", "nccl.comm.layout", "nccl.trees", "nccl.p2p.none"),
    *("nccl.nvls.support", "nccl.init.connected"),
)
LAST_WORDS = 4  # lines at the end of a log
REFUSED = 5  # connect retries that a peer which is only slow does not cause
# NCCL result codes: CUDA, system and internal error, invalid usage, lost peer
BROKE = (1, 2, 3, 5, 6)
# agent lines on children that end as told, and on nodes that leave or join
AGENTS_AT_WORK = (
    *("torchelastic.closing", "torchelastic.restart", "torchelastic.rendezvous.left"),
    *("torchelastic.exit_barrier", "torchelastic.error_file_missing"),
    *("launchers.deepspeed.told", "launchers.horovod.exit"),
)
BUFFER = 4096  # C's stdio flushes stdout in blocks of this size if it is a file
LAUNCHERS = {
    "torchelastic": "torchrun",
    "launchers.horovod": "horovodrun",
    "launchers.ray": "Ray",
    "launchers.deepspeed": "DeepSpeed",
    "slurm": "Slurm",
    "launchers.mpi": "mpirun",
    "launchers.hydra": "mpirun",
}


def facts(frames: Frames, world_size: int | None = None) -> dict[str, object]:
    """Return world size, ranks and hosts seen, versions and launcher, or None each.

    `ranks_seen` and `ranks_placed`, those with a host, are counts, `hosts` a sorted
    list; `torch_version` is always None. A given `world_size` overrides that of the
    evidence.
    """
    return {
        "world_size": world_size or _world_size(frames),
        "ranks_seen": frames["ranks"].height,
        "ranks_placed": frames["ranks"]["host"].count(),
        "hosts": [*_hosts(frames)],
        "nccl_version": _one(frames, "nccl.version", "version"),
        "torch_version": None,
        "launcher": _launcher(frames),
    }


@remembered
def signs_of_failure(frames: Frames) -> int:
    """Count the signs of failure, including set-ups that never completed."""
    return signs_told(frames) + _never_met(frames)


def signs_told(frames: Frames) -> int:
    """Count the lines that a healthy job does not print, and nonzero exits.

    An agent's line on a failed child counts, though it gives no cause. Kernel lines do
    not count: machines have errors, and most do no harm. A log whose end never left its
    buffer counts too: its process was killed, or still runs.
    """
    message = pl.col("message")
    agents = (pl.col("role") == "agent") & ~message.is_in(AGENTS_AT_WORK)
    told = frames["events"].filter(
        (pl.col("role").is_in(FAILING) | agents) & ~message.str.contains(MACHINE)
    )
    if told.height:
        told = told.join(_done_without(frames), on=["source", "line"], how="anti")
    if told.height and ended_in_order(frames):
        told = told.filter(~message.is_in(CLOSING))
    lines = told.height + _uncaught(frames) + _unwound(frames) + _refused(frames)
    lines += _orphaned(frames) + _last_warnings(frames) + _cut_short(frames)
    exits = frames["exits"].filter(pl.col("code") != 0).height
    return lines + exits + _cut_by_buffer(frames)


def failing(frames: Frames) -> pl.DataFrame:
    """Return the `events` of failures that the job itself prints, not its machines."""
    return frames["events"].filter(
        pl.col("role").is_in(FAILING) & ~pl.col("message").str.contains(MACHINE)
    )


def is_unseen(frames: Frames) -> bool:
    """Whether all evidence is of machines, or of dumps truncated before any call."""
    message = pl.col("message")
    if frames["events"]["message"].unique().to_list() == [ASKED]:
        return False
    state = message.str.contains(STATE) & (pl.col("role") == "neutral")
    lines = frames["events"].filter(~message.str.contains(MACHINE) & ~state)
    cut = call_summary.dumps(frames)["cut"].fill_null(True)
    torn = bool(cut.len() and cut.all()) and not frames.has("collectives")
    own = ("collectives", "positions", "ranks")
    nothing = torn or not any(frames.has(name) for name in own)
    return lines.is_empty() and nothing and regular_forms.LINES not in frames.messages


def is_unread(frames: Frames) -> bool:
    """Whether no line and no call was recognised, whatever the names of files tell."""
    read = ("events", "collectives", "positions", "looks", "stacks")
    told = any(frames.has(name) for name in read)
    return not told and regular_forms.LINES not in frames.messages


@remembered
def steps(frames: Frames) -> pl.DataFrame:
    """Return the lines that count steps, with `step`; empty if no line does."""
    lines = frames.message(*STEPS)
    if "step" not in lines.columns:
        return lines.clear()
    return lines.filter(~pl.col("text").str.contains(AN_EXCEPTION)).drop_nulls("step")


def steps_of_all(frames: Frames) -> pl.DataFrame:
    """Return those of `steps` that count the steps of the whole training."""
    return steps(frames).filter(pl.col("message") != BATCH)


@needing(*TRIED, otherwise=CITE)
def _done_without(frames: Frames) -> pl.DataFrame:
    """Return `source` and `line` of failed tries that NCCL then did without.

    The communicator of the process completed afterwards, with another device or none.
    """
    tries = frames.message(*TRIED).select(*PROCESS, "line")
    served = (
        frames.message("nccl.init.complete")
        .group_by(PROCESS)
        .agg(pl.col("line").max().alias("served"))
    )
    return (
        tries.join(served, on=PROCESS)
        .filter(pl.col("line") < pl.col("served"))
        .select("source", "line")
    )


@needing("uncaught.", otherwise=0)
def _uncaught(frames: Frames) -> int:
    """Count ends of tracebacks in files with no whole traceback and no later step.

    Whole tracebacks show by themselves whether a healthy job prints them.
    """
    lines = frames.message("uncaught.exception", "uncaught.of_rank")
    whole = frames.message("python.traceback")["source"].unique()
    steps = (
        frames.message(*STEPS)
        .group_by("source")
        .agg(pl.col("line").max().alias("step_line"))
    )
    return (
        lines.filter(~pl.col("source").is_in(whole.implode()))
        .join(steps, on="source", how="left")
        .filter((pl.col("line") > pl.col("step_line")).fill_null(True))
        .height
    )


def _unwound(frames: Frames) -> int:
    """Count the NCCL calls that returned an error, whatever caused it.

    Probes fail in a healthy job as well (no IB here), but do not fail the whole call.
    """
    lines = frames.message("nccl.backtrace")
    if "tail" not in lines.columns:
        return 0
    whole = pl.col("tail").str.starts_with("[Async thread]")
    return lines.filter(whole & pl.col("result").is_in(BROKE)).height


@needing(*communicators.INITS, otherwise=0)
def _never_met(frames: Frames) -> int:
    """Count the processes whose log ends while they wait for their communicator."""
    known = communicators.inits(frames)
    began = known.filter((pl.col("phase") == "START") & (pl.col("nranks") > 1))
    last = began.group_by(PROCESS).agg(pl.col("line").max())
    # text that was joined to one line has no order
    done = known.filter(pl.col("phase") == "COMPLETE").select(*PROCESS, "line")
    last = last.join(done, on=[*PROCESS, "line"], how="anti", nulls_equal=True)
    waits = _last_words(last, frames["events"])
    steps = frames.message(*STEPS)["source"].unique()
    waits = waits.filter(~pl.col("source").is_in(steps.implode()))
    return waits.height + (0 if steps.len() else _never_built(known, frames["events"]))


def _never_built(known: pl.DataFrame, events: pl.DataFrame) -> int:
    """Count the processes in set-up, if none completed it and each host has its log.

    A single merged stream may be copied only up to there; several do not all end there
    by chance.
    """
    began = known.filter(pl.col("nranks") > 1).select(PROCESS).drop_nulls().unique()
    through = (known["phase"] == "COMPLETE").any()
    nccl = events.filter(pl.col("message").str.starts_with("nccl.")).drop_nulls("host")
    alone = nccl.group_by("source").agg(pl.col("host").n_unique())
    apart = bool((alone["host"] == 1).all()) and nccl["host"].n_unique() > 1
    return began.height if apart and not through else 0


def _orphaned(frames: Frames) -> int:
    """Count the SAYS_NOTHING lines, if there are no others.

    They also end the log of a job that ended well, but then it has other lines.
    """
    lines = frames["events"].filter(pl.col("message").is_in(SAYS_NOTHING))
    return lines.height if lines.height == frames["events"].height else 0


def _last_warnings(frames: Frames) -> int:
    """Count the unknown warnings at the end of logs, if there are no other lines.

    A healthy job prints such lines too, among those of its communicators and steps.
    """
    events = frames["events"]
    warned = frames.message("nccl.warn").filter(pl.col("level") == "WARN")
    if warned.is_empty() or warned.height < events.height:
        return 0
    return _at_the_end(frames, warned, LAST_WORDS)


def _at_the_end(frames: Frames, said: pl.DataFrame, last_words: int) -> int:
    """Count the lines `said` that are among the last `last_words` of their files."""
    if said.is_empty():
        return 0
    ends = frames["sources"].select("source", pl.col("lines").alias("end"))
    last = said.join(ends.unique("source"), on="source")
    return last.filter(pl.col("line") + last_words > pl.col("end")).height


def _cut_short(frames: Frames) -> int:
    """Count the logs of which a person cut the end out, if none shows a step.

    How such a log goes on is not known.
    """
    if frames.message(*STEPS).height or ended_in_order(frames):
        return 0
    return _at_the_end(frames, frames.message("condensed.elided"), 1)


@needing("nccl.socket.connect_retry", otherwise=0)
def _refused(frames: Frames) -> int:
    """Count the processes whose last lines are repeated refused connects."""
    tries = frames.message("nccl.socket.connect_retry")
    own = frames["events"].filter(pl.col("message").str.starts_with("nccl."))
    counted = tries.group_by(PROCESS).agg(pl.col("line").max(), pl.len().alias("tries"))
    return _last_words(counted, own).filter(pl.col("tries") >= REFUSED).height


def _last_words(said: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows of `said` (`line` of a process) after which it printed no more."""
    ends = events.group_by(PROCESS).agg(pl.col("line").max().alias("end"))
    later = ends.join(said, on=PROCESS, nulls_equal=True)
    return later.filter(pl.col("line") >= pl.col("end")).select(said.columns)


def _cut_by_buffer(frames: Frames) -> int:
    full = (pl.col("bytes") > 0) & (pl.col("bytes") % BUFFER == 0)
    return frames["sources"].filter(pl.col("cut") & full).height


def ended_in_order(frames: Frames) -> bool:
    """Whether the job ended well: every exit 0, or all communicators destroyed.

    A communicator is destroyed if each of its ranks printed `Destroy COMPLETE`. Or all
    ranks say that their training is over.
    """
    codes = frames["exits"]["code"].drop_nulls()
    if codes.len():
        return bool((codes == 0).all())
    if finished.is_whole(frames):
        return True
    closed = frames.message("nccl.comm.destroy")
    built = frames.message("nccl.init.complete")
    if "nranks" not in closed.columns or "nranks" not in built.columns:
        return False
    key = ["host", "pid"]
    gone = closed.select(key).unique()
    open_ = built.join(gone, on=key, how="anti", nulls_equal=True)
    size = built["nranks"].max()
    return open_.is_empty() and isinstance(size, int) and gone.height >= size


def ended_well(frames: Frames) -> bool:
    """Whether the platform says so of the whole job, and no process ended badly."""
    told = (frames["exits"]["reported_by"] == "platform").any()
    return bool(told) and ended_in_order(frames)


@remembered
def _hosts(frames: Frames) -> tuple[str, ...]:
    """Return the hosts of the ranks, or those that lines name if these have none.

    A node that failed may have been that of the ranks without a host.
    """
    hosts = frames["ranks"]["host"]
    if not hosts.count():
        hosts = frames["events"]["host"]
    elif hosts.null_count():
        hosts = pl.concat([hosts, frames.message(NODE_FAILED)["host"]])
    return (*hosts.drop_nulls().unique().sort(),)


@remembered
def _world_size(frames: Frames) -> int | None:
    """Return the size of the largest group in the evidence.

    None if a known rank does not fit into it: then it is not the whole job.
    """
    members = frames["groups"]["members"]
    sizes = [members.list.len().max()]
    inits = frames.message("nccl.init.start", "nccl.init.complete")
    if "nranks" in inits.columns:
        sizes.append(inits["nranks"].max())
    known = [int(str(size)) for size in sizes if size]
    last = [members.list.max().max(), frames["ranks"]["rank"].max()]
    highest = max((int(str(rank)) for rank in last if rank is not None), default=0)
    size = max(known, default=None)
    return size if size is not None and highest < size else None


def _one(frames: Frames, message: str, column: str) -> str | None:
    lines = frames.message(message)
    if column not in lines.columns:
        return None
    values = lines[column].drop_nulls().unique().sort().to_list()
    return ", ".join(values[:3]) if values else None


def _launcher(frames: Frames) -> str | None:
    for program, name in LAUNCHERS.items():
        if any(message.startswith(f"{program}.") for message in frames.messages):
            return name
    return None
