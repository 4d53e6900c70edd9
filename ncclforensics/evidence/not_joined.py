"""Who did not join where the processes of a job were to meet, and how that shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import absent_launcher, common, launch_settings
from ncclforensics.model.shell import SSH_PORT

if TYPE_CHECKING:
    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

LOGINS = (
    *("launchers.ssh.failed", "launchers.ssh.refused", "launchers.ssh.check_failed"),
    "launchers.ssh.unresolved",
)
TIMED_OUT = "RendezvousTimeoutError"
FEWEST = 2  # hosts that waited
STORES = ("c10d.store.connect_timeout", "c10d.store.connect_timeout.old")


@dataclass(frozen=True, slots=True)
class Who:
    """The `ranks` and `hosts` that did not join, as far as they are known.

    `words` tell it for a headline, behind what did not happen; or `alone`, in its
    place. `cites` come before those of who waited.
    """

    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    words: str = ""
    alone: bool = False
    cites: tuple[Cite, ...] = field(default=())


def count(told: pl.DataFrame) -> tuple[int, int] | None:
    """Return how many joined, of how many, from the first line that counts."""
    wanted = [c for c in ("expected", "world_size") if c in told.columns]
    if not wanted or "joined" not in told.columns:
        return None
    counted = told.select("joined", pl.coalesce(wanted).alias("of")).drop_nulls()
    return next(counted.head(1).iter_rows(), None)


def find(
    frames: Frames, told: pl.DataFrame, tries: pl.DataFrame, joined: int, of: int
) -> Who:
    """Return who did not join; `joined` of `of` did, 0 and 0 if nothing counts them.

    `told` are the lines of those that waited, `tries` those in which clients did not
    reach the store.
    """
    ranks = _ranks(frames, told, joined, of)
    unfound = absent_launcher.lines(frames, told)
    if unfound.height:
        hosts = common.hosts(unfound["host"]) or common.hosts_of(frames, ranks)
        words = absent_launcher.words(unfound)
        return Who(ranks, hosts, words, cites=common.cites(unfound))
    logins = frames.message(*LOGINS)
    hosts = common.strings(logins["peer"]) if "peer" in logins.columns else ()
    if hosts:
        words = f"the launcher cannot start processes on {common.named(hosts)}"
        return Who(ranks, hosts, words, alone=True)
    if (odd := launch_settings.odd(frames)) is not None:
        words = (
            f"{odd.host} was started with {odd.setting} {odd.own}, the others with "
            f"{odd.usual}"
        )
        return Who(ranks, (odd.host,), words, alone=True, cites=common.cites(odd.lines))
    if ranks:
        return Who(ranks, common.hosts_of(frames, ranks))
    if not of:
        return _beside_those_that_waited(frames, told, tries)
    if silent := absent_launcher.hosts_of_silent_tasks(frames, of - joined):
        return Who((), silent, f"{common.named(silent)} never started torch")
    if vain := absent_launcher.hosts_in_vain(tries, of - joined):
        where = server(told) or "the store"
        return Who((), vain, f"{common.named(vain)} did not reach {where}")
    return Who()


def _beside_those_that_waited(
    frames: Frames, told: pl.DataFrame, tries: pl.DataFrame
) -> Who:
    """Return the few hosts that did not come, beside agents that waited for them.

    An agent whose rendezvous timed out had reached the store. Others say that they did
    not reach it, or have a log without a line of torch.
    """
    if "error" not in told.columns:
        return Who()
    waited = told.filter(pl.col("error") == TIMED_OUT)["host"]
    came = common.hosts(waited)
    if len(came) < FEWEST or waited.null_count():
        return Who()
    vain = tuple(host for host in common.hosts(tries["host"]) if host not in came)
    if vain and not tries["host"].null_count() and len(vain) < len(came):
        where = server(told) or "the store"
        return Who((), vain, f"{common.named(vain)} did not reach {where}")
    silent = absent_launcher.hosts_without_torch(frames)
    if silent and tries.is_empty() and len(silent) < len(came):
        return Who((), silent, f"{common.named(silent)} never started torch")
    return Who()


def server(told: pl.DataFrame) -> str:
    """Return `host:port` of the one store that some lines name, or ""."""
    if "store_host" not in told.columns:
        return ""
    tried = told.drop_nulls("store_host").select("store_host", "store_port").unique()
    return f"{tried.item(0, 0)}:{tried.item(0, 1)}" if tried.height == 1 else ""


def _ranks(frames: Frames, told: pl.DataFrame, joined: int, of: int) -> tuple[int, ...]:
    """Return the ranks that did not join, if they are as many as the store misses.

    Those that JAX's service lists; or those that tried to connect in vain, where others
    than the store's own process came; else those that print nothing at all, where all
    others do.
    """
    if "tasks" in told.columns:
        return common.numbers(told["tasks"].explode())
    missing = of - joined
    if missing <= 0:
        return ()
    vain = told.filter(pl.col("message").is_in(STORES))
    tried = common.numbers(vain["rank"])
    if len(tried) == missing:
        return tried if joined > 1 else ()
    heard = {*frames["events"]["rank"].drop_nulls()}
    if "group_rank" in told.columns:  # that of the group of all, which is made first
        heard |= {*told["group_rank"].drop_nulls()}
    silent = tuple(rank for rank in range(of) if rank not in heard)
    return silent if len(silent) == missing and not tried else ()


def ssh_port(frames: Frames, host: str) -> int:
    """Return the port at which a launcher's ssh found no server on a host."""
    lines = frames.message("launchers.ssh.failed")
    if not {"peer", "peer_port"} <= set(lines.columns):
        return SSH_PORT
    ports = lines.filter(pl.col("peer") == host)["peer_port"].drop_nulls()
    return int(ports[0]) if ports.len() else SSH_PORT
