"""What an engineer on call asks first: is it the network, a GPU, memory, a mismatch?

Each question that no finding answers gets an answer here. Either the class is ruled
out, by evidence from all ranks or hosts concerned; or the answer names the file that is
missing, and what to set or collect to have it next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.runs.job import MACHINE
from ncclforensics.correlate.traces import call_summary
from ncclforensics.evidence import common, kernel_log
from ncclforensics.model import wanted
from ncclforensics.model.findings import Cite, Finding, NotChecked, RuledOut
from ncclforensics.model.folding import count
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import TIME, without_rows
from ncclforensics.model.words import lasted
from ncclforensics.theory import call_signatures
from ncclforensics.verdict import checklist

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

KERNEL_LOG = r"(?i)(?:^|/)(?:dmesg|kern|journal|syslog|messages)[^/]*$"
LOG_ENDS = "kernel.log_ends"
NETWORK = (
    *("ib-error", "socket-error", "unreachable-peer", "wrong-nic", "slow-network"),
    *("mtu-mismatch", "rendezvous-failed", "split-rendezvous"),
)
MISMATCH = ("collective-mismatch", "shape-mismatch", "call-order-deadlock")
QUOTES = r"(?i)(?:^|/)[^/]*(?:event|describe|pods?)[^/]*$"
BROKE = r"^nccl\.(?:ib|socket|net|bootstrap|ras)\."
MOST_CITES = 3
_, TELL = wanted.NCCL
_, RECORD = wanted.DUMPS


SHORT = {"source": pl.String(), "ends_at": TIME, "before": pl.Duration("ns")}


def asked(frames: Frames, told: Sequence[Statement]) -> Iterator[Statement]:
    """Yield an answer to each question that no finding in `told` answers."""
    found = [s for s in told if isinstance(s, Finding)]
    slugs = {f.slug for f in found}
    hosts = sorted({host for f in found for host in f.hosts}) or common.strings(
        frames["ranks"]["host"]
    )
    logs = _kernel_logs(frames).join(_short(frames), on="source", how="left")
    if not slugs & {"gpu-fault", "gpu-oom"}:
        yield _in_kernel(logs, hosts, "gpu-fault", "Xid of broken hardware")
    if "host-oom" not in slugs:
        yield _in_kernel(logs, hosts, "host-oom", "process killed for lack of memory")
    if "gpu-oom" not in slugs:
        yield _gpu_memory(frames)
    if not slugs & set(NETWORK):
        yield _network(frames)
    if not slugs & set(MISMATCH):
        yield _mismatch(frames)
    yield from (s for s in checklist.asked(frames) if s.slug not in slugs)


def _kernel_logs(frames: Frames) -> pl.DataFrame:
    """Return the kernel logs as `source host lines`, even if no line was recognised.

    Logs of machines that were booted after the failure are left out.
    """
    events = frames["events"]
    kernel = events.filter(pl.col("message").str.starts_with("kernel."))
    if kernel.height:
        # kernel lines quoted by Kubernetes or by a rank are not the kernel's log
        others = events.filter(~pl.col("message").str.contains(MACHINE))["source"]
        quoted = pl.col("source").str.contains(QUOTES)
        kernel = kernel.filter(
            ~quoted & ~pl.col("source").is_in(others.unique().implode())
        )
    named = pl.col("source").str.contains(KERNEL_LOG) & (pl.col("kind") == "log")
    later = _begins_after(frames)
    named &= ~pl.col("source").is_in(later.implode())
    if kernel.is_empty():
        logs = frames["sources"].lazy().filter(named)
        return collected(logs.select("source", "host", "lines").sort("source"))
    kernel = kernel.join(later.to_frame(), on="source", how="anti")
    hosts = kernel.group_by("source").agg(pl.col("host").drop_nulls().first())
    return collected(
        frames["sources"]
        .lazy()
        .filter(named | pl.col("source").is_in(kernel["source"].unique().implode()))
        .join(
            hosts.lazy(), on="source", how="left", suffix="_told", maintain_order="left"
        )
        .select("source", pl.coalesce("host", "host_told").alias("host"), "lines")
        .sort("source")
    )


def _begins_after(frames: Frames) -> pl.Series:
    """Return the sources of kernel logs that begin after the failure, with a boot."""
    boots = frames.message("kernel.boot")
    if boots.is_empty():
        return boots["source"]
    job = kernel_log.span(frames)
    if job is None or job.clock not in boots.columns:
        return boots["source"].clear()
    earlier = frames["events"].join(boots.select("source"), on="source", how="semi")
    first = earlier.group_by("source").agg(pl.col(job.clock).min())
    return first.filter(pl.col(job.clock) > job.onset)["source"]


def _short(frames: Frames) -> pl.DataFrame:
    """Return the kernel logs that end before the failure: `source ends_at before`.

    `before` is the time between the last line and the failure. A healthy kernel may
    print nothing for hours, but such a log cannot show what came later.
    """
    ends = frames["events"].filter(pl.col("message") == LOG_ENDS)
    if ends.is_empty():
        return without_rows(SHORT)
    job = kernel_log.span(frames)
    clock = "t" if job is None else job.clock
    told = ends.drop_nulls(clock).group_by("source").agg(pl.col(clock).max())
    onset = pl.lit(None if job is None else job.onset).cast(TIME)
    told = told.select("source", pl.col(clock).alias("ends_at"))
    before = onset - pl.col("ends_at")
    return told.with_columns(before.alias("before")).filter(
        before > pl.duration(nanoseconds=kernel_log.AT_ONCE_NS)
    )


def _in_kernel(
    logs: pl.DataFrame, hosts: Sequence[str], slug: str, what: str
) -> Statement:
    """Rule a class out by the kernel logs of some hosts, or say whose log is missing.

    If there is only one host, a log without a host belongs to it.
    """
    reach = logs.filter(pl.col("before").is_null()) if logs.height else logs
    alone = len(hosts) < 2
    lacking = _without(reach, hosts) if not (alone and reach.height) else []
    if reach.height and not lacking:
        cites = tuple(
            Cite(source, None, f"{count(lines, 'line')}, none of such a failure")
            for source, lines in reach.head(MOST_CITES).select("source", "lines").rows()
        )
        where = f" of {common.named(hosts)}" if hosts else ""
        return RuledOut(slug, f"no {what} in the kernel log{where}", cites)
    host = common.named(lacking) if lacking else "the job's hosts"
    name = lacking[0] if len(lacking) == 1 else "$(hostname)"
    early = logs.drop_nulls("before").sort("ends_at") if logs.height else logs
    none_at_all = _without(logs, hosts) if not (alone and logs.height) else []
    missing = f"no kernel log of {common.named(none_at_all) if none_at_all else host}"
    if early.height and not none_at_all:
        at, before = early.select("ends_at", "before").row(-1)
        ends = f"ends {at:%H:%M}, {lasted(before.total_seconds())} before the failure"
        missing = f"the kernel log of {host} {ends}"
    return NotChecked(
        slug,
        missing,
        f"keep the kernel log of {host}: journalctl -k > dmesg-{name}.log",
    )


def _without(logs: pl.DataFrame, hosts: Sequence[str]) -> list[str]:
    """Return the hosts without any of these logs."""
    covered = {str(host).partition(".")[0] for host in {*logs["host"]} - {None}}
    return [host for host in hosts if host.partition(".")[0] not in covered]


def _lacking(frames: Frames, seen: pl.Series) -> list[int] | None:
    """Return the job's ranks that are not in `seen`; None if no ranks are known."""
    size = job.facts(frames)["world_size"]
    known = set(common.numbers(frames["ranks"]["rank"]))
    if isinstance(size, int):
        known |= set(range(size))
    there = set(common.numbers(seen))
    return sorted(known - there) if known else None


