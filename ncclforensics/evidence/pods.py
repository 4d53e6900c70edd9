"""Kubernetes pods: which never started, and on which node each ran.

In a pod the host name is the pod's name, so a pod is the host of its ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

NOT_STARTED = "launchers.kubernetes.not_started"
PLACED = "launchers.kubernetes.placed"
# an event that tells of a pod, or of its container
OF_KUBERNETES = r"^launchers\.(?:kubernetes|kubeflow)\."


def not_started(frames: Frames) -> pl.DataFrame:
    """Return the lines on pods that never started, with `pod` and `detail`.

    An attempt may fail before a later one succeeds: a pod counts only if nothing shows
    that it started, neither an event nor a line of its own. Without a name, the pod is
    the one that the file describes.
    """
    lines = frames.message(NOT_STARTED)
    if lines.is_empty():
        return lines.with_columns(
            pl.lit(None, pl.String).alias(c) for c in ("pod", "detail")
        )
    began = frames.message("launchers.kubernetes.started")
    own = frames["events"].filter(~pl.col("message").str.contains(OF_KUBERNETES))
    alive = pl.concat([_pod(began), own["host"]]).drop_nulls()
    told = lines.with_columns(
        _pod(lines).alias("pod"), pl.coalesce("detail", "pull", "state").alias("detail")
    )
    # events of one pod alone name none
    nameless = began.filter(_pod(began).is_null())["source"]
    return told.filter(
        ~pl.col("pod").is_in(alive.implode()).fill_null(False)
        & ~(pl.col("pod").is_null() & pl.col("source").is_in(nameless.implode()))
    )


def nodes(frames: Frames, pods: tuple[str, ...]) -> str:
    """Return ` Pod a ran on node x.` for the pods whose node is known, else nothing."""
    lines = frames.message(PLACED)
    if lines.is_empty() or not pods:
        return ""
    told = (
        lines.select(
            _pod(lines).alias("pod"), pl.coalesce("node", "described").alias("node")
        )
        .drop_nulls()
        .filter(pl.col("pod").is_in(list(pods)))
        .unique("pod", keep="last", maintain_order=True)
        .sort("pod")
    )
    words = [f"{pod} on node {node}" for pod, node in told.iter_rows()]
    return f" Pod {common.some(words)}." if words else ""


def _pod(lines: pl.DataFrame) -> pl.Series:
    """Return the pod that each line names, else the pod that its file describes."""
    names = [c for c in ("pod", "pulling", "listed") if c in lines.columns]
    return lines.select(pl.coalesce(*names, "host").alias("pod"))["pod"]
