"""Log lines that name the missing rank; `missing_rank` reads them.

monitoredBarrier, the store, Horovod and torch's analyzer of dumps know which ranks did
not report; the desync report and NCCL's own `Init START` lines show which did, which
leaves the others. Stacks without ranks show on which host a process stood elsewhere.
The ranks that were silent while others timed out are derived from the frame `calls`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.waits import monitored_barriers, nccl_ids
from ncclforensics.evidence import (
    analyzer_reports,
    blocked_processes,
    common,
    horovod_stalls,
    init_hang,
    ras_status,
    seen_places,
)
from ncclforensics.model.actions import DUMPS, OWN_LOG, STACK
from ncclforensics.model.findings import Collective, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence
    from ncclforensics.model.frames import Frames

# store key under which a rank publishes its address to the others (torch 2.13, Gloo)
ADDRESS = r"^/default_pg/\d+//cpu//\d+/(\d+)$"

# the barrier in which JAX's processes meet at their start; `rendezvous_failed` reads it
JAX_START = r"^PjRT_Client_Connect|\[Init\]Wait_for_all_tasks_to_register"

# of a call, and of a connection in front of the first one
OF_HCCL = ("hccl.notify_timeout", "hccl.link_timeout")
REMEDY = (OWN_LOG, STACK, DUMPS)


def named(frames: Frames) -> Iterator[Finding]:
    """Yield the finding of the first of these sources that names a rank."""
    sources = (
        *(_stopped, _barrier, _desync, _analyzer, _horovod, _ras),
        *(init_hang.never_started, _awaited, _unpublished, _notified, _of_jax, _seen),
    )
    for source in sources:
        if found := source(frames):
            yield found
            return


def _stopped(frames: Frames) -> Finding | None:
    """Return the ranks whose processes are stopped while their peers wait in calls."""
    lines = blocked_processes.stopped(frames)
    held = frames["calls"].sort(pl.col("waiting").list.len()).tail(1).to_dicts()
    if lines.is_empty() or not held:
        return None
    ranks = common.numbers(lines["rank"])
    call = common.collective(frames, held[0])
    found = _finding(frames, lines, ranks, call, "a signal stopped it")
    its = "its process is" if len(ranks) == 1 else "their processes are"
    who = common.ranks(ranks)
    return found and dataclasses.replace(
        found,
        headline=f"{who} cannot go on: {its} stopped",
        explanation=f"The others wait in {common.call_words(call)}."
        f"{blocked_processes.words(frames, ranks)}",
    )


def _barrier(frames: Frames) -> Finding | None:
    lines = frames.message(monitored_barriers.FAILED, "c10d.store.barrier_missing")
    ranks = tuple(sorted(monitored_barriers.missing(lines)))
    return _finding(
        frames, lines, ranks, Collective(op="barrier"), "the barrier itself says so"
    )


def _desync(frames: Frames) -> Finding | None:
    lines = frames.message("c10d.desync_report")
    if lines.is_empty():
        lines = frames.message("c10d.desync_report.headless")
    if "kind" not in lines.columns:
        return None
    lagging = lines.filter(
        pl.col("kind").is_in(["never_joined", "finished_not_joined"])
    )
    ranks = common.numbers(lagging["group_rank"])
    if not ranks:
        return None
    timed_out = frames["positions"].filter(pl.col("timed_out").is_not_null())
    call = Collective()
    for row in timed_out.sort("timed_out").head(1).iter_rows(named=True):
        call = Collective(row["pg"], row["pg_desc"], row["timed_out"], row["op"])
    return _finding(
        frames, lagging, ranks, call, "the desync report of its peers says so"
    )


def _analyzer(frames: Frames) -> Finding | None:
    """Return the ranks that torch's analyzer of dumps found missing."""
    return _reported(frames, analyzer_reports.not_joined(frames))


def _horovod(frames: Frames) -> Finding | None:
    return _reported(frames, horovod_stalls.not_joined(frames))


def _reported(frames: Frames, told: analyzer_reports.Report | None) -> Finding | None:
    if told is None or told.is_of_one:
        return None
    return _finding(frames, told.lines, told.ranks, told.call, told.said, "likely")


def _ras(frames: Frames) -> Finding | None:
    found = ras_status.lagging(frames) or ras_status.unanswered(frames)
    return found if found is not None and found.slug == "missing-rank" else None


