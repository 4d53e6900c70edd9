"""The processes never met: some did not reach the store or rendezvous in time.

What it means
    Before any work starts, all agents or ranks report to one store. Some did not, or
    could not reach it, and the others gave up. NCCL has not printed a line yet.

How we know
    `Timed out after N seconds waiting for clients. 1/2 clients joined.`, `The client
    socket has timed out … while trying to connect`, `RendezvousTimeoutError`; a
    store-based barrier that fewer ranks joined than its world size, or that waits to
    the end of the log; attempts that found no route to the store; JAX's `cluster
    registration failed`. And no rank began to set up a communicator. Only possible: a
    log that ends as some ranks of Lightning's world announce themselves, or a name that
    does not resolve before a launcher's traceback of unknown cause. In a job whose
    ranks had already met: the store of a further group that timed out before anything
    failed. The host that was started for another run, or at another endpoint, than all
    others is named. Or a pod that Kubernetes never started: `FailedScheduling`,
    `ImagePullBackOff`, `FailedMount`, and no later start.

What to do
    Check that every node was started, with the same endpoint, run id and number of
    nodes. Check from each node that the store's port can be reached:
    `nc -zv <master> 29500`.

Looks like
    A child that died before: its agents then lose the store, and say so.
    A port that is taken is `port-in-use`. Ranks that met and whose NCCL connections
    then fail are `unreachable-peer`.

References
    torch.distributed.elastic.rendezvous; torch TCPStore.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import STEPS, ended_well
from ncclforensics.evidence import (
    absent_launcher,
    announced_ranks,
    common,
    not_joined,
    pods,
)
from ncclforensics.evidence.reported_missing import JAX_START
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding
from ncclforensics.model.folding import noun
from ncclforensics.model.shell import at_host, is_host
from ncclforensics.model.tables import TROUBLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "launch"
NEEDS = (
    *("c10d.store", "torchelastic.", "launchers.", "jax.", "system.name_unresolved"),
    *("system.not_started", "rdma.oneccl."),
)
MISSING, NEXT_TIME = wanted.AGENTS
EXPLAINS = ("crashed-rank", "missing-rank", "timeout-masking")
SPREADS = True

COUNTED = (
    "c10d.store.missing_clients",
    "c10d.store.barrier_timeout",
    "c10d.store.barrier_missing",
)
NOT_CONNECTED, RESTARTED = "jax.not_connected", "jax.restarted"
UNREACHED = (
    *("c10d.store.connect_timeout", "c10d.store.connect_timeout.old"),
    *("c10d.store.unknown_host", "c10d.store.socket_timeout"),
    *("c10d.store.connect_failed", "jax.not_registered"),
    NOT_CONNECTED,
    *("launchers.horovod.start_timeout", "launchers.mpi.daemon_not_started"),
    *("launchers.mpi.no_slots", "launchers.horovod.task_not_started"),
    *("launchers.horovod.start_timeout.raised", "rdma.oneccl.kvs_timeout"),
    *("c10d.store.address_missing", "launchers.ray.not_started"),
    "launchers.kueue.not_ready",
    *not_joined.LOGINS,
)
AGENTS = "torchelastic.rendezvous.failed"
RETRY, UNRESOLVED = "c10d.store.address_failed", "c10d.store.unresolved"
# errno: no route to the store's host; a host that refuses may only be late
NO_WAY = (110, 113, 101)
RAISED = "c10d.store.no_way"
MEETING = r"/torch/distributed/rendezvous\.py$"
UNANSWERED = r"^(?:Connection timed out|No route to host|Network is unreachable)\b"
WAITING = "c10d.store.barrier_waiting"
PASSED = "c10d.store.barrier_passed"
WAITS = 3  # a barrier logs every ten seconds that it still waits
# printed only by ranks that have met
MET = ("nccl.init", "nccl.coll", "nccl.bootstrap", "c10d.watchdog", "c10d.gloo")
# signs that an agent was told to stop, and errors that also follow the end of the
# store's host
STOPPED = ("torchelastic.signalled", "torchelastic.signalled.raised")
AFTERMATH = ("RendezvousConnectionError", "RendezvousClosedError")

BLOCKED = (
    "The store was up and waiting, so the network to it is blocked: a firewall, or an "
    "address that means something else on the other node."
)
UNKNOWN = (
    "The lines do not say which process is missing: look for the node that printed "
    "nothing."
)
SCHEDULED = "squeue -j $SLURM_JOB_ID -o '%N %T'   # were all nodes given, and started?"


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report that the processes did not meet, and how many came."""
    if frames.has("collectives") or any(
        found.startswith(MET) for found in frames.messages
    ):
        yield from _further_store(frames)
        return
    if (never := pods.not_started(frames)).height and not ended_well(frames):
        yield _never_started(never)
        return
    lines = frames.message(*COUNTED, *UNREACHED)
    if frames.tells((RESTARTED,)):  # it was turned away, and nobody is missing
        lines = lines.filter(pl.col("message") != NOT_CONNECTED)
    if lines.is_empty():
        lines = pl.concat(
            [_without_way(frames), _waiting(frames), _raised(frames)],
            how="diagonal_relaxed",
        )
    jax = _of_jax(frames)
    agents = frames.message(AGENTS)
    failed = frames["exits"].filter(pl.col("code") != 0).height
    if agents.height and (failed or frames.message(*STOPPED).height):
        agents = agents.filter(~pl.col("error").is_in(list(AFTERMATH)))
    told = pl.concat([lines, jax, agents], how="diagonal_relaxed")
    if told.is_empty():
        if (missing := absent_launcher.lines(frames, told)).height:
            yield absent_launcher.finding(frames, missing)
            return
        yield from _some_came(frames)
        yield from _unresolved(frames)
        yield from _unanswered(frames)
        return
    joined, of = not_joined.count(told) or (0, 0)
    came = f"{joined} of {of} joined" if of else ""
    server = not_joined.server(told)
    unreached = f"{server} did not answer in time" if server else ""
    headline = "the processes did not meet: " + (
        came or unreached or "the rendezvous timed out"
    )
    tries = frames.message(*UNREACHED, RETRY, UNRESOLVED)
    who = not_joined.find(frames, told, tries, joined, of)
    if who.words:
        headline = who.words if who.alone else f"{headline}; {who.words}"
    did_not = f"{common.ranks(who.ranks).capitalize()} did not. " if who.ranks else ""
    explanation = "No communicator was set up. "
    explanation += f"{came.capitalize()}. " if came else ""
    explanation += did_not + (f"{unreached}. " if unreached else "")
    if server and came:
        explanation += BLOCKED
    elif not (who.ranks or who.words):
        explanation += UNKNOWN
    yield Finding(
        slug="rendezvous-failed",
        # other programs may raise the same few words
        confidence="likely" if (told["message"] == RAISED).all() else "certain",
        headline=headline[:200],
        evidence=(*who.cites, *common.cites(told)),
        explanation=explanation.strip(),
        remedy=(
            *(
                at_host(h, "hostname", not_joined.ssh_port(frames, h))
                for h in who.hosts[:1]
                if is_host(h)
            ),
            *_remedy(frames, server),
        ),
        ranks=who.ranks,
        hosts=who.hosts,
        first_seen=common.first_seen(told),
    )


