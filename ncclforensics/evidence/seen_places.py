"""Where each rank was when somebody dumped its stack, or when a signal came.

A rank whose program is in a call of torch.distributed waits there. A rank in other
code while its peers wait in one call is the one that they wait for; its stack shows
what it does instead. On a GPU the host may be past a call that its stream is still in,
so a rank in no call is no proof by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import process_motion
from ncclforensics.correlate.traces import call_sites
from ncclforensics.correlate.waits import roll_call
from ncclforensics.evidence import common
from ncclforensics.model.folding import count
from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.frames import Frames

GPU = "a wait for the GPU"


def held(frames: Frames) -> frozenset[int]:
    """Return the ranks that were seen waiting in a call, or for their GPU."""
    looks = call_sites.looked(frames)
    waits = looks.filter(pl.col("op").is_not_null() | pl.col("synchronizes"))
    return frozenset(waits["rank"].drop_nulls())


def running(frames: Frames) -> frozenset[int]:
    """Return the ranks that were seen to run code of their own, in no call.

    py-spy found them on a CPU, or at another place in a second look. They may come to
    the call of the others any moment.
    """
    looks = call_sites.looked(frames).drop_nulls("rank")
    on_cpu = looks.filter(pl.col("op").is_null() & pl.col("is_active").fill_null(False))
    return frozenset(on_cpu["rank"]) | _moved(frames)


def at_work(frames: Frames) -> frozenset[int]:
    """Return the ranks in no call that worked between two looks: slow, not stuck.

    A host that uses its CPU may wait for its GPU, unless its stack shows otherwise.
    """
    looked = frozenset(call_sites.looked(frames)["rank"].drop_nulls())
    works = process_motion.at_work(frames)
    ranks = works.filter(~pl.col("spins") | pl.col("rank").is_in(list(looked)))["rank"]
    return (frozenset(ranks) | _moved(frames)) - held(frames)


def _moved(frames: Frames) -> frozenset[int]:
    """Return the ranks whose second stack is another one."""
    moved = frames["looks"].filter((pl.col("kind") == "stack") & pl.col("moved"))
    return frozenset(moved["rank"])


def shows_motion(frames: Frames, ranks: Iterable[int], blocked: frozenset[int]) -> bool:
    """Whether stacks look as they do in a job that goes on, so that they accuse nobody.

    One of `ranks` was running, or fewer than two ranks wait for each that does not: in
    any step somebody comes last. Ranks that other evidence shows `blocked` wait too,
    unless a stack shows them in code of their own; a host may spin while its GPU waits.
    """
    looks = call_sites.looked(frames).drop_nulls("rank")
    waits = pl.col("op").is_not_null() | pl.col("synchronizes")
    elsewhere = frozenset(looks.filter(~waits)["rank"])
    waiting = frozenset(looks.filter(waits)["rank"]) | (blocked - elsewhere)
    few = len(waiting) < roll_call.MANY * len(elsewhere)
    return few or not (running(frames) - blocked).isdisjoint(ranks)


def idle(frames: Frames) -> bool:
    """Whether the stack of one process alone was dumped, which does not run.

    Of its peers nothing is known, and stacks are dumped because a job hangs.
    """
    return call_sites.looked(frames).height == 1 and not running(frames)


@needing(*call_sites.SHOWN, otherwise="")
def nameless(frames: Frames) -> str:
    """Return where processes of unknown rank stood if some of them wait, else ""."""
    waits, rest = _nameless(frames)
    if waits.is_empty():
        return ""
    text = f"{count(waits.height, 'stack')} of unknown ranks: in {_waits_in(waits)}"
    pid = pl.concat_str(pl.lit("pid "), "pid").fill_null("one")
    on = pl.concat_str(pl.lit(" on "), "host").fill_null("")
    where = rest.drop_nulls("file").select(common.sentence(pid, on, " is in ", _site()))
    # in a job that goes on processes stand in many places
    if where.height and waits.height >= roll_call.MANY * where.height:
        text += f"; {common.some(where.to_series().to_list())}"
    return text


@needing(*call_sites.SHOWN, otherwise=None)
def awaited(frames: Frames) -> tuple[pl.DataFrame, pl.DataFrame, str] | None:
    """Return the waiting processes, those that they wait for, and where all stand.

    Of jobs whose stacks tell hosts and no rank: most processes are in a call, or wait
    for their GPU, and few on known hosts stand elsewhere and do not run; else None.
    """
    waits, rest = _nameless(frames)
    runs = rest["is_active"].fill_null(False).any()
    few = 0 < roll_call.MANY * rest.height <= waits.height
    unknown = rest["host"].has_nulls() or rest["file"].has_nulls()
    if runs or unknown or not few or call_sites.looked(frames)["rank"].count():
        return None
    sites = rest.select(_site()).to_series().unique(maintain_order=True)
    held = f"{count(waits.height, 'process', 'processes')}: in {_waits_in(waits)}"
    return (
        waits,
        rest,
        f"{held}; on {common.named(common.hosts(rest['host']))}, one "
        f"is in {common.some(sites.to_list())}",
    )


def _waits_in(waits: pl.DataFrame) -> str:
    return common.some(waits["op"].fill_null(GPU).unique(maintain_order=True).to_list())


def _nameless(frames: Frames) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the last looks at processes of unknown rank: those that wait, the rest."""
    looks = call_sites.looked(frames).filter(pl.col("rank").is_null())
    if looks.is_empty():
        return looks, looks
    process = ["source", "host", "pid"]
    known = pl.col("host").is_not_null() & pl.col("pid").is_not_null()
    last = pl.concat(
        [looks.filter(known).unique(process, keep="last"), looks.filter(~known)]
    ).sort("source", "line")
    held = pl.col("op").is_not_null() | pl.col("synchronizes")
    return last.filter(held), last.filter(~held)


