"""A whole node is gone, with all its ranks: the scheduler or launcher lost it.

What it means
    A host died, rebooted, or fell off the network. Every rank on it ended without a
    message. Their peers wait for them, or see their connections break.

How we know
    Slurm's `Node failure on`, `DUE TO NODE FAILURE`, state NODE_FAIL or `not
    responding, setting DOWN`; a node of this job that `scontrol show node` or `sinfo
    -R` lists as `Not responding`; PBS' `job preempted (node failure)`; Kubernetes'
    `NodeNotReady`, `PodGC: node no longer exists` or a node that rebooted, or
    `NotReady` in `kubectl get nodes` (only possible, unless pods of it cannot end);
    Google's `hostError`; Ray's missed heartbeats or lost raylet; the lost daemon of
    mpirun, Flux or PBS. A host is named only
    where such a line names it: the node that prints `CANCELLED … DUE TO NODE FAILURE`
    is one that survived. If one node was lost, the ranks that others wait for in dumps,
    and that left no dump and no log, ran on it, if they are no more than another node
    holds; or those that srun's lines of the other nodes' tasks, or the number in its
    name beside those of others, leave for it. Without any such line, this is possible
    where the job is known to stand still and all waits lead to the ranks of one host
    from which nothing was collected; and likely where all ranks of one host fall
    silent and leave no dump, although all other ranks of the job left one.

What to do
    Read that node's own log of its last minutes (journalctl -b -1, the BMC's event
    log). Keep the node out of the queue, and restart without it.

Looks like
    A host without logs: they may not have been collected, so silence names nobody.
    torchrun's `failed to send a keep-alive heartbeat` is printed by the node that is
    alive, usually because the store's host ended for another reason.

References
    Slurm slurm.conf SlurmdTimeout; Kubernetes node conditions; Ray fault tolerance.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.correlate.identity import host_blocks, world
from ncclforensics.correlate.waits import roll_call
from ncclforensics.evidence import common, external_stop, slurm_nodes, timed_out_call
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding
from ncclforensics.model.folding import noun
from ncclforensics.model.words import said
from ncclforensics.theory import uncollected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    *("calls", "slurm.", "launchers.kubernetes", "launchers.ray", "launchers.mpi"),
    *("launchers.pbs", "launchers.agent_silent", "launchers.flux", "cloud.host_gone"),
)
MISSING, NEXT_TIME = wanted.SCHEDULER
EXPLAINS = (
    "crashed-rank",
    "missing-rank",
    "timeout-masking",
    "socket-error",
    "ib-error",
    "unreachable-peer",
    "rendezvous-failed",
    "elastic-below-min",
    "gil-deadlock",
)
SPREADS = True
TOLD_WITHIN_S = 900  # SlurmdTimeout or a Kubernetes lease: minutes of silence

REMEDY = (
    Action("scontrol show node {host}   # or: kubectl describe node {host}"),
    Action("journalctl -b -1 -n 200   # and its BMC's event log", at="host"),
    Action("sbatch --exclude={host} …   # until it is repaired"),
)
# a node of the cluster; whether the job ran there, its pods may tell
LISTED = "launchers.kubernetes.node_listed"
RAY_ACTOR = "launchers.ray.actor_died"
SILENT = "launchers.agent_silent"
NAMED = (
    "slurm.node_failure",
    "slurm.node_killed",
    "slurm.node_down",
    "launchers.kubernetes.node_not_ready",
    LISTED,
    *("launchers.kubernetes.node_gone", "cloud.host_gone"),
    *("launchers.ray.node_dead", "launchers.ray.node_lost"),
    *("launchers.flux.shell_lost", "launchers.pbs.sister_lost"),
    "launchers.mpi.daemon_lost",
    "launchers.mpi.daemon_lost.early",
    "launchers.mpi.shepherd_died",
)
# a daemon or a heartbeat is also lost if only the network fails
WEAK = (
    *("launchers.mpi.daemon_lost", "launchers.mpi.daemon_lost.early"),
    *("launchers.ray.node_dead", "launchers.mpi.shepherd_died", LISTED),
    *("launchers.ray.node_lost", "launchers.flux.shell_lost"),
    "launchers.pbs.sister_lost",
    *(SILENT, RAY_ACTOR),
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the nodes that a scheduler or launcher lost."""
    listed = slurm_nodes.lost(frames)
    by_name = [frames.message(*NAMED), listed, _of_pbs(frames), _of_ray(frames)]
    by_name.append(_silent(frames))
    named = pl.concat(by_name, how="diagonal_relaxed")
    unnamed = frames.message("slurm.sacct.node_fail")
    for message, column, word in (
        ("slurm.cancelled", "cause", "NODE FAILURE"),
        ("slurm.state", "state", "NODE_FAIL"),
    ):
        lines = external_stop.slurm_time(frames.message(message))
        if column in lines.columns:
            found = lines.filter(pl.col(column) == word)
            unnamed = pl.concat([unnamed, found], how="diagonal_relaxed")
    told = pl.concat([named, unnamed], how="diagonal_relaxed")
    if told.is_empty():
        yield from uncollected.findings(frames, "node-lost")
        return
    names = [c for c in ("host", "name", "address") if c in named.columns]
    named = named.with_columns(pl.coalesce(names).alias("host"))
    hosts = common.hosts(named["host"].filter(~named["host"].str.contains(r"[\[,]")))
    pods = common.pods(told)
    hosts = hosts or pods
    ranks = common.ranks_on(frames, [*hosts, *pods])
    if not ranks and len(hosts) == 1:
        ranks = _left_over(frames) or _without_evidence(frames) or _awaited(frames)
    weak = told["message"].is_in(list(WEAK)).all()
    # the table lists the cluster's nodes; which are the job's is not known
    unsure = listed.height == told.height and not slurm_nodes.hosts_of_job(frames)
    unsure |= bool((told["message"] == LISTED).all()) and not _has_pods(frames, hosts)
    who = f"{noun(len(hosts), 'node')} {common.named(hosts)}" if hosts else "a node"
    known_as = _known_as(frames, hosts, pods, ranks)
    lost = [*([common.named(known_as)] if known_as != hosts else ())]
    lost += [common.ranks(ranks)] if ranks else []
    with_it = f" with {' and '.join(lost)}" if lost else ""
    yield Finding(
        slug="node-lost",
        confidence="possible" if unsure else "likely" if weak else "certain",
        headline=f"{who} {'were' if len(hosts) > 1 else 'was'} lost{with_it}"[:200],
        evidence=common.cites(told),
        explanation=f"{said(told['text'][0])} "
        + ("" if hosts else "Which node that was is not in this evidence. ")
        + ("A network that broke looks the same from here." if weak else ""),
        remedy=REMEDY if known_as == hosts else _of_node(hosts[0]),
        ranks=ranks,
        hosts=known_as,
        drain=hosts,
        collective=timed_out_call.waited_in(frames),
        first_seen=common.first_seen(told),
    )


