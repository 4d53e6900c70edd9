"""The store's port is already in use on rank 0's host, so the store cannot start.

What it means
    torchrun or rank 0 has to listen on MASTER_PORT, and another process already does.
    That may be the previous job, another job on the node, or a second torchrun of this
    very job.

How we know
    `The server socket has failed to bind`, or to listen, with errno 98 or EADDRINUSE;
    `OSError: [Errno 98] Address already in use` where nothing caught it.

What to do
    See what listens on that host: `ss -ltnp 'sport = :29500'`. End that process, or use
    another port: `--master-port`, or `--rdzv-endpoint=localhost:0` for a job on one
    node. With Slurm, derive it from the job id:
    `MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))`.

Looks like
    NCCL's RAS thread that cannot bind, or a refused connection: both are harmless here.
    A store that nobody reached is `rendezvous-failed`.

References
    torch TCPStore; torchrun's c10d and static rendezvous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "launch"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.AGENTS
EXPLAINS = ("crashed-rank", "rendezvous-failed", "missing-rank", "timeout-masking")
SPREADS = True

STORE = "c10d.store.bind_failed"
OTHERS = ("python.address_in_use", "launchers.accelerate.port")
# clients that could not connect: then not every agent failed because of its port
CLIENTS = ("c10d.store.connect_timeout", "c10d.store.missing_clients")
IN_USE = 98
NAME = r"^[A-Za-z0-9-]*[A-Za-z][\w.-]*$"  # an IPv6 address has colons


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the host on which the store's port was taken."""
    store = frames.message(STORE)
    if store.height:
        named = pl.col("error").fill_null("") == "EADDRINUSE"
        numbered = pl.col("errno").fill_null(IN_USE) == IN_USE
        store = store.filter(named | (pl.col("error").is_null() & numbered))
    # after a failed bind to one address family comes the other family, or `listen`
    failed = store.filter(_nowhere()) if store.height else store
    other = frames.message(*OTHERS)
    lines = pl.concat([failed, other], how="diagonal_relaxed")
    if lines.is_empty():
        return
    told = pl.concat([store, other], how="diagonal_relaxed")
    ports = [told[c] for c in ("port", "listen_port") if c in told.columns]
    port = next(iter(common.numbers(pl.concat(ports))), None) if ports else None
    hosts = common.hosts(lines["host"]) or _bound(told) or _by_srun(frames)
    where = common.on(hosts)
    shown = port or "${MASTER_PORT:-29500}"
    host = hosts[0] if hosts else "rank 0's host"
    yield Finding(
        slug="port-in-use",
        confidence="certain" if failed.height else "likely",
        headline=f"port {port} is already in use{where}"
        if port
        else f"a port is already in use{where}",
        evidence=common.cites(
            pl.concat(
                [f.select("text", "source", "line") for f in (failed, other, store)]
            )
        ),
        explanation="The process that was to serve the store could not listen on its "
        "port, so no rank could join. "
        + (
            "Several hosts failed alike: each seems to run its own store."
            if len(hosts) > 1
            else ""
        ),
        remedy=(
            f'ss -ltnp "sport = :{shown}"   # on {host}: who listens',
            "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))   # one per job",
            "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0   # on one node",
        ),
        # whose host is not known is known by its rank
        ranks=() if hosts else common.numbers(lines["rank"]),
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _nowhere() -> pl.Expr:
    """Whether a process listens in no address family: it says so, or both failed."""
    is_ipv6 = pl.col("address").str.contains(":", literal=True)
    both = is_ipv6.drop_nulls().n_unique().over("source", "rank", "port") > 1
    return pl.col("listen").is_not_null() | (pl.col("port").is_not_null() & both)


def _bound(told: pl.DataFrame) -> tuple[str, ...]:
    """Return the names to which sockets were bound: of the machine itself."""
    names = [told[c] for c in ("address", "bound") if c in told.columns]
    if not names:
        return ()
    bare = pl.concat(names).drop_nulls().str.strip_chars("[]")
    return common.hosts(bare.filter(bare.str.contains(NAME)))


def _by_srun(frames: Frames) -> tuple[str, ...]:
    """Return the hosts of srun's failed tasks, if all ended with the same exit code."""
    if frames.message(*CLIENTS).height:
        return ()
    tasks = exit_records.of_slurm(frames).filter(pl.col("code") != 0)
    if tasks["code"].n_unique() != 1 or tasks["host"].null_count():
        return ()
    return common.hosts(tasks["host"])
