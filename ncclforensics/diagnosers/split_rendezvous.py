"""One job split into several: each node met only itself and counts from rank 0.

What it means
    Every node formed a complete group of its own, because each node believed that it
    was the master. The groups train side by side, overwrite each other's checkpoints,
    or fail where the world is smaller than the code expects.

How we know
    Agents on several hosts that were started for the same run, and yet each is node 0
    of 1. Or, in a job that failed: one log in which processes of several hosts hold the
    same rank of equally large communicators, and no communicator spans the hosts. Or,
    at the end of a log, two processes announced each rank that came, and other ranks
    none did; or several processes of nccl-tests listed each rank before any result.
    Or logs of several hosts each begin with the same command for several
    nodes, whether or not anything failed, and hold a whole world.

What to do
    Give every node the same endpoint, by a name that means the same host everywhere,
    and not `localhost`; the same `--rdzv-id`; and `--nnodes=N`, not `1:N`.

Looks like
    Two jobs whose logs are in one directory: their run ids differ, and nothing failed.
    Per-node groups inside a larger job, where a larger communicator exists.

References
    torch.distributed.elastic.rendezvous; torchrun.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import signs_of_failure
from ncclforensics.evidence import announced_ranks, common
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

LISTED, RESULT = "nccl_tests.device", "nccl_tests.row"

FAMILY = "launch"
NEEDS = (
    *("torchelastic.launch_config", "torchelastic.rendezvous.complete", "nccl.init"),
    *(announced_ranks.ANNOUNCED, LISTED),
)
MISSING, NEXT_TIME = wanted.AGENTS
EXPLAINS = ("crashed-rank", "missing-rank", "timeout-masking", "port-in-use")
SPREADS = True

TORCHRUN = (
    "torchrun --nnodes={nodes} --rdzv-backend=c10d --rdzv-endpoint={at} "
    "--rdzv-id={run} train.py   # the same line on every node"
)
RESOLVE = "getent hosts {}   # on every node: the same address, not 127.0.1.1"


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report the hosts that each formed a group of their own."""
    for look in (_agents, _communicators, _announced, _tests):
        if (found := look(frames)) is not None:
            yield found
            return


def _agents(frames: Frames) -> Finding | None:
    """Find agents of one run on several nodes that each met only themselves."""
    met = frames.message("torchelastic.rendezvous.complete")
    asked = frames.message("torchelastic.launch_config")
    if "nodes" not in met.columns or "run_id" not in asked.columns:
        return None
    met = met.with_columns(pl.col("node", "nodes").cast(pl.Int64, strict=False))
    alone = met.filter((pl.col("nodes") == 1) & (pl.col("node") == 0))
    most = pl.col("max_nodes").cast(pl.Int64, strict=False)
    wide = asked.with_columns(most).filter(most > 1)
    # the default run id is `none`, for every job of the cluster
    same = wide["run_id"].n_unique() == 1 and wide["rdzv_endpoint"].n_unique() == 1
    where = alone["source"].n_unique()
    if where < 2 or not same or met.filter(pl.col("nodes") > 1).height:
        return None
    if wide["source"].n_unique() < 2:
        return None
    endpoint = str(wide["rdzv_endpoint"][0])
    widest = str(wide["max_nodes"].max())
    return _finding(
        pl.concat([f.select("text", "source", "line") for f in (alone, wide)]),
        common.hosts(alone["host"]),
        f"{where:,} agents of one run each met only themselves",
        f"Each was started for run {str(wide['run_id'][0])!r} on up to "
        f"{widest} nodes with endpoint {endpoint!r}, and each became "
        "node 0 of 1.",
        common.first_seen(alone),
        _remedy(widest, _reachable(endpoint, alone), str(wide["run_id"][0])),
    )


def _communicators(frames: Frames) -> Finding | None:
    """Find logs in which several hosts each hold all ranks of a world."""
    inits = frames.message("nccl.init.complete")
    asked = _asked(frames, inits)
    failed = bool(signs_of_failure(frames))
    if inits.is_empty() or not (failed or asked) or _is_wider(frames, inits):
        return None
    largest = inits.filter(
        (pl.col("nranks") == pl.col("nranks").max()) & (pl.col("nranks") > 1)
    ).drop_nulls(["host", "comm_id"])
    wholes = (
        largest.group_by("source", "comm_id", maintain_order=True)
        .agg(
            pl.col("host").unique(),
            pl.col("comm_rank").n_unique() == pl.col("nranks").first(),
            pl.col("line").first(),
            pl.col("text").first(),
        )
        .filter((pl.col("host").list.len() == 1) & pl.col("comm_rank"))
        .with_columns(pl.col("host").list.first())
    )
    hosts = common.hosts(wholes["host"])
    spanning = largest.group_by("comm_id").agg(pl.col("host").n_unique())
    spans = spanning.filter(pl.col("host") > 1).height
    if len(hosts) < 2 or (wholes["source"].n_unique() > 1 and not asked) or spans:
        return None
    meant = (
        f" Each was started for {asked:,} nodes by the same command." if asked else ""
    )
    return _finding(
        wholes.select("text", "source", "line"),
        (),
        f"{len(hosts):,} hosts each formed a world of their own",
        f"{common.named(hosts)} each hold every rank of a communicator as large as any "
        f"here, and none spans two hosts.{meant}",
        None,
        _remedy(f"{len(hosts)}", f"{hosts[0]}:29500", "job"),
        # a wider communicator may be made later
        "likely" if failed else "possible",
    )