def _known_as(
    frames: Frames,
    nodes: tuple[str, ...],
    pods: tuple[str, ...],
    ranks: tuple[int, ...],
) -> tuple[str, ...]:
    """Return the lost hosts by the names under which this evidence knows ranks.

    A pod is the host of its ranks: of lost nodes these are the pods, where the job's
    other hosts are named alike.
    """
    placed = frames["ranks"].drop_nulls("host")
    stems = {_stem(host) for host in placed["host"].unique()}
    theirs = common.hosts(placed.filter(pl.col("rank").is_in(list(ranks)))["host"])
    theirs = theirs or tuple(pod for pod in pods if _stem(pod) in stems)
    return theirs if nodes and theirs else nodes


def _stem(host: str) -> str:
    """Return a host's name without the number that its launcher counts."""
    return re.sub(r"\d+$", "", host.partition(".")[0])


def _of_node(node: str) -> tuple[str, ...]:
    """Return the remedy where a node holds pods of other names."""
    return (
        f"kubectl describe node {quote(node)}   # its conditions and events",
        f"journalctl -b -1 -n 200   # on {node}, and its BMC's event log",
        f"kubectl cordon {quote(node)}   # until it is repaired",
    )


def _awaited(frames: Frames) -> tuple[int, ...]:
    """Return the whole block of ranks without a dump that all waits lead to, or ()."""
    ranks, _ = uncollected.awaited(frames)
    return ranks if len(ranks) > 1 and host_blocks.is_one(ranks) else ()


