"""What a vendor's tool counts against a GPU: it shows a state, and not when it arose.

So it accuses no rank. Beside an Xid of the same GPU it is a witness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, kernel_log
from ncclforensics.model.tables import SCHEMAS, with_nulls, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

GPUS = (
    *("nvidia.smi.gpu", "nvidia.smi.gpu_xml", "nvidia.smi.row", "nvidia.smi.nvlink"),
    *("amd.smi.gpu", "amd.smi.xgmi", "amd.smi.ras", "nvidia.lspci"),
)
NUMBERS = (
    *("uncorrectable", "width", "width_max", "index", "xgmi", "unread", "inactive"),
    "link_errors",
)
SHARED = ("text", "t", "rank", "host", "source", "line", "pci", "words")
TYPES = SCHEMAS["events"] | dict.fromkeys(("pci", "words"), pl.String())
WORDS = ("pci", "remap")
TOLD = ("pci", "host", "rank", "words")  # `pci`: the address, else the number
MOST = 4  # GPUs that are told
SHOWN = "the vendor's tool shows, but not since when: "


def defects(frames: Frames) -> pl.DataFrame:
    """Return the GPUs that have a defect, in SHARED; `words` say which.

    `rank` is the one that ran on the GPU, if the evidence shows it.
    """
    lines = frames.message(*GPUS)
    if lines.is_empty():
        return without_rows({c: TYPES[c] for c in SHARED})
    types = dict.fromkeys(NUMBERS, pl.Int64()) | dict.fromkeys(WORDS, pl.String())
    lines = with_nulls(lines, types)
    narrow = pl.col("width") < pl.col("width_max")
    count = pl.col("uncorrectable")
    parts = (
        pl.when(count > 0).then(
            common.sentence(count, " uncorrectable memory errors since driver load")
        ),
        pl.when(pl.col("remap").is_not_null()).then(
            common.sentence("remapping of memory rows ", pl.col("remap"))
        ),
        pl.when(narrow).then(
            common.sentence(
                "a PCIe link of ", pl.col("width"), " lanes, not ", pl.col("width_max")
            )
        ),
        pl.when(pl.col("xgmi") > 0).then(pl.lit("errors of its XGMI links")),
        pl.when(pl.col("unread") > 0).then(pl.lit("ERR! for what cannot be read")),
        pl.when(pl.col("inactive") > 0).then(
            common.sentence(pl.col("inactive"), " NVLinks inactive")
        ),
        pl.when(pl.col("link_errors") > 0).then(
            common.sentence(pl.col("link_errors"), " errors of its NVLinks")
        ),
    )
    words = pl.concat_str(parts, separator=", ", ignore_nulls=True)
    odd = lines.with_columns(words.alias("words")).filter(pl.col("words") != "")
    named = pl.coalesce("pci", pl.col("index").cast(pl.String()))
    return kernel_log.ranks_on(frames, odd).with_columns(named).select(SHARED)


def told(lines: pl.DataFrame) -> str:
    """Return `GPU 00000000:9B:00.0 on gpu0002 (rank 1): …` of some defects."""
    return "; ".join(
        f"GPU {pci}"
        + (f" on {host}" if host else "")
        + (f" (rank {rank})" if rank is not None else "")
        + f": {words}"
        for pci, host, rank, words in lines.select(TOLD).head(MOST).iter_rows()
    )
