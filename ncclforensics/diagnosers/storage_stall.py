"""Storage does not answer, and a rank is stuck in a read or a write.

What it means
    A rank reads its data or saves a checkpoint, and the file server (NFS, Lustre, Ceph,
    FUSE, …) or the object store does not answer. On a hard mount the process waits
    forever, in state D, and no signal ends it. Its peers wait for it in their next
    collective and time out. A data loader whose worker hangs times out as well.

How we know
    The kernel reports the process as blocked and its call trace is in a file system;
    where it is known which rank the others wait for, only that rank counts. `ps` with
    WCHAN, `/proc/PID/stack` and `collect` show the same: one look makes this
    `possible`; two make it `likely`, as does one at a file system that is frozen. Or
    the kernel of its host says that a server does not answer (`nfs: server … not
    responding`, Lustre's `Connection to … was lost`, `ceph: mds0 hung`), or a mount
    gives `collect` no answer. That a Lustre server evicted this client makes it likely,
    as reads and writes then fail. Where nothing shows that the job hangs, a silent
    server and a process of the job that is blocked for minutes make it possible
    together. Or the rank gave up by itself: a stale file
    handle, a timeout of an object store, `DataLoader timed out after`.

What to do
    See whether the mount answers on the named host and on others: `timeout 5 stat -f
    PATH`. Repair the server or its network first. A process in state D ends only when
    the server is back, the mount is aborted, or the host is rebooted.

Looks like
    A rank that saves a checkpoint slowly is at work: without a sign that storage does
    not answer, it is `missing-rank` or `straggler`. `nfs: server … OK` says that the
    server was back. A process that hangs in the GPU driver is no storage stall. A full
    file system is `disk-full`.

References
    nfs(5), hard and soft mounts; Lustre operations manual, recovery; Linux hung task
    detector; torch.utils.data.DataLoader, timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import domains
from ncclforensics.evidence import (
    common,
    kernel_log,
    seen_places,
    storage,
    timed_out_call,
)
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.model.words import said
from ncclforensics.theory import awaited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

FAMILY = "platform"
NEEDS = (
    "kernel.",
    *("system.ps", "system.proc_stack", "system.gpfs"),
    "collect.",
    "python.traceback",
    "python.dataloader",
    "python.os_error",
    "uncaught.",
)
MISSING = "no kernel log, no ps and no exception of a rank"
NEXT_TIME = (
    "keep the kernel log of each host; ps -eo pid,stat,wchan:32,args while it hangs"
)
EXPLAINS = (
    *("crashed-rank", "missing-rank", "straggler", "timeout-masking", "gil-deadlock"),
    *("socket-error", "stuck-in-collective", "unreachable-peer"),
)
SPREADS = True
TOLD_WITHIN_S = 900  # NFS tells after minutes, the hung task detector after two or more


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that stand in storage, or the host whose server is silent."""
    blocked, servers = storage.blocked(frames), storage.silent_servers(frames)
    gave_up = storage.gave_up(frames)
    if gave_up.height:
        yield _gave_up(frames, gave_up, blocked, servers)
        return
    if blocked.is_empty() and servers.is_empty():
        return
    hung = bool((blocked["message"] == storage.HUNG).any())
    unharmed, whom = awaited.nobody(frames), awaited.ranks(frames)
    stuck = awaited.about(frames, blocked, whom)
    waited_for = hung or (whom and stuck.height)
    if unharmed and not (waited_for and servers.height):
        return
    theirs = awaited.about(frames, servers, whom)
    lasts = bool((stuck["message"] == storage.HUNG).any())
    if unharmed:  # nothing else shows that the job stopped for it
        yield _stands(frames, stuck, theirs, whom, lasts=lasts and bool(whom))
        return
    # in one look at a process that only is slow, it may wait as well
    lasts = lasts or bool(theirs.height) or storage.stays(frames, stuck)
    if stuck.height and (lasts or not whom):
        yield _stands(frames, stuck, theirs, whom, lasts=lasts)
        return
    if theirs.height:
        yield _silent(frames, theirs, whom)
        return
    yield _untold(blocked, servers, whom)


def _untold(
    blocked: pl.DataFrame, servers: pl.DataFrame, whom: tuple[int, ...]
) -> NotChecked:
    """Say that storage did not answer somebody, if that may be no fault of it."""
    who = common.ranks(whom)
    lines = pl.concat(
        [part.select("text", "source", "line") for part in (blocked, servers)]
    )
    cite = common.cites(lines, 1)[0]
    return NotChecked(
        "storage-stall",
        "storage blocked a process, but nothing shows that "
        f"{who} waited there for long: {cite.source}:{cite.line}",
        f"twice on the host of {who} while it hangs: ps -eo pid,stat,wchan:32,args",
    )


