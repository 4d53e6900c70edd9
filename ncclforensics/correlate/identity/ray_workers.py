"""The processes of Ray's workers: `(RayTrainWorker pid=4012) …` names no host.

Ray leaves out the address of the node on which the driver runs, and tells it in its
table of workers: `- (ip=10.0.0.1, pid=4012) world_rank=2, …`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

WORKER = "launchers.ray.worker"


def placed(frames: Frames) -> Frames:
    """Return `frames` in which lines of a listed process have the host of the table.

    Only those of the table's own stream that name no host: other files may be of other
    nodes, on which other processes have these numbers.
    """
    listed = _listed(frames)
    if listed.is_empty():
        return frames
    key = ["source", "pid"]

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if not {*key, "host"} <= set(frame.columns) or frame["pid"].count() == 0:
            return frame
        joined = frame.join(listed, on=key, how="left", maintain_order="left")
        return joined.with_columns(pl.coalesce("host", "_host").alias("host")).drop(
            "_host"
        )

    return frames.each(fill)


@needing(
    WORKER,
    otherwise={"source": pl.String(), "pid": pl.Int64(), "_host": pl.String()},
)
def _listed(frames: Frames) -> pl.DataFrame:
    """Return `source pid _host`: the processes that one host of a table has."""
    told = frames.message(WORKER).select("source", "pid", pl.col("host").alias("_host"))
    return told.drop_nulls().unique().unique(["source", "pid"], keep="none")