def _announced(frames: Frames) -> Finding | None:
    """Find a log in which two processes announced each of its ranks, and some none."""
    told = announced_ranks.waiting(frames)
    if told is None or not told.twice:
        return None
    came = common.ranks(told.ranks)
    return _finding(
        told.lines,
        (),
        f"{came} of a world of {told.size:,} are there twice, and no other rank",
        f"Two processes each say that they are one of {came} of {told.size:,}, and "
        "none is another rank: two nodes believe that they are the first.",
        common.first_seen(told.lines),
        _remedy("2", "FIRST_NODE:29500", "job"),
    )


def _tests(frames: Frames) -> Finding | None:
    """Find a log in which several processes of nccl-tests each list a whole world.

    A later run lists its ranks again, behind the results of the one before.
    """
    listed = frames.message(LISTED)
    if "pid" not in listed.columns:
        return None
    lines = listed.drop_nulls(["rank", "host", "pid"])
    results = frames.message(RESULT).group_by("source").agg(end=pl.col("line").min())
    lines = lines.join(results, on="source", how="left", maintain_order="left")
    lines = lines.filter((pl.col("line") < pl.col("end")).fill_null(True))
    lines = lines.unique(["source", "rank", "host", "pid"], maintain_order=True)
    worlds = lines.group_by("source", "rank").len().group_by("source").agg("len")
    split = worlds.filter(
        pl.col("len").list.min() > 1, pl.col("len").list.n_unique() == 1
    )
    lines = lines.filter(pl.col("source").is_in(split["source"].implode()))
    if lines.is_empty():
        return None
    many = lines.filter(source=lines["source"][0], rank=lines["rank"][0]).height
    who = common.ranks(common.numbers(lines["rank"]))
    return _finding(
        lines,
        (),
        f"{many:,} processes of nccl-tests are each {who}, the whole of its world",
        f"{who.capitalize()} is listed {many:,} times before any result: each process "
        "that mpirun started tests alone, as one built without MPI does.",
        None,
        ("make MPI=1 MPI_HOME=…   # in nccl-tests, for the same mpirun",),
    )


def _is_wider(frames: Frames, inits: pl.DataFrame) -> bool:
    """Whether a communicator that was begun is larger than all of `inits`."""
    begun = frames.message("nccl.init.start")
    return "nranks" in begun.columns and bool(
        (begun["nranks"] > inits["nranks"].max()).any()
    )


def _asked(frames: Frames, inits: pl.DataFrame) -> int:
    """Return for how many nodes one command in all logs of `inits` starts the job.

    0 if a log begins with another command or with none, or if one node is enough.
    """
    told = frames.message("torchelastic.command")
    if "asked_nodes" not in told.columns:
        return 0
    theirs = told.filter(pl.col("source").is_in(inits["source"].implode()))
    whole = theirs["source"].n_unique() == inits["source"].n_unique()
    own_rank = r"--node[_-]rank[= ]\d+"
    same = theirs["text"].str.replace(own_rank, "").n_unique() == 1
    nodes = int(str(theirs["asked_nodes"].min() or 0))
    return nodes if whole and same and nodes > 1 else 0


def _reachable(endpoint: str, agents: pl.DataFrame) -> str:
    """Return the endpoint, or an agent's host in place of a local address."""
    if not endpoint.startswith(("localhost", "127.", "0.0.0.0", "[::1]")):
        return endpoint
    hosts = common.hosts(agents["host"])
    return f"{hosts[0] if hosts else 'FIRST_NODE'}:29500"


def _remedy(nodes: str, endpoint: str, run: str) -> tuple[str, ...]:
    """Return the command for every node, and how to check that the endpoint is one."""
    start = TORCHRUN.format(nodes=quote(nodes), at=quote(endpoint), run=quote(run))
    return start, RESOLVE.format(quote(endpoint.rpartition(":")[0] or endpoint))


def _finding(
    lines: pl.DataFrame,
    hosts: tuple[str, ...],
    headline: str,
    why: str,
    first_seen: int | None,
    remedy: tuple[str, ...],
    confidence: Confidence = "likely",
) -> Finding:
    named = f" ({common.named(hosts)})" if hosts else ""
    return Finding(
        slug="split-rendezvous",
        confidence=confidence,
        headline=f"{headline}{named}"[:200],
        evidence=common.cites(lines),
        explanation=why,
        remedy=remedy,
        first_seen=first_seen,
    )