def _stands(
    frames: Frames,
    stuck: pl.DataFrame,
    servers: pl.DataFrame,
    whom: tuple[int, ...],
    *,
    lasts: bool,
) -> Finding:
    """Return the finding for processes that wait in a file system."""
    ranks = whom or common.numbers(stuck["rank"])
    systems = common.strings(stuck["file_system"])
    # a wait for a page is alike in all file systems: the silent server tells which
    if servers.height and systems == (storage.LOCAL,):
        systems = common.strings(servers["server"])
    remote = storage.LOCAL not in systems
    sure: Confidence = "certain" if whom and remote and servers.height else "likely"
    who = common.ranks(ranks) if ranks else "a process of the job"
    hang = "hang" if len(ranks) > 1 else "hangs"
    at_work = seen_places.told_at_work(frames, ranks)
    return _finding(
        frames,
        sure if lasts else "possible",
        f"{who} {{where}} {hang} in {common.some(systems)}, which does not answer",
        f"The kernel shows a process of the job that is blocked in "
        f"{common.some(systems)}.{_whom(whom)}{at_work}{_servers(servers)}",
        ranks,
        (stuck, servers),
    )


def _silent(frames: Frames, servers: pl.DataFrame, whom: tuple[int, ...]) -> Finding:
    """Return the finding for servers that do not answer the host of a rank."""
    names = common.strings(servers["server"])
    who = f" {common.ranks(whom)} ran there." if whom else ""
    # after an eviction, reads and writes fail; until then they wait
    ended = servers["text"].str.contains(storage.EVICTED).any()
    return _finding(
        frames,
        "likely" if whom or (ended and kernel_log.is_alone(frames)) else "possible",
        f"storage server {common.some(names)} does not answer {{where}}",
        f"{_servers(servers).strip()}{who}{_whom(whom)}"
        f"{seen_places.told_at_work(frames, whom)}"
        + ("" if whom else " This evidence does not show which rank waited for it."),
        whom,
        (servers,),
    )


def _gave_up(
    frames: Frames, raised: pl.DataFrame, blocked: pl.DataFrame, servers: pl.DataFrame
) -> Finding:
    """Return the finding for ranks that raised because storage did not answer."""
    ranks = common.numbers(raised["rank"])
    loader = bool(raised["is_loader"].all())
    proof = blocked.height or servers.height
    who = common.ranks(ranks) if ranks else "a rank"
    what = "its data loader hung" if loader else "storage did not answer"
    sure = not loader and bool(raised["echo"].is_not_null().any())
    confidence: Confidence = "certain" if sure or proof else "likely"
    return _finding(
        frames,
        confidence,
        f"{who} {{where}} gave up: {what}",
        f"{who.capitalize()} raised {said(raised['text'][0], 160)}"
        + (" One of its data loader workers did not return." if loader else "")
        + (" A process of the job waits in storage." if blocked.height else "")
        + _servers(servers),
        ranks,
        (raised, blocked, servers),
        variant=domains.LOADER if loader and not proof else "",
    )


def _finding(
    frames: Frames,
    confidence: Confidence,
    headline: str,
    explanation: str,
    ranks: tuple[int, ...],
    lines: tuple[pl.DataFrame, ...],
    variant: str = "",
) -> Finding:
    """Return a finding; `{where}` of `headline` becomes the hosts."""
    shared = ("text", "t", "host", "source", "line")
    told = pl.concat([part.select(shared) for part in lines])
    hosts = common.hosts_of(frames, ranks) or common.strings(told["host"])
    headline = headline.replace(" {where}", common.on(hosts))
    on = f"   # on {hosts[0]}" if hosts else ""
    return Finding(
        slug="storage-stall",
        confidence=confidence,
        headline=headline[:200],
        evidence=common.cites(told),
        explanation=explanation,
        remedy=(
            f"timeout 5 stat -f PATH; mount -t nfs,nfs4,lustre,ceph,cifs,fuse{on}",
            f"ps -eo pid,stat,wchan:32,args | awk '$2 ~ /D/'{on}",
            "repair the server first: processes in state D go on when it answers",
        ),
        ranks=ranks,
        hosts=hosts,
        collective=timed_out_call.waited_in(frames),
        first_seen=common.first_seen(told),
        variant=variant,
    )


def _whom(whom: tuple[int, ...]) -> str:
    return f" The others wait for {common.ranks(whom)}." if whom else ""


def _servers(servers: pl.DataFrame) -> str:
    if servers.is_empty():
        return ""
    return f" The kernel says: {said(servers['text'][0], 160)}"
