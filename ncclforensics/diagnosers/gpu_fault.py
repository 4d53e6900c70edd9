"""A GPU or its link broke: the driver or kernel reports it, and its rank is lost.

What it means
    The driver reported a hardware error (an Xid, or an SXid of an NVSwitch), or a CUDA
    call failed on an uncorrectable error of memory or NVLink. The rank on that GPU
    fails or hangs, and its peers wait for it. The same code works on another node.

How we know
    Xid 48, 64, 74, 79, 94, 95, 119, 120, 140, 143 to 150 and similar ones; a fatal
    SXid; AMD's `uncorrectable hardware error` and GPU reset; `GPU has fallen off the
    bus` in any of its forms, as revision ff in `lspci` too; the bus driver's `can't
    recover` of a GPU; `uncorrectable ECC error` or `uncorrectable NVLink error`
    (likely: the other end may be bad) in a rank's own CUDA error; an Xid that DCGM
    reports. The named rank is the one on that host and PCI bus id, according to NCCL's
    Init lines; otherwise the host is named, or the rank that printed the error. A
    failed test of `dcgmi diag` or `dcgmi health` makes this `possible` for that host,
    and so does CUDA_ERROR_CONTAINED, which a bad access over NVLink causes as well.

What to do
    Take the node out of the queue before the job is restarted. Reset the GPU after ECC
    errors and after Xid 119 and 120. Power-cycle the node after Xid 79. If the error
    comes back, hand the node to whoever repairs it, with the kernel log.

Looks like
    Xid 13, 31 and 43 are usually the program's own fault (an illegal address). Xid 45
    follows whenever a process is killed. Xid 63 says that a row was remapped
    successfully. Xid 154 says what to do. None of them by itself is a GPU fault. Errors
    that `nvidia-smi -q` has counted may be older than the job: they are reported, and
    accuse nobody.
    A rank that ran out of memory is `gpu-oom`; error 802 is `fabric-manager`.

References
    NVIDIA Xid errors; nverror.h of the open GPU kernel modules; DCGM diagnostics.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import (
    common,
    cuda_errors,
    exceptions,
    gpu_state,
    kernel_log,
    timed_out_call,
)
from ncclforensics.evidence.cuda_errors import CONTAINED, ECC, NVLINK
from ncclforensics.evidence.xids import BROKEN, HARMLESS, LINK
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action, drain
from ncclforensics.model.findings import Finding, NotChecked, RuledOut
from ncclforensics.model.tables import SCHEMAS
from ncclforensics.model.words import said
from ncclforensics.theory import awaited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    "kernel.",
    "nvidia.smi",
    "nvidia.nvml",
    *("nvidia.device_plugin", "nvidia.dcgm", "nvidia.lspci", "amd."),
    "system.hsa",
    "c10d.watchdog.terminated",
    *cuda_errors.ERRORS,
)
MISSING, NEXT_TIME = wanted.KERNEL
EXPLAINS = (
    "crashed-rank",
    "gpu-oom",
    "gpu-stall",
    "missing-rank",
    "stuck-in-collective",
    "timeout-masking",
    "socket-error",
    "ib-error",
    "gil-deadlock",
    "straggler",
)
SPREADS = True

LOST = ("kernel.gpu_lost", "nvidia.smi.gpu_lost", "nvidia.nvml.gpu_lost")
FATAL = 1  # grade of an SXid, where 0 is one that is not fatal
OFF_BUS = "ff"  # what registers read as of which no device answers
DRIVERS = ("nvidia", "amdgpu")
TESTS = (
    *("nvidia.dcgm.test_failed", "nvidia.dcgm.gpu_failed", "nvidia.dcgm.json"),
    *("nvidia.dcgm.unwell", "nvidia.dcgm.defect", "nvidia.dcgm.part_failed"),
)
OF_AMD = (
    *("system.hsa.hang", "kernel.amdgpu_reset", "kernel.amdgpu_error"),
    *("kernel.amdgpu_ring", "kernel.amdgpu_hang"),
)
UNUSABLE = (
    *("kernel.gpu_bad_state", "nvidia.nvml.reset_required"),
    "nvidia.device_plugin.unhealthy",
)
SILENT = "kernel.gsp_timeout"  # the text of an Xid 119
RESET = (48, 64, 94, 95, 119, 120, 140, 171, 172)
APART_NS = 2_000_000_000
COLUMNS = (
    "text",
    "t",
    "yearless",
    "rank",
    "host",
    "pid",
    "pci",
    "xid",
    "source",
    "line",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the rank whose GPU broke, or its host."""
    xids = _xids(frames)
    broken = _faults(frames, xids)
    faults = kernel_log.of_this_job(frames, broken)
    told = _saying(frames, f"{ECC}|{NVLINK}")
    if faults.is_empty() and told.is_empty():
        yield from _of_another_day(broken) if broken.height else _harmless(xids)
        yield from _contained(frames)
        yield from _tested(frames)
        yield from _counted(frames)
        return
    if told.is_empty() and faults["is_far"].all():
        yield _of_another_hour(faults)
        return
    faults = _first(faults)
    met_error = cuda_errors.met(told)
    sure = told.height > 0 and met_error == ECC  # of a link, the other end may be bad
    ranks = common.numbers(faults["rank"]) or common.numbers(told["rank"])
    if faults.is_empty() and met_error == NVLINK and len(ranks) > 1:
        ranks = ()
    hosts = (
        common.hosts(faults["host"])
        or common.hosts_of(frames, ranks)
        or common.host_of_file(frames, faults)
    )
    met = () if ranks or told.height else _met(frames, hosts)
    ranks = ranks or met
    # a GPU is function 0 of its slot, even if the line leaves that out
    gpus = common.strings(faults["pci"].str.strip_suffix(".0").str.to_lowercase())
    if _either_end(faults):
        ranks, gpus = (), ()
    known = BROKEN | LINK
    seen = faults["xid"].drop_nulls().unique(maintain_order=True)
    numbers = [n for n in seen.to_list() if n in known]
    what = next((f"Xid {n} ({known[n]})" for n in numbers), "")
    what = what or (f"an {met_error}" if faults.is_empty() else "lost")
    named = common.ranks(ranks) if ranks else ""
    counted = gpu_state.defects(frames).filter(pl.col("rank").is_in(list(ranks)))
    gpu = f"GPU {common.some(gpus)}" if gpus else "a GPU"
    where = common.on(hosts)
    whose = f" of {named}" if named else ""
    yield Finding(
        slug="gpu-fault",
        confidence="certain" if numbers or sure else "likely",
        headline=f"{gpu}{whose}{where} failed: {what}"[:200],
        evidence=common.cites(
            pl.concat(
                [f.select("text", "source", "line") for f in (faults, told, counted)]
            )
        ),
        explanation=_explanation(faults, told, named)
        + (f" {named.capitalize()} alone met an error of CUDA there." if met else "")
        + (f" nvidia-smi tells: {gpu_state.told(counted)}." if counted.height else ""),
        remedy=_remedy(hosts, gpus, numbers),
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks) or gpus,
        collective=timed_out_call.waited_in(frames),
        first_seen=common.first_seen(faults if faults.height else told),
    )


