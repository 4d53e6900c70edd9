"""What is known where nobody is accused: a sentence, who was heard, what to collect.

It accuses nobody: it repeats why the first suspect is one, or which calls timed out,
and names the files of that rank that were not collected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.runs import job
from ncclforensics.correlate.timing import process_motion
from ncclforensics.correlate.waits import roll_call
from ncclforensics.evidence import (
    common,
    external_stop,
    gpu_state,
    port_state,
    reporters,
    seen_places,
)
from ncclforensics.model.findings import MOST_SUSPECTS, Clue, Stood
from ncclforensics.theory import weights
from ncclforensics.verdict import actions
from ncclforensics.verdict.ranking import WITNESSES

if TYPE_CHECKING:
    from ncclforensics.model.findings import Ranked, Suspect
    from ncclforensics.model.frames import Frames

MOST_CALLS = 8
MOST_NEEDED = 2
EVEN = 2.0**-weights.TIE  # of the first weight: nobody is ahead by less


def of(frames: Frames, ranked: Ranked) -> Clue | None:
    """Return the clue of an inconclusive analysis; None if a class explains it."""
    verdict = ranked.verdict
    explained = verdict is not None and verdict.slug not in WITNESSES
    if ranked.outcome != "inconclusive" or explained:
        return None
    roll = roll_call.call(frames)
    heard = _heard(frames)
    known = {*world.ranks(frames), *roll.known, *heard}
    size = ranked.job.get("world_size")
    if isinstance(size, int):
        known |= {*range(size)}
    known |= {*common.numbers(frames["calls"]["members"].explode())}
    stood = _stood(frames)
    return Clue(
        text=_of_suspects(ranked.suspects)
        or _of_timeouts(roll.timed_out, stood)
        or _of_stop(frames)
        or _of_looks(frames)
        or _of_nothing(frames)
        or reporters.words(frames)
        or _of_state(frames)
        or reporters.quoted(frames),
        ranks=len(known) or None,
        heard=tuple(sorted(heard)),
        silent=tuple(sorted(known - heard)),
        reporters=reporters.hosts(frames),
        timed_out=tuple(sorted(roll.timed_out)),
        stood=stood[:MOST_CALLS],
        needed=_needed(frames, ranked.suspects, known, known - heard),
    )


def _of_suspects(suspects: tuple[Suspect, ...]) -> str:
    """Say what points at the first suspects, with their names; "" if there are none."""
    if not suspects:
        return ""
    first = suspects[0]
    even = [s for s in suspects if s.weight >= EVEN * first.weight]
    alike = sorted(s.rank for s in even if s.why == first.why)
    # no more suspects are told
    who = common.ranks(alike) + (" and more" if len(alike) == MOST_SUSPECTS else "")
    why = first.why
    if len(alike) > 1:
        why = why.replace("it is ", "it are ").replace("it waits", "it wait")
    for it in (" for it", " it "):
        if it in f" {why}":
            why = f" {why}".replace(it, it.replace("it", who), 1).strip()
            return why if len(alike) == 1 else _in_plural(why)
    why = why if len(alike) == 1 else _in_plural(why)
    return f"{who} {why}" if why.startswith("ended ") else f"{who}: {why}"


def _in_plural(why: str) -> str:
    """Return what is said of one rank as of several."""
    for one, many in PLURAL:
        why = why.replace(one, many)
    return why


PLURAL = (("of it ", "of them "), (" it ", " they "), (" its ", " their "))


def _of_timeouts(timed_out: frozenset[int], stood: tuple[Stood, ...]) -> str:
    """Say which ranks timed out, and in which call; "" if none did."""
    if not timed_out:
        return ""
    ops = {s.op for s in stood if timed_out & {*s.ranks}}
    where = f" in {op}" if len(ops) == 1 and (op := next(iter(ops))) else ""
    who = common.ranks(sorted(timed_out))
    it = "it" if len(timed_out) == 1 else "they"
    return f"{who} timed out{where}; this evidence does not show whom {it} waited for"


def _of_stop(frames: Frames) -> str:
    """Say that the job was ended from outside, if nothing failed before; "" if not."""
    stops = external_stop.slurm_time(frames.message(*external_stop.STOPS))
    if stops.is_empty() or external_stop.failed_before(frames, stops).height:
        return ""
    by_slurm = (stops["message"] == "slurm.cancelled").any()
    what = "Slurm cancelled it" if by_slurm else "its launcher got a signal to stop"
    return (
        f"{what}, and nothing failed before; who asked for it is not in this evidence"
    )


def _of_looks(frames: Frames) -> str:
    """Say where ranks stood in two snapshots, if none of them moved, or processes."""
    stood = seen_places.stood(frames) if process_motion.standing(frames) else []
    told = f"{common.some(stood)}, the same in two snapshots" if stood else ""
    return told or seen_places.nameless(frames)


def _of_nothing(frames: Frames) -> str:
    """Say that the dumps are empty, where nothing else tells of a call; "" if not."""
    if not (frames.has("groups") and job.is_unread(frames)):
        return ""
    return "the dumps hold no call, so nothing shows that the job had stopped"


def _of_state(frames: Frames) -> str:
    """Say what tools show of GPUs and ports, which may be older; "" if nothing."""
    told = (
        gpu_state.told(gpu_state.defects(frames)),
        port_state.told(port_state.defects(frames)),
    )
    return "; ".join(filter(None, told))


def _heard(frames: Frames) -> frozenset[int]:
    """Return the ranks of which there is a line or a dump."""
    files = frames["sources"].filter(pl.col("rows") > 0)
    parts = (files, frames["events"], frames["standings"], frames["positions"])
    return frozenset(rank for part in parts for rank in common.numbers(part["rank"]))


def _stood(frames: Frames) -> tuple[Stood, ...]:
    """Return the calls in which ranks wait or stopped, those of most ranks first."""
    if frames["standings"].is_empty() and frames["calls"].is_empty():
        return ()
    waits = pl.col("waits_in").is_not_null()
    last = (
        frames["standings"]
        .sort(~waits, pl.when(waits).then("place").otherwise(-pl.col("place")))
        .unique("rank", keep="first", maintain_order=True)
        .select("rank", "op", pl.coalesce("waits_in", "enqueued").alias("seq"), "pg")
    )
    # a barrier that log lines tell of has no number, and so no standing
    calls = frames["calls"].explode("waiting").drop_nulls("waiting")
    others = calls.select(pl.col("waiting").alias("rank"), "op", "seq", "pg").filter(
        ~pl.col("rank").is_in(last["rank"].implode())
    )
    alike = (
        pl.concat([last, others.unique("rank", maintain_order=True)])
        .group_by("op", "seq", "pg", maintain_order=True)
        .agg(pl.col("rank").sort())
        .sort(pl.col("rank").list.len(), pl.col("rank").list.first())
    )
    return tuple(
        Stood(tuple(row["rank"]), row["op"], row["seq"], row["pg"])
        for row in alike.reverse().to_dicts()
    )


def _needed(
    frames: Frames, suspects: tuple[Suspect, ...], known: set[int], silent: set[int]
) -> tuple[str, ...]:
    """Return the two files that would settle it: of the first suspect or silent rank.

    What was collected of that rank is not asked for again.
    """
    rank = next((s.rank for s in suspects), min(silent, default=None))
    host = None if rank is None else common.host_of(frames, rank)
    who = "every rank" if rank is None else f"rank {rank}"
    where = f" on {host}" if host else ""
    theirs = known if rank is None else {rank}
    sources = frames["sources"].filter(pl.col("rows") > 0)
    logs = sources.filter(pl.col("kind") == "log")
    dumps = sources.filter(pl.col("kind").str.starts_with("flight_recorder"))
    heard = {*common.numbers(logs["rank"]), *common.numbers(frames["events"]["rank"])}
    is_horovod = any(name.startswith("launchers.horovod.") for name in frames.messages)
    has_dump = is_horovod or theirs <= {*common.numbers(dumps["rank"])}
    has_kernel = any(name.startswith("kernel.") for name in frames.messages)
    looked = frames["looks"].filter(pl.col("kind") == "stack")
    seen = bool(theirs) and theirs <= {*common.numbers(looked["rank"])}
    alive = actions.may_live(frames, tuple(theirs))
    there = "each host" if rank is None else host or "its host"
    wanted = (
        (f"the stderr of {who}{where}", bool(theirs) and theirs <= heard),
        (f"the Flight Recorder dump of {who}", bool(theirs) and has_dump),
        (f"the kernel log of {there}", has_kernel),
        (f"a stack of {who}{where} while it hangs: py-spy dump", seen or not alive),
    )
    return tuple(what for what, is_here in wanted if not is_here)[:MOST_NEEDED]