def stood(frames: Frames) -> list[str]:
    """Return where ranks in no call stood, the place of most ranks first."""
    looks = call_sites.looked(frames).drop_nulls(["rank", "file"])
    here = looks.filter(pl.col("op").is_null() & ~pl.col("synchronizes"))
    places = here.group_by(_site().alias("site"), maintain_order=True).agg("rank")
    size = pl.col("rank").list.len()
    largest = places.sort(size, descending=True, maintain_order=True)
    return [
        f"{common.ranks(sorted(set(ranks)))} in {site}"
        for site, ranks in largest.iter_rows()
    ]


@needing(*call_sites.SHOWN, otherwise="")
def place_of(frames: Frames, rank: int) -> str:
    """Return where the last stack of a rank that was in no call stood, or ""."""
    here = (pl.col("rank") == rank) & pl.col("op").is_null()
    looks = call_sites.looked(frames).drop_nulls("file")
    sites = looks.filter(here & ~pl.col("synchronizes")).select(_site().alias("site"))
    return str(sites["site"][-1]) if sites.height else ""


def _site() -> pl.Expr:
    return common.sentence(
        pl.col("file").str.extract(r"([^/]+)$"),
        pl.concat_str(pl.lit(":"), "file_line").fill_null(""),
        " ",
        pl.col("function"),
    )


@needing(*call_sites.SHOWN, otherwise="")
def told_at_work(frames: Frames, ranks: Iterable[int]) -> str:
    """Return a sentence on where `ranks` seen outside any call were, or ""."""
    here = (
        pl.col("rank").is_in(list(ranks))
        & pl.col("op").is_null()
        & pl.col("file").is_not_null()
    )
    looks = call_sites.looked(frames).filter(~pl.col("synchronizes"))
    found = ""
    for when, stacks in (
        ("When its stack was dumped", looks),
        ("When a signal came", call_sites.interrupted(frames)),
    ):
        seen = stacks.filter(here).select("rank", _site().alias("site"))
        told = [
            f"rank {rank} was in {where}"
            for rank, where in seen.unique(maintain_order=True).iter_rows()
        ]
        found += f" {when}, {common.some(told)}." if told else ""
    return found