def _awaited(frames: Frames) -> Finding | None:
    """Return the rank whose address in the store the others waited for at the start.

    Gloo asks for one rank after the other: of several late ranks the first is named.
    """
    lines = frames.message("c10d.store.wait_timeout")
    if "keys" not in lines.columns:
        return None
    number = pl.col("keys").str.extract(ADDRESS).cast(pl.Int64, strict=False)
    lines = lines.with_columns(number.alias("missing")).drop_nulls("missing")
    ranks = common.numbers(lines["missing"])
    # rank 0 serves the store: it waits for clients before it tells its own address
    serves = frames.message("c10d.store.missing_clients").height > 0
    waits = {*common.numbers(lines["rank"]), *([0] if serves else [])}
    if not waits.isdisjoint(ranks):
        return None
    why = "the others waited in the store for its address until their timeout"
    found = _finding(frames, lines, ranks, Collective(), why, "likely")
    who = common.ranks(ranks)
    told = f"{who} never reached init_process_group"
    return found and dataclasses.replace(
        found,
        headline=told,
        explanation=f"{told.capitalize()}: {why}."
        f"{seen_places.told_at_work(frames, ranks)}",
    )


def _unpublished(frames: Frames) -> Finding | None:
    """Return rank 0 if the others waited in vain for the id of a communicator."""
    lines = frames.message(nccl_ids.MISSING)
    ranks = tuple(nccl_ids.unpublished(lines))
    why = "the others waited for the id of its communicator until their timeout"
    return _finding(frames, lines, ranks, Collective(), why, "likely")


def _of_jax(frames: Frames) -> Finding | None:
    """Return the tasks that did not reach a barrier of JAX's coordination service."""
    lines = frames.message("jax.barrier_timeout")
    if "missing" not in lines.columns:
        return None
    told = (
        lines.filter(~pl.col("barrier").str.contains(JAX_START))
        .drop_nulls("missing")
        .head(1)
    )
    ranks = common.numbers(told["missing"].explode())
    call = Collective(op=f"barrier {told['barrier'][0]}") if told.height else None
    why = "JAX's coordination service lists it"
    return _finding(frames, told, ranks, call or Collective(), why, "likely")


def _notified(frames: Frames) -> Finding | None:
    """Return the ranks for which others waited in HCCL, and that wait for nobody.

    It names the next rank in the ring or tree, which may wait as well: where nothing of
    it is here, it is only possible that it does not.
    """
    lines = frames.message(*OF_HCCL)
    if "missing" not in lines.columns:
        return None
    waiting = frames["events"].filter(pl.col("role") == "victim")["rank"]
    if "waiter" in lines.columns:  # who prints a table says its own rank there
        waiting = pl.concat([waiting, lines["waiter"].cast(waiting.dtype)])
    named = lines.filter(~pl.col("missing").is_in(waiting.drop_nulls().implode()))
    ranks = common.numbers(named["missing"])
    why = "others waited for it in HCCL until their timeout"
    seen = {*ranks} <= {*frames.writers()["rank"]}
    sure: Confidence = "likely" if seen else "possible"
    return _finding(frames, named, ranks, Collective(), why, sure)


def _seen(frames: Frames) -> Finding | None:
    """Return the hosts on which a process stood elsewhere, by stacks without ranks."""
    told = seen_places.awaited(frames)
    if told is None:
        return None
    waits, rest, where = told
    ops = waits["op"].unique()
    call = Collective(op=ops[0] if ops.len() == 1 else None)
    hosts = common.hosts(rest["host"])
    seen = frames["events"].select("source", "line", "text")
    return Finding(
        slug="missing-rank",
        confidence="possible",
        headline=f"a process on {common.named(hosts)} never joined "
        f"{common.call_words(call)}",
        evidence=common.cites(rest.join(seen, on=["source", "line"])),
        explanation=f"The stacks tell no rank. {where}.",
        remedy=REMEDY,
        hosts=hosts,
        collective=call,
    )


def _finding(
    frames: Frames,
    lines: pl.DataFrame,
    ranks: tuple[int, ...],
    call: Collective,
    why: str,
    confidence: Confidence = "certain",
) -> Finding | None:
    if not ranks:
        return None
    who = common.ranks(ranks)
    return Finding(
        slug="missing-rank",
        confidence=confidence,
        headline=f"{who} never joined {common.call_words(call)}",
        evidence=common.cites(lines),
        explanation=f"{who.capitalize()} never reached {common.call_words(call)}: "
        f"{why}.{seen_places.told_at_work(frames, ranks)}",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=call,
        first_seen=common.first_seen(lines),
    )