def _never_started(lines: pl.DataFrame) -> Finding:
    """Name the pods that Kubernetes could not start, and why."""
    names = common.strings(lines["pod"])
    who = f"{noun(len(names), 'pod')} {common.named(names)}" if names else "a pod"
    why = str(lines["detail"].drop_nulls().first() or "")
    return Finding(
        slug="rendezvous-failed",
        confidence="likely",  # it may have started after this was saved
        headline=f"{who} never started: {why}"[:200],
        evidence=common.cites(lines),
        explanation=f"Kubernetes did not start {who}, and nothing shows a later "
        f"start: {why[:200].rstrip('.')}. The processes of the other pods wait "
        "for it.",
        remedy=(
            *(
                f"kubectl describe pod {quote(name)}   # its events"
                for name in names[:1]
            ),
            "kubectl get events --sort-by=.lastTimestamp",
            "kubectl describe nodes | grep -A8 'Allocated resources'   # room for it",
        ),
        hosts=names,
        first_seen=common.first_seen(lines),
        variant=pods.lacked(lines),
    )


def _some_came(frames: Frames) -> Iterator[Finding]:
    """Report a log that ends as some ranks of the world announce themselves."""
    told = announced_ranks.waiting(frames)
    if told is None or told.twice:
        return
    came = common.ranks(told.ranks)
    yield Finding(
        slug="rendezvous-failed",
        confidence="possible",  # the log may have been copied too early
        headline=f"only {came} of a world of {told.size:,} came to meet",
        evidence=common.cites(told.lines),
        explanation=f"The log ends as {came} of {told.size:,} announced themselves, "
        "and does not say that all have met. Nothing shows that the others started.",
        remedy=_remedy(frames, ""),
        first_seen=common.first_seen(told.lines),
    )