def _met(frames: Frames, hosts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the only rank that raised an error of its GPU, or ().

    One that is known to be on another host does not count.
    """
    placed = frames["ranks"].drop_nulls(["rank", "host"])
    others = placed.filter(~pl.col("host").is_in(hosts))["rank"]
    of_gpu = pl.col("text").str.contains(exceptions.OF_GPU)
    here = ~pl.col("rank").is_in(others.implode())
    raised = exceptions.uncaught(frames).filter(of_gpu & here)
    ranks = common.numbers(raised["rank"])
    return ranks if len(ranks) == len(hosts) == 1 else ()


def _explanation(faults: pl.DataFrame, told: pl.DataFrame, named: str) -> str:
    words = []
    if faults.height:
        line = said(faults["text"][0])
        who = "runtime" if line.startswith("HW Exception") else "kernel"
        words.append(f"The {who} of that host says: {line}")
    if told.height:
        words.append(
            f"{named.capitalize() or 'A rank'} itself met an {cuda_errors.met(told)}."
        )
    if _either_end(faults):
        words.append("Errors of a link show at both of its ends: no GPU is named.")
    elif not named:
        words.append("Nothing here says which rank ran on that GPU.")
    return " ".join(words)


def _remedy(
    hosts: tuple[str, ...], gpus: tuple[str, ...], numbers: list[int]
) -> tuple[Action, ...]:
    gpu = quote(gpus[0]) if gpus else "BUS_ID"
    reset = f"nvidia-smi --gpu-reset -i {gpu}   # with nothing on the GPU"
    off = "power {host} off and on: a reset does not bring back a GPU that left the bus"
    again = "power the host off and on: a reset does not bring back such a GPU"
    act = (Action(reset, at="host"),) if any(n in RESET for n in numbers) else ()
    return (
        drain(f"GPU {gpus[0]}" if gpus else "GPU"),
        *((Action(off, again),) if 79 in numbers else act),
        Action("dcgmi diag -r 3   # before it takes jobs again", at="host"),
        Action("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", at="host"),
    )


def _xids(frames: Frames) -> pl.DataFrame:
    """Return all Xid lines, in `COLUMNS`."""
    kernel = frames.message("kernel.xid")
    if "caused_by" in kernel.columns:
        # a follow-up Xid names its cause, whose own line may be lost
        kernel = kernel.with_columns(pl.coalesce("caused_by", "xid").alias("xid"))
    parts = [kernel, frames.message("nvidia.device_plugin.xid", "nvidia.dcgm.xid")]
    return pl.concat([_in_columns(part) for part in parts])


def _faults(frames: Frames, xids: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that show broken hardware, with the rank on it if known."""
    lost = frames.message(*LOST)
    which = frames.message("kernel.gpu_lost.which")
    if lost.height and which.height:
        # the three-line form names the GPU two lines above
        named = which.select("source", pl.col("line") + 2, pl.col("pci").alias("above"))
        lost = lost.join(named, on=["source", "line"], how="left")
        told = [c for c in ("pci", "above") if c in lost.columns]
        lost = lost.with_columns(pl.coalesce(told).alias("pci"))
    listed, of_bus = frames.message("nvidia.lspci"), frames.message("kernel.pcie_error")
    if "rev" in listed.columns:
        listed = listed.filter(pl.col("rev") == OFF_BUS)
    if "driver" in of_bus.columns:
        of_bus = of_bus.filter(pl.col("driver").is_in(DRIVERS))
    fatal = frames.message("kernel.sxid")
    if "severity" in fatal.columns:
        # an NVSwitch belongs to all GPUs of its node
        is_fatal = (pl.col("severity") == "Fatal") | (pl.col("grade") == FATAL)
        fatal = fatal.filter(is_fatal).drop("pci")
    parts = [
        xids.filter(pl.col("xid").is_in(list(BROKEN | LINK))),
        _in_columns(lost).with_columns(pl.lit(79, pl.Int64).alias("xid")),
        _in_columns(listed),
        _in_columns(of_bus),
        _in_columns(fatal),
        _in_columns(frames.message(*OF_AMD, *UNUSABLE)),
        _in_columns(frames.message(SILENT)).with_columns(
            pl.lit(119, pl.Int64).alias("xid")
        ),
    ]
    return kernel_log.ranks_on(frames, pl.concat(parts)).select(COLUMNS)


def _in_columns(lines: pl.DataFrame) -> pl.DataFrame:
    types = SCHEMAS["events"] | {"pci": pl.String(), "xid": pl.Int64()}
    return lines.select(
        (pl.col(c) if c in lines.columns else pl.lit(None)).cast(types[c]).alias(c)
        for c in COLUMNS
    )


def _saying(frames: Frames, words: str) -> pl.DataFrame:
    """Return the CUDA errors with these words, in `COLUMNS`."""
    return _in_columns(cuda_errors.saying(frames, words))


def _first(faults: pl.DataFrame) -> pl.DataFrame:
    """Keep the first faults; link errors only follow a fault of a GPU at one end."""
    alone = faults.filter(~pl.col("xid").is_in(list(LINK)).fill_null(False))
    kept = alone if alone.height else faults
    if kept.is_empty() or kept["t"].null_count():
        return kept
    since = (kept["t"] - kept["t"].min()).dt.total_nanoseconds()
    return kept.filter(since < APART_NS)


def _either_end(faults: pl.DataFrame) -> bool:
    links = faults.filter(pl.col("xid").is_in(list(LINK)))
    return links.height == faults.height and links["pci"].n_unique() > 1


def _of_another_day(broken: pl.DataFrame) -> Iterator[Statement]:
    where = common.hosts(broken["host"])
    on = common.on(where)
    why = f"a GPU{on} broke, but a day or more before or after this job"
    yield RuledOut("gpu-fault", why, common.cites(broken, 3))


def _of_another_hour(faults: pl.DataFrame) -> NotChecked:
    where = common.hosts(faults["host"])
    on = common.on(where)
    return NotChecked(
        "gpu-fault",
        f"a GPU{on} broke, but by the clocks not when the job failed: "
        f"{common.cites(faults, 1)[0].source}:{faults['line'][0]}",
        "keep kernel logs whose times name their zone: journalctl -k -o short-iso",
    )


def _contained(frames: Frames) -> Iterator[Finding]:
    """Report an exception that GPUs contained; whose fault it was is not known."""
    lines = _saying(frames, CONTAINED)
    if lines.is_empty():
        return
    hosts = common.hosts(lines["host"])
    hosts = hosts if len(hosts) == 1 else ()
    yield Finding(
        slug="gpu-fault",
        confidence="possible",
        headline=f"a GPU{common.on(hosts)} contained an error of NVLink or hardware",
        evidence=common.cites(lines),
        explanation="CUDA_ERROR_CONTAINED: a GPU's hardware failed, or a process used "
        "the memory of a peer over NVLink that was no longer there. The Xid in the "
        "kernel log of that host tells which.",
        remedy=_remedy(hosts, (), []),
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _tested(frames: Frames) -> Iterator[Finding]:
    """Report tests of DCGM that failed: when the defect arose is not known."""
    failed = frames.message(*TESTS)
    values = {
        name: failed[name] if name in failed.columns else pl.Series([], dtype=pl.String)
        for name in ("test", "which")
    }
    if not any(column.count() for column in values.values()) or awaited.nobody(frames):
        return
    hosts = common.strings(failed["host"])
    gpus = common.strings(values["which"].str.extract_all(r"\d+").explode())
    where = common.on(hosts)
    tests = common.strings(values["test"].filter(values["test"] != "Failure"))
    what = f": {common.some(tests)}" if tests else ""
    yield Finding(
        slug="gpu-fault",
        confidence="possible",
        headline=f"DCGM found a GPU that fails its tests{where}{what}"[:200],
        evidence=common.cites(failed),
        explanation=f"Its tests failed{what}. It is unknown whether the GPU failed "
        f"while the job ran.",
        remedy=_remedy(hosts, (), []),
        hosts=hosts,
        devices=gpus,
    )


def _counted(frames: Frames) -> Iterator[NotChecked]:
    """Tell what nvidia-smi counts against GPUs, which accuses nobody."""
    defects = gpu_state.defects(frames)
    if defects.height:
        yield NotChecked(
            "gpu-fault",
            f"{gpu_state.SHOWN}{gpu_state.told(defects)}",
            "journalctl -k of that host: an Xid 48, 63, 94 or 95 shows when",
        )


def _harmless(xids: pl.DataFrame) -> Iterator[Statement]:
    seen = xids.filter(pl.col("xid").is_in(list(HARMLESS)))
    if seen.height:
        why = "; ".join(f"Xid {n}: {HARMLESS[n]}" for n in common.numbers(seen["xid"]))
        yield RuledOut(
            "gpu-fault", f"no Xid of broken hardware ({why})", common.cites(seen, 3)
        )
