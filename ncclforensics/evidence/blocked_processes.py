"""Processes that the kernel shows as blocked or stopped: no code of theirs runs.

A blocked one waits in a read that does not return, where no signal reaches it. A
stopped one got SIGSTOP or SIGTSTP, or a debugger holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive
from ncclforensics.evidence import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.findings import Cite
    from ncclforensics.model.frames import Frames

HUNG, LISTED, STACK = "kernel.hung_task", "system.ps", "system.proc_stack"
BETWEEN = ("process", "gpu", "network")  # kinds of looks
STOPPED = {"T": "stopped by a signal", "t": "held by a debugger"}


def lines(frames: Frames, ranks: Iterable[int]) -> pl.DataFrame:
    """Return the kernel's hung-task lines on processes of `ranks`."""
    return hung(frames).filter(pl.col("rank").is_in(list(ranks)))


def hung(frames: Frames) -> pl.DataFrame:
    """Return the kernel's hung-task lines, with the ranks of their processes.

    A node's kernel calls a pod's process by its pid there. Where no rank is known by
    the name of the node, a pid that is of one rank only tells which it is.
    """
    lines = frames.message(HUNG)
    if lines.is_empty() or "pid" not in lines.columns:
        return lines
    homes = frames["ranks"].drop_nulls("rank")["host"].drop_nulls()
    of_node = ~pl.col("host").is_in(homes.implode())
    told = _with_ranks(frames, lines.filter(of_node))
    rest = lines.filter(~of_node.fill_null(False))
    return pl.concat([told, rest], how="diagonal_relaxed").sort("source", "line")


def stopped(frames: Frames) -> pl.DataFrame:
    """Return the ranks whose processes a signal stopped, where those of others run.

    Wherever such a rank was, it does not go on: not even in the call of its peers.
    """
    told, by_ps = alive.seen(frames), listed(frames)
    parts = [f.filter(pl.col("state") == "T") for f in (told, by_ps) if "state" in f]
    if not parts:
        return told
    lines = pl.concat(parts, how="diagonal_relaxed").drop_nulls("rank")
    lines = lines.unique("rank", keep="first", maintain_order=True)
    many = max(told.height, frames["ranks"].height)
    return lines if lines.height < many else lines.clear()


def listed(frames: Frames) -> pl.DataFrame:
    """Return the processes that `ps` shows as unable to go on, a row and line of each.

    With the ranks of their pids, as far as a pid is of one rank only.
    """
    lines = frames.message(LISTED)
    if not {"file_system", "process_line"} <= set(lines.columns):
        return lines
    return (
        _with_ranks(frames, lines)
        .with_columns(
            pl.col("process_line").alias("text"),
            (pl.col("line") + pl.col("below")).alias("line"),
        )
        .drop_nulls("process_line")
    )


def in_kernel(frames: Frames) -> pl.DataFrame:
    """Return the processes whose stack in the kernel somebody printed, with ranks."""
    return _with_ranks(frames, frames.message(STACK))


def _with_ranks(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    if lines.is_empty():
        return lines
    owners = frames.processes().select("pid", pl.col("rank").alias("_rank"))
    told = lines.join(owners, on="pid", how="left", maintain_order="left")
    rank = pl.coalesce("rank", "_rank").alias("rank")
    return told.with_columns(rank).drop("_rank")


def nameless(frames: Frames) -> int:
    """Count the stopped processes of unknown ranks that a list of processes shows."""
    told = listed(frames)
    if "state" not in told.columns:
        return 0
    return told.filter((pl.col("state") == "T") & pl.col("rank").is_null()).height


def words(frames: Frames, ranks: Iterable[int]) -> str:
    """Return sentences naming those of `ranks` whose processes do not run, or ""."""
    some = list(ranks)
    seen = common.numbers(lines(frames, some)["rank"])
    told = ""
    if seen:
        who = common.ranks(seen)
        told = f" The kernel saw the process of {who} blocked for minutes."
    looked = _looked(frames, some)
    for state, why in STOPPED.items():
        if found := common.numbers(looked.filter(pl.col("state") == state)["rank"]):
            of = f"of {common.ranks(found)} is"
            told += (
                f" The process {of} {why} (state {state}): `kill -CONT` lets it go on."
            )
    told += _between(frames, some)
    if gone := [r for r in some if r in common.numbers(alive.gone(frames)["rank"])]:
        told += f" No process of {common.ranks(gone)} was left on its host."
    return told


def _between(frames: Frames, ranks: list[int]) -> str:
    """Return what processes and nodes of `ranks` did between two looks, or "".

    That tells slow from stuck.
    """
    looks = (
        frames["looks"]
        .filter(pl.col("kind").is_in(BETWEEN) & pl.col("rank").is_in(ranks))
        .sort("kind", descending=True)
    )
    did = looks.select(common.sentence("rank ", pl.col("rank"), " ", pl.col("what")))
    return (
        f" Between two looks {common.some(did.to_series().to_list())}."
        if did.height
        else ""
    )


def cites(frames: Frames, ranks: Iterable[int]) -> tuple[Cite, ...]:
    """Cite what the kernel shows of `ranks`."""
    some = list(ranks)
    looked = _looked(frames, some).filter(pl.col("state").is_in([*STOPPED]))
    gone = alive.gone(frames).filter(pl.col("rank").is_in(some))
    return (
        *common.cites(lines(frames, some), 1),
        *common.cites(looked, 1),
        *common.cites(gone, 1),
    )


def _looked(frames: Frames, ranks: list[int]) -> pl.DataFrame:
    """Return the processes of `ranks` as `collect` saw them last, or `ps`, stopped."""
    told = alive.seen(frames)
    if told.is_empty():
        told = stopped(frames)
    if "state" not in told.columns:
        return told.with_columns(pl.lit(None, pl.String).alias("state"))
    return told.filter(pl.col("rank").is_in(ranks))