def _gpu_memory(frames: Frames) -> Statement:
    """Rule out `gpu-oom` by the logs of all ranks, or say whose log is missing."""
    logs = frames["events"].filter(~pl.col("message").str.starts_with("kernel."))
    lacking = _lacking(frames, logs["rank"])
    if lacking == []:
        return RuledOut(
            "gpu-oom",
            "no rank's log says that it ran out of GPU memory",
            common.cites(
                logs.drop_nulls("rank")
                .sort("source", "line", "message")
                .unique("rank", keep="last", maintain_order=True),
                2,
            ),
        )
    whose = f" of {common.ranks(lacking)}" if lacking else " of any rank"
    return NotChecked(
        "gpu-oom",
        f"no log{whose}",
        wanted.LOGS[1],
    )


def _network(frames: Frames) -> Statement:
    """Rule out the network if NCCL connected all ranks and reported no failure."""
    lines = frames["events"].filter(pl.col("message").str.starts_with("nccl."))
    if lines.is_empty():
        return NotChecked("ib-error", *wanted.NCCL)
    built = frames.message("nccl.init.complete")
    lacking = _lacking(frames, built["rank"])
    broken = lines.filter(
        pl.col("message").str.contains(BROKE)
        & pl.col("role").is_in(["culprit", "victim", "either"])
    )
    if lacking == [] and broken.is_empty():
        return RuledOut(
            "ib-error",
            f"NCCL connected all {count(built['rank'].n_unique(), 'rank')}, and "
            "printed no error of a device or a connection",
            common.cites(built, 2),
        )
    if lacking:
        whose = common.ranks(lacking)
        return NotChecked(
            "ib-error", f"no NCCL line shows that {whose} connected", TELL
        )
    return NotChecked("ib-error", "NCCL's lines do not say whose link broke", TELL)


def _mismatch(frames: Frames) -> Statement:
    """Rule out mismatched calls by the dumps of all ranks, or say what is missing."""
    dumps = call_summary.dumps(frames).filter(pl.col("rows") > 0)
    if dumps.is_empty():
        return NotChecked("collective-mismatch", *wanted.DUMPS)
    lacking = _lacking(frames, call_summary.outline(frames)["rank"])
    if lacking:
        whose = common.ranks(lacking)
        return NotChecked("collective-mismatch", f"no readable dump of {whose}", RECORD)
    if call_signatures.of_calls(frames):
        return NotChecked(
            "collective-mismatch",
            "the dumps do not agree on which rank differs",
            RECORD,
        )
    cites = tuple(
        Cite(source, None, f"{rows:,} rows, like those of its peers")
        for source, rows in dumps.select("source", "rows").head(2).iter_rows()
    )
    many = count(dumps.height, "dump")
    return RuledOut(
        "collective-mismatch",
        f"where ranks wait, {many} of all ranks agree on operation and sizes",
        cites,
    )
