"""The checklist of a hang, as far as the nodes themselves were asked (`collect`).

Who is alive, is the environment the same on all ranks, which interface does each use,
do the MTUs agree, does the fabric manager run, which releases are loaded. A question is
answered if all ranks that are known were asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive
from ncclforensics.diagnosers import fabric_manager, mtu_mismatch
from ncclforensics.evidence import common, environments, silent_nodes
from ncclforensics.model.findings import NotChecked, RuledOut
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

MANIFEST = "collect.manifest"
NO_SWITCH = r"has no NVSwitch|has no NVIDIA driver"
MOST = 4  # values that are listed
JUDGE = "compare them with a run that worked: ncclforensics diff"


def asked(frames: Frames) -> Iterator[Statement]:
    """Yield the answers of nodes that were collected, in no order."""
    told = alive.seen(frames)
    silent = frames.message(silent_nodes.SILENT)
    if told.is_empty() or not silent.is_empty() or not _is_whole(frames, told):
        return
    if alive.are_all(frames):
        yield RuledOut(
            "crashed-rank",
            f"the processes of all {count(told['rank'].n_unique(), 'rank')} were alive "
            f"at {told['taken'].max()!s:.19} UTC",
            common.cites(told, 2),
        )
    yield from _environment(frames)
    yield from _interfaces(told)
    yield from _releases(told)
    yield from _fabric(frames)
    yield from _mtu(frames)


def _is_whole(frames: Frames, told: pl.DataFrame) -> bool:
    return {*frames["ranks"]["rank"].drop_nulls()} <= {*told["rank"]}


def _environment(frames: Frames) -> Iterator[Statement]:
    """Answer whether the environment is the same on all ranks."""
    ranks = environments.ranks(frames)
    if not ranks or not {*frames["ranks"]["rank"].drop_nulls()} <= ranks:
        return
    odd = environments.differing(frames)
    but = f", but for {common.some(odd)}" if odd else ""
    many = count(environments.count(frames), "variable")
    yield RuledOut(
        "inconsistent-env",
        f"{many} of NCCL, torch and launchers, the same on "
        f"{common.ranks(tuple(sorted(ranks)))}{but}",
        common.cites(frames.message(environments.VARIABLE), 1),
    )


def _interfaces(told: pl.DataFrame) -> Iterator[Statement]:
    """Answer which interfaces the connections of each rank use."""
    known = told.drop_nulls("interfaces")
    if known["rank"].n_unique() < told["rank"].n_unique():
        return
    words = _by_value(known, "interfaces")
    if known["interfaces"].n_unique() > 1:
        what = f"ranks use different interfaces: {words}"
        yield NotChecked("wrong-nic", what, JUDGE)
        return
    yield RuledOut("wrong-nic", f"connections use {words}", common.cites(known, 1))


def _releases(told: pl.DataFrame) -> Iterator[Statement]:
    """Answer which NCCL and torch the ranks have loaded."""
    if told["torch"].null_count() or told["torch"].n_unique() > 1:
        return
    loaded = told["nccl"].drop_nulls()
    if loaded.n_unique() > 1 or 0 < loaded.len() < told.height:
        what = f"ranks have different NCCL: {_by_value(told, 'nccl')}"
        yield NotChecked("nccl-version-mismatch", what, JUDGE)
        return
    nccl = f"NCCL {loaded[0]}" if loaded.len() else "no NCCL is loaded"
    yield RuledOut(
        "nccl-version-mismatch",
        f"{nccl}, torch {told['torch'][0]} on {common.ranks(_ranks(told))}",
        common.cites(told, 1),
    )


def _fabric(frames: Frames) -> Iterator[Statement]:
    """Answer whether the fabric manager runs; a node without NVSwitch needs none."""
    status = frames.message(fabric_manager.STATUS)
    lacking = frames.message(MANIFEST)
    if lacking.height:
        needless = pl.col("why_not").str.contains(NO_SWITCH)
        lacking = lacking.filter(
            needless & pl.col("asked").str.contains("fabricmanager", literal=True)
        )
    hosts = {*alive.seen(frames)["host"]}
    if status.height and hosts <= {*status["host"]}:
        what, lines = "the fabric manager runs on {}", status
    elif lacking.height and hosts <= {*lacking["host"]}:
        what, lines = "{} has no NVSwitch", lacking
    else:
        return
    where = common.named(common.hosts(lines["host"]))
    yield RuledOut("fabric-manager", what.format(where), common.cites(lines, 2))


def _mtu(frames: Frames) -> Iterator[Statement]:
    """Answer whether the MTUs of all nodes agree."""
    lines = mtu_mismatch.links(frames).drop_nulls(["host", "mtu"])
    hosts = {*alive.seen(frames)["host"]}
    if lines.is_empty() or not hosts <= {*lines["host"]}:
        return
    each = lines.select("interface", "mtu").unique().sort("interface", "mtu")
    if each["interface"].n_unique() < each.height:
        return
    words = [f"{name} {mtu}" for name, mtu in each.head(MOST).rows()]
    yield RuledOut(
        "mtu-mismatch",
        f"MTU on {common.named(common.hosts(lines['host']))}: {common.some(words)}",
        common.cites(lines, 2),
    )


def _by_value(told: pl.DataFrame, column: str) -> str:
    """Return `eth0 on ranks 0-7, ib0 on ranks 8-15`."""
    parts = told.group_by(column, maintain_order=True).agg("rank").head(MOST)
    words = [
        f"{value or 'none'} on {common.ranks(tuple(sorted(ranks)))}"
        for value, ranks in parts.select(column, "rank").iter_rows()
    ]
    return common.some(words)


def _ranks(told: pl.DataFrame) -> tuple[int, ...]:
    return common.numbers(told["rank"])