def _of_pbs(frames: Frames) -> pl.DataFrame:
    """Return what PBS says of a lost node, with `host` if the job had only one."""
    lines, given = (
        frames.message(f"launchers.pbs.{told}") for told in ("node_failed", "exec_host")
    )
    if lines.is_empty() or "exec_host" not in given.columns:
        return lines
    names = given["exec_host"].str.extract_all(r"[\w.-]+/").explode()
    hosts = common.strings(names.str.strip_chars_end("/"))
    return lines.with_columns(host=pl.lit(hosts[0])) if len(hosts) == 1 else lines


def _of_ray(frames: Frames) -> pl.DataFrame:
    """Return the dead actors of which Ray says that their node died."""
    lines = frames.message(RAY_ACTOR)
    if "node_died" not in lines.columns:
        return lines.clear()
    return lines.filter(pl.col("node_died").fill_null(False))


def _silent(frames: Frames) -> pl.DataFrame:
    """Return the lines on agents that a launcher does not hear, if a rank left nothing.

    An agent may also be late for a while.
    """
    lines = frames.message(SILENT)
    return (
        lines if lines.is_empty() or uncollected.awaited(frames)[0] else lines.clear()
    )


def _has_pods(frames: Frames, hosts: tuple[str, ...]) -> bool:
    """Whether kubectl lists a pod on these nodes that cannot end, or is unknown."""
    pods = frames.message("launchers.kubernetes.pod_ending")
    return "node" in pods.columns and bool(pods["node"].is_in(hosts).any())


def _left_over(frames: Frames) -> tuple[int, ...]:
    """Return the ranks of tasks that srun reports on no other node, if a node's.

    That is known if all other nodes had as many tasks. One task a node may be an agent
    of a block of ranks, several are ranks.
    """
    ended = exit_records.torn_down(frames).drop_nulls(["task", "host"])
    sizes = ended.group_by("host").agg(pl.col("task").n_unique())["task"].unique()
    if sizes.len() != 1:
        return ()
    told = pl.concat([frames["events"]["task"].drop_nulls(), ended["task"]])
    tasks = {*range(1 + int(str(told.max())))}
    left = sorted(tasks - {*ended["task"]})
    each = 1
    if sizes[0] == 1 and ended["rank"].has_nulls():
        each = host_blocks.of_task(frames, len(tasks))
    ranks = (range(task * each, task * each + each) for task in left)
    return tuple(r for some in ranks for r in some) if len(left) == sizes[0] else ()


def _without_evidence(frames: Frames) -> tuple[int, ...]:
    """Return the ranks that others wait for and that left neither dump nor log.

    If one node was lost, and no evidence places these ranks on another, they ran on it.
    """
    unseen = {*common.numbers(frames["calls"]["unseen"].explode())}
    silent = roll_call.call(frames).unseen
    seen = {*frames["standings"]["rank"], *frames["sources"]["rank"].drop_nulls()}
    unseen |= silent - seen if unseen <= silent else set()
    placed = frames["ranks"].drop_nulls("host")["rank"]
    # if nothing of any rank is here, all are unseen, and one node holds only some
    apart = not unseen & set(placed) and not world.ranks(frames) <= unseen
    # they are consecutive: no more than another node holds, and none between its ranks
    apart &= bool(unseen) and max(unseen) - min(unseen) < len(unseen)
    others = host_blocks.by_host(frames["ranks"].drop_nulls(["host", "rank"]))
    apart &= not others or len(unseen) <= max(map(len, others))
    apart &= all(unseen.isdisjoint(range(min(own), max(own))) for own in others)
    return tuple(sorted(unseen)) if apart else ()
