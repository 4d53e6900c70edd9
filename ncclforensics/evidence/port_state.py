"""What tools show of a host's ports: a state or a count, and not when it arose.

Many cards have ports that nobody uses, and every link counts some errors. So it accuses
nobody: it is told where nothing else is known, and beside what failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model.tables import SCHEMAS, with_nulls, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

PORTS = (
    *("rdma.ports", "rdma.link", "rdma.linkinfo", "rdma.counter"),
    *("rdma.query_errors", "rdma.mlxlink", "system.mtu"),
)
LINK = "kernel.nic_link"
TEXTS = (
    *("hca", "hca_id", "interface", "pci", "state", "width", "could", "counter"),
    *("advice", "words"),
)
NUMBERS = ("port", "count")
SHARED = ("text", "host", "hca", "words", "source", "line")
WELL = "No issue was observed"
LIVE = ("ACTIVE", "UP", "UNKNOWN")  # states of a port, or of an interface
DOWN = "(?i)down|unplugged"
# interfaces of the host itself, for containers and virtual machines
INNER = r"^(?:lo|docker|br-|virbr|veth|cni|flannel|cali|tun|tap)"
MOST = 4  # ports that are told
SHOWN = "a tool or the kernel shows, maybe of another time: "


def defects(frames: Frames) -> pl.DataFrame:
    """Return what is odd, in SHARED, per card of a host; `words` say what."""
    lines = pl.concat([frames.message(*PORTS), _down(frames)], how="diagonal_relaxed")
    types = SCHEMAS["events"] | dict.fromkeys(TEXTS, pl.String())
    types |= dict.fromkeys(NUMBERS, pl.Int64())
    if lines.is_empty():
        return without_rows({c: types[c] for c in SHARED})
    lines = with_nulls(lines, types)
    port = pl.coalesce(common.sentence("port ", pl.col("port")), pl.lit("a port"))
    parts = (
        pl.when(pl.col("message") == LINK)
        .then(pl.lit("its link went down"))
        .when(~pl.col("state").is_in(LIVE))
        .then(common.sentence(port, " is ", pl.col("state"))),
        pl.when(pl.col("could").is_not_null()).then(
            common.sentence(
                port, " is ", pl.col("width"), ", could be ", pl.col("could")
            )
        ),
        pl.when(pl.col("count") > 0).then(
            common.sentence(pl.col("counter"), " ", pl.col("count"))
        ),
        pl.when(pl.col("advice") != WELL).then("advice"),
    )
    words = pl.concat_str(parts, separator=", ", ignore_nulls=True)
    card = pl.coalesce("hca", "hca_id", "interface", "pci").alias("hca")
    odd = lines.with_columns(words.alias("words"), card).filter(
        (pl.col("words") != "") & ~pl.col("hca").fill_null("").str.contains(INNER)
    )
    return (
        odd.group_by("host", "hca", "source", maintain_order=True)
        .agg(
            pl.col("text", "line").first(),
            pl.col("words").unique(maintain_order=True).str.join(", "),
        )
        .select(SHARED)
    )


def _down(frames: Frames) -> pl.DataFrame:
    """Return the last line of the kernel on each port, if the port went down."""
    lines = frames.message(LINK)
    if "state" not in lines.columns:
        return lines.clear()
    last = lines.unique(["source", "host", "pci"], keep="last", maintain_order=True)
    return last.filter(pl.col("state").str.contains(DOWN)).drop("port", strict=False)


def told(lines: pl.DataFrame) -> str:
    """Return `mlx5_2 on gpu0045: port 1 is DOWN; …` of some defects."""
    return "; ".join(
        f"{hca or 'a card'}" + (f" on {host}" if host else "") + f": {words}"
        for hca, host, words in lines.select("hca", "host", "words").head(MOST).rows()
    )