def _unresolved(frames: Frames) -> Iterator[Finding]:
    """Report a name that did not resolve, if a launcher then failed for no known cause.

    Scripts that wait for their master print it at each healthy start too.
    """
    lines = frames.message("system.name_unresolved")
    raised = _by_launcher(frames)
    if lines.is_empty() or raised.is_empty():
        return
    tools = [c for c in ("busybox", "bind", "ping", "bad") if c in lines.columns]
    names = common.strings(lines.select(pl.coalesce(tools))[tools[0]])
    yield Finding(
        slug="rendezvous-failed",
        confidence="possible",
        headline=f"{common.some(names)} did not resolve, and the launcher failed"[:200],
        evidence=(*common.cites(lines, 3), *common.cites(raised, 1)),
        explanation=f"The name {common.some(names)} did not resolve on this host, and "
        "then its launcher failed before any rank said a word. The traceback does not "
        "show why.",
        remedy=_remedy(frames, f"{names[0]}:29500"),
        first_seen=common.first_seen(lines),
    )


def _by_launcher(frames: Frames) -> pl.DataFrame:
    """Return what a launcher raised, if no rank is known to have started or ended."""
    raised = frames.message("python.traceback")
    if "by_launcher" not in raised.columns:
        return raised.clear()
    begun = frames.has("exits") or frames.message(*STEPS).height
    return raised.clear() if begun else raised.filter("by_launcher")


def _unanswered(frames: Frames) -> Iterator[Finding]:
    """Report a launcher that failed after the store had not answered it in time."""
    raised, lines = _by_launcher(frames), frames.message("c10d.store.wait_slow")
    if raised.is_empty() or "timeout_ms" not in lines.columns:
        return
    lines = lines.drop_nulls("timeout_ms")
    if lines.is_empty():
        return
    # the name of an IPv4 address that a socket of IPv6 has
    host = pl.col("store_host").str.strip_prefix("::ffff:")
    lines = lines.with_columns(host.alias("store_host"))
    server = not_joined.server(lines) or "the store"
    yield Finding(
        slug="rendezvous-failed",
        confidence="possible",
        headline=f"{server} did not answer in time, and the launcher failed",
        evidence=(*common.cites(lines, 3), *common.cites(raised, 1)),
        explanation=f"A launcher waited for an answer of {server} until its timeout, "
        "and then failed before any rank said a word: others did not come to meet, or "
        "the store hangs. The traceback does not show which.",
        remedy=_remedy(frames, not_joined.server(lines)),
        first_seen=common.first_seen(lines),
    )


