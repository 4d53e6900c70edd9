"""A GPU lowers its clocks because it is too hot, and its rank falls behind.

What it means
    Above its slowdown temperature, a GPU runs at a fraction of its clocks. Its rank
    computes longer, and all others wait for it in every collective: the job crawls, and
    with a short timeout it dies. Typical causes are dust, a dead fan, a hot aisle or a
    loose power cable.

How we know
    `HW Thermal Slowdown : Active` or `SW Thermal Slowdown : Active` under nvidia-smi's
    `Clocks Event Reasons` (formerly `Clocks Throttle Reasons`). `HW Slowdown` and `HW
    Power Brake Slowdown` count as well, as they halve the clocks. The GPU whose section
    contains the line is named with its host. The same from nvidia-smi's CSV, by the
    column's name or as a bit of `clocks_event_reasons.active` (0x8, 0x20, 0x40, 0x80).
    Or DCGM's `due to thermal violation in GPU N`.

What to do
    Run `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,CLOCK -i GPU` on the named host. Check
    fans, inlet temperature and power supply (`ipmitool sdr type Temperature`). Drain
    the host if its neighbours are cool.

Looks like
    `Not Active` is the healthy state, and `SW Power Cap : Active` is usual under load.
    A slow network slows all ranks alike: `slow-network`.

References
    nvidia-smi, clocks event reasons; NVML nvmlClocksEventReasons.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, profiler_reports
from ncclforensics.model.findings import Finding, RuledOut
from ncclforensics.model.folding import noun
from ncclforensics.theory import slow_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "platform"
NEEDS = ("nvidia.smi.", "nvidia.dcgm.")
MISSING = "no nvidia-smi -q output"
NEXT_TIME = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE of every host while it is slow"
EXPLAINS = ("straggler", "timeout-masking", "slow-network", "slow-rank")
SPREADS = True

THROTTLE, GPU, XML = "nvidia.smi.throttle", "nvidia.smi.gpu", "nvidia.smi.gpu_xml"
CSV = "nvidia.smi.event_csv"
SHARED = ["cause", "pci", "text", "t", "rank", "host", "source", "line"]
DCGM = "nvidia.dcgm.thermal"
BRAKE = "HW Power Brake Slowdown"


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the GPUs that are slowed down."""
    lines = pl.concat(
        [_with_gpu(frames), _listed(frames), _in_xml(frames), _by_dcgm(frames)]
    )
    headers = frames.message(GPU, XML)
    if lines.is_empty():
        if headers.height:
            why = f"nvidia-smi shows no slowdown on {headers.height:,} GPUs"
            yield RuledOut("thermal-throttle", why, common.cites(headers, 2))
        return
    ranks = _ranks(frames, lines)
    hosts = common.hosts(lines["host"]) or common.hosts_of(frames, ranks)
    cards = common.strings(lines["pci"])
    heat = not (lines["cause"] == BRAKE).any() or (
        lines["cause"].str.contains("Thermal").any()
    )
    which = f"{noun(len(cards), 'GPU')} {common.some(cards)}" if cards else "a GPU"
    where = common.on(hosts)
    causes = common.some(common.strings(lines["cause"]))
    gpu, one = cards[0] if cards else "0", len(cards) < 2
    yield Finding(
        slug="thermal-throttle",
        confidence="likely" if heat else "possible",
        headline=f"{which}{where} {'is' if one else 'are'} throttled: {causes}",
        evidence=common.cites(lines),
        explanation=f"{_reporter(frames)} reports {causes} as active for {which}"
        f"{where}. {'Its rank computes' if one else 'Their ranks compute'} longer than "
        f"the others, who wait for {'it' if one else 'them'}.",
        remedy=(
            f"nvidia-smi -q -d PERFORMANCE,TEMPERATURE,CLOCK -i {gpu}"
            + (f"   # on {hosts[0]}" if hosts else ""),
            "ipmitool sdr type Temperature; ipmitool sdr type Fan",
            f"scontrol update NodeName={quote(hosts[0]) if hosts else '$(hostname)'} "
            "State=DRAIN Reason=thermal   # if its neighbours are cool",
        ),
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _reporter(frames: Frames) -> str:
    return "DCGM" if frames.message(DCGM).height else "nvidia-smi"


def _by_dcgm(frames: Frames) -> pl.DataFrame:
    """Return what DCGM's health watch says of hot GPUs, in `SHARED`."""
    lines = frames.message(DCGM)
    if "index" not in lines.columns:
        return _listed(frames).clear()
    return lines.with_columns(
        pl.lit("Thermal violation").alias("cause"),
        pl.col("index").cast(pl.String).alias("pci"),
    ).select(SHARED)


def _with_gpu(frames: Frames) -> pl.DataFrame:
    """Return the slowdown lines in `SHARED`; `pci` is the GPU of their section."""
    lines = frames.message(THROTTLE).sort("line")
    headers = frames.message(GPU)
    if lines.is_empty() or "pci" not in headers.columns:
        no_cause = [] if "cause" in lines.columns else ["cause"]
        return lines.with_columns(
            pl.lit(None, pl.String).alias(c) for c in ("pci", *no_cause)
        ).select(SHARED)
    sections = headers.select("source", "line", "pci").sort("line")
    return lines.join_asof(
        sections, on="line", by="source", check_sortedness=False
    ).select(SHARED)


def _listed(frames: Frames) -> pl.DataFrame:
    """Return the GPUs in nvidia-smi's CSV that lower their clocks, in `SHARED`."""
    lines = frames.message(CSV)
    if "cause" not in lines.columns:
        return (
            lines.clear()
            .with_columns(pl.lit(None, pl.String).alias(c) for c in ("cause", "pci"))
            .select(SHARED)
        )
    name = common.sentence("GPU ", pl.col("index").cast(pl.String))
    return (
        lines.drop_nulls("cause")
        .with_columns(
            pl.coalesce("pci", name.str.slice(4)).alias("pci"),
            pl.col("gpu_line").alias("text"),
            pl.col("line") + pl.col("below"),
        )
        .select(SHARED)
    )


def _in_xml(frames: Frames) -> pl.DataFrame:
    """Return the GPUs in nvidia-smi's XML that lower their clocks, in `SHARED`."""
    lines = frames.message(XML)
    if "cause" not in lines.columns:
        return _listed(frames).clear()
    return lines.drop_nulls("cause").select(SHARED)


def _ranks(frames: Frames, lines: pl.DataFrame) -> tuple[int, ...]:
    """Return the ranks that run on these GPUs, by host and bus id.

    Else the ranks that are slow, if there are as many, on that host or of that number.
    """
    hot = lines.drop_nulls("pci").select("host", "pci", _packed().alias("bus_id"))
    named = hot.drop_nulls("host").unique()
    mine = frames["ranks"].join(named, on=["host", "bus_id"], how="semi")
    slow = _slow(frames) if mine.is_empty() else ()
    hosts, known = common.hosts_of(frames, slow), common.hosts(hot["host"])
    alike = common.strings(hot["pci"]) == tuple(sorted(map(str, slow)))
    there = hosts == known if hosts and known else alike
    if there and len(slow) == hot["bus_id"].n_unique():
        return slow
    return common.numbers(mine["rank"])


def _slow(frames: Frames) -> tuple[int, ...]:
    told = slow_ranks.slow(frames)
    if told is not None:
        return told.ranks
    by_word = profiler_reports.by_word(frames)
    return () if by_word is None else by_word.ranks


def _packed() -> pl.Expr:
    """Convert `00000000:9B:00.0` to NCCL's form: `9b000`, without leading zeros."""
    digits = pl.col("pci").str.replace_all(r"[:.]", "").str.to_lowercase()
    return digits.str.strip_chars_start("0")
