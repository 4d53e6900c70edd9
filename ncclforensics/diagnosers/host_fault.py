"""A host broke: kernel panic, uncorrectable memory or processor error, power, disk.

What it means
    The machine itself failed, not one of its GPUs. Its ranks died without a message, or
    one of them was killed because its memory was broken. Their peers lose them or time
    out.

How we know
    The kernel's `Kernel panic - not syncing` (from the serial console, kdump or
    netconsole), `Machine Check Exception`, `UE` of EDAC or a machine check whose status
    says so (bit 61; also of mcelog and rasdaemon), `event severity: fatal`, a hard
    LOCKUP, an oops, a lost disk, or `due to hardware memory corruption` with the
    process that was killed. Or the management controller's event log, at the time of
    the failure. All but a panic and a killed process are taken as the cause only if the
    ranks that others wait for, or that ended first, ran on that host, or if nothing but
    that kernel log was given.

What to do
    Drain the host. Read its event log (`ipmitool sel elist`) and the kernel's last
    lines (`journalctl -b -1 -k`), replace what they name, and test the memory before
    the host takes jobs again.

Looks like
    Corrected errors (CE, `Machine Check: 0`, severity corrected or recoverable) are no
    fault: the host went on. A soft lockup shows a busy kernel. A host that is silent
    without such a line is `node-lost`. An Xid is `gpu-fault`.

References
    Linux Documentation/admin-guide: RAS, lockup-watchdogs; ACPI APEI; ipmitool(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, kernel_log, primary_exits, timed_out_call
from ncclforensics.model.actions import Action, drain
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.model.words import said
from ncclforensics.theory import awaited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = ("kernel.", "system.sel", "system.mcelog", "system.rasdaemon")
MISSING = "no kernel log and no event log of a management controller"
NEXT_TIME = "journalctl -b -1 -k and ipmitool sel elist of the host that was lost"
EXPLAINS = (
    *("node-lost", "crashed-rank", "missing-rank", "timeout-masking", "gil-deadlock"),
    *("socket-error", "ib-error", "unreachable-peer", "rendezvous-failed"),
    *("stuck-in-collective", "elastic-below-min"),
)
SPREADS = True
TOLD_WITHIN_S = 900  # a management controller's clock is set by hand

STOPPED = {
    "kernel.panic": "its kernel stopped",
    "kernel.memory_failure": "broken memory killed a process of the job",
}
BROKE = {
    "kernel.machine_check": "machine check of a processor",
    "kernel.machine_check.amd": "machine check of a processor or its memory",
    "kernel.memory_uncorrected": "uncorrectable memory error",
    "kernel.edac_uncorrected": "uncorrectable memory error",
    "kernel.hardware_fatal": "fatal hardware error",
    "kernel.hard_lockup": "a processor locked up",
    "kernel.oops": "its kernel met a bug",
    "kernel.disk_lost": "it lost a disk",
    "system.mcelog": "machine check of a processor or its memory",
    "system.rasdaemon": "machine check of a processor or its memory",
    "system.sel": "fault in its event log",
}
SEL_TIME = ("%m/%d/%Y %H:%M:%S", "%m/%d/%y %H:%M:%S")
COLUMNS = ("message", "text", "t", "rank", "host", "source", "line")


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the host that broke, with its ranks."""
    lines = frames.message(*STOPPED, *BROKE)
    if lines.is_empty() or awaited.nobody(frames):
        return
    timely = kernel_log.of_this_job(frames, _dated(lines))
    timely = timely.filter(~pl.col("is_far")).select(COLUMNS)
    stopped = timely.filter(pl.col("message").is_in(list(STOPPED)))
    broke = timely.filter(pl.col("message").is_in(list(BROKE)))
    if stopped.height:
        same = pl.col("host").is_in(stopped["host"].implode())
        yield _finding(frames, pl.concat([stopped, broke.filter(same)]), "certain")
        return
    if broke.is_empty():
        return
    whom = awaited.ranks(frames) or _fallen(frames)
    theirs = awaited.about(frames, broke, whom)
    if theirs.height:
        known = whom or kernel_log.is_alone(frames)
        yield _finding(frames, theirs, "likely" if known else "possible")
        return
    who = common.ranks(whom)
    cite = common.cites(broke, 1)[0]
    yield NotChecked(
        "host-fault",
        f"a host had a hardware error, but nothing shows that {who} ran there: "
        f"{cite.source}:{cite.line}",
        "keep logs whose lines or paths name the host of each rank",
    )


def _dated(lines: pl.DataFrame) -> pl.DataFrame:
    """Fill `t` of event log entries, whose date stands in columns of their own."""
    if not {"date", "time"} <= set(lines.columns):
        return lines
    said = common.sentence(pl.col("date"), " ", pl.col("time"))
    dates = [said.str.to_datetime(form, strict=False) for form in SEL_TIME]
    when = pl.coalesce(dates).dt.replace_time_zone("UTC").dt.cast_time_unit("ns")
    return lines.with_columns(pl.coalesce("t", when).alias("t"))


def _fallen(frames: Frames) -> tuple[int, ...]:
    """Return the ranks that ended first and by themselves."""
    return common.numbers(primary_exits.of_own(frames)["rank"])


def _finding(frames: Frames, lines: pl.DataFrame, confidence: str) -> Finding:
    hosts = common.strings(lines["host"])
    ranks = common.numbers(lines["rank"])
    hosts = hosts or common.hosts_of(frames, ranks)
    ranks = ranks or common.ranks_on(frames, hosts)
    words = STOPPED | BROKE
    first = lines.sort("t", "source", "line", nulls_last=True).row(0, named=True)
    where = common.named(hosts) if hosts else "a host"
    theirs = f" ({common.ranks(ranks)})" if ranks else ""
    return Finding(
        slug="host-fault",
        confidence=confidence,  # type: ignore[arg-type]
        headline=f"{where}{theirs} failed: {words[first['message']]}"[:200],
        evidence=common.cites(lines),
        explanation=f"{said(first['text'])} "
        + (
            f"{common.ranks(ranks).capitalize()} ran there."
            if ranks
            else "Nothing here says which ranks ran there."
        ),
        remedy=(
            drain("hardware"),
            Action("ipmitool sel elist; journalctl -b -1 -k", at="host"),
            Action("ras-mc-ctl --errors   # which memory module", at="host"),
        ),
        ranks=ranks,
        hosts=hosts,
        collective=timed_out_call.waited_in(frames),
        first_seen=common.first_seen(lines),
    )