def _further_store(frames: Frames) -> Iterator[Finding]:
    """Report that ranks that had met never reached the store of a further group.

    Only if this is the first thing that goes wrong in its file: when a job ends, its
    stores end too, and a restart looks for them.
    """
    lines = frames.message(*not_joined.STORES)
    bad = frames["events"].filter(
        pl.col("role").is_in(TROUBLED) & ~pl.col("message").is_in(not_joined.STORES)
    )
    first = bad.group_by("source").agg(pl.col("line").min().alias("_bad"))
    lines = lines.join(first, on="source", how="left").filter(
        (pl.col("line") < pl.col("_bad")).fill_null(True)
    )
    if lines.is_empty():
        return
    server = not_joined.server(lines)
    what = f"{server or 'the store of a further group'} did not answer in time"
    yield Finding(
        slug="rendezvous-failed",
        confidence="likely",
        headline=f"processes of one job did not meet again: {what}",
        evidence=common.cites(lines),
        explanation=f"The job already had a group and started another one: {what}. An "
        "address inside a container (172.17.…) means another machine on every host.",
        remedy=_remedy(frames, server),
        first_seen=common.first_seen(lines),
    )


def _without_way(frames: Frames) -> pl.DataFrame:
    """Return the attempts that found no route to the store, if no step was made.

    If one address of several has no route, the next one may have.
    """
    tries = frames.message(RETRY)
    lost = frames.message(RAISED)
    if "errno" in tries.columns:
        tries = tries.filter(pl.col("errno").is_in(NO_WAY))
        lost = pl.concat([tries, lost], how="diagonal_relaxed")
    return lost.clear() if frames.message(*STEPS, PASSED).height else lost


def _of_jax(frames: Frames) -> pl.DataFrame:
    """Return the timeouts of the barrier in which JAX's processes first meet.

    `tasks` are those that did not come.
    """
    lines = frames.message("jax.barrier_timeout")
    if "missing" not in lines.columns:
        return lines.clear()
    starts = lines.filter(pl.col("barrier").str.contains(JAX_START))
    return starts.drop_nulls("missing").head(1).rename({"missing": "tasks"})


def _raised(frames: Frames) -> pl.DataFrame:
    """Return the exceptions raised in rendezvous code that give only a system error.

    The store of torch up to 1.8 raises them: only the traceback shows what failed.
    """
    raised = frames.message("python.traceback")
    if not {"raised_in", "message_text"} <= set(raised.columns):
        return raised.clear()
    return raised.filter(
        pl.col("raised_in").str.contains(MEETING)
        & pl.col("message_text").str.contains(UNANSWERED)
    )


def _waiting(frames: Frames) -> pl.DataFrame:
    """Return the last lines of ranks that waited at the store's barrier to the end."""
    key = ["source", "group_rank", "key"]
    lines = frames.message(WAITING)
    if lines.is_empty():
        return lines
    passed = frames.message(PASSED)
    if passed.height:
        lines = lines.join(passed, on=key, how="anti", nulls_equal=True)
    ends = frames["events"].group_by("source").agg(pl.col("line").max().alias("_end"))
    last = lines["source", "line"].group_by("source").agg(pl.col("line").max())
    at_end = last.join(ends, on="source").filter(pl.col("line") == pl.col("_end"))
    long = lines.filter(
        (pl.len().over(key) >= WAITS)
        | (
            (pl.len().over("source") >= WAITS)
            & pl.col("source").is_in(at_end["source"].implode())
        )
    )
    return long.unique(key, keep="last").sort("source", "line")


def _remedy(frames: Frames, server: str) -> tuple[str, ...]:
    told, _, told_port = server.rpartition(":")
    host = quote(told) if told else "$MASTER_ADDR"
    port = quote(told_port) if told_port else "${MASTER_PORT:-29500}"
    return (
        f"nc -zv {host} {port}   # from every node",
        f"getent hosts {host}   # on every node: the same address, not 127.0.1.1",
        "torchrun --nnodes=${SLURM_NNODES:-$NNODES} --rdzv-backend=c10d "
        f"--rdzv-endpoint={host}:{port} --rdzv-id=${{SLURM_JOB_ID:-job}}"
        "   # the same on all nodes; then your script",
        *([SCHEDULED] if any(m.startswith("slurm.") for m in frames.messages) else []),
    )
