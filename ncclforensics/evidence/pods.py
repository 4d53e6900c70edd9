"""Kubernetes pods: which never started, and on which node each ran.

In a pod the host name is the pod's name, so a pod is the host of its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import placements
from ncclforensics.correlate.identity.placements import PLACED
from ncclforensics.evidence import common

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

NOT_STARTED = "launchers.kubernetes.not_started"
# an event that tells of a pod, or of its container
OF_KUBERNETES = r"^launchers\.(?:kubernetes|kubeflow)\."
# kubelet's files: NAMESPACE_POD_UID/CONTAINER/0.log, POD_NAMESPACE_CONTAINER-ID.log
NAME = r"[a-z0-9][a-z0-9.-]*"
FILES = (
    rf"(?:^|/)(?P<namespace>{NAME})_(?P<name>{NAME})_[0-9a-f-]{{8,}}"
    rf"/(?P<container>{NAME})/\d+\.log",
    rf"(?:^|/)(?P<name>{NAME})_(?P<namespace>{NAME})_(?P<container>{NAME})"
    r"-[0-9a-f]{64}\.log",
)
# a pod of an Indexed Job: its host name, and an end in Kubernetes' random letters
RANDOM = r"^(.+-\d+)-[bcdfghjklmnpqrstvwxz2456789]{5}$"
# why it did not start: no node for it, or not said; and what it lacked
UNPLACED, PENDING = "FailedScheduling", "Pending"
REFUSED = "UnexpectedAdmissionError"  # its node has fewer devices than it was sent for
NO_ROOM, NO_IMAGE = "no-room", "no-image"
# messages that name pods, the first of them the node and the namespace
NAMING = (PLACED, "launchers.kubernetes.started", NOT_STARTED)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, with its namespace, its container and its node as far as they are told."""

    name: str
    namespace: str | None = None
    container: str | None = None
    node: str | None = None


def find(frames: Frames, host: str) -> Pod | None:
    """Return the pod that calls itself `host`, None if nothing shows that it is one."""
    source = frames["sources"].select(file=pl.col("source"))
    files = [source.select(pl.col("file").str.extract_groups(f)) for f in FILES]
    rows = [*(file.unnest("file") for file in files), _prefixes(frames)]
    if (lines := frames.message(*NAMING)).height:
        more = ("namespace", "container", "node", "described", "runs_on")
        there = [pl.col(c) for c in more if c in lines.columns]
        rows.append(lines.select(_pod(lines).alias("name"), *there))
    told = pl.concat(rows, how="diagonal_relaxed")
    name = _named(told["name"].drop_nulls().unique(), host)
    if name is None:
        return None
    rest = told.filter(name=name)
    # these become words of a command, so none may be an option
    known = {c: rest[c].drop_nulls().unique() for c in rest.columns}
    named = {c: v.filter(v.str.contains(f"^{NAME}$")) for c, v in known.items()}
    one = {c: values[0] for c, values in named.items() if values.len() == 1}
    node = one.get("node", one.get("described", one.get("runs_on")))
    return Pod(name, one.get("namespace"), one.get("container"), node)


def not_started(frames: Frames) -> pl.DataFrame:
    """Return the lines on pods that never started, with `pod why state detail`.

    An attempt may fail before a later one succeeds: a pod counts only if nothing shows
    that it started, neither an event nor a line of its own. Without a name, the pod is
    the one that the file describes.
    """
    lines = frames.message(NOT_STARTED)
    if lines.is_empty():
        return lines.with_columns(
            pl.lit(None, pl.String).alias(c) for c in ("pod", "detail", "why", "state")
        )
    began = frames.message("launchers.kubernetes.started")
    # what `kubectl describe` prints of a pod is no word of the pod
    told_of = frames.message("launchers.kubernetes.pod")["source"]
    own = frames["events"].filter(
        ~pl.col("message").str.contains(OF_KUBERNETES)
        & ~pl.col("source").is_in(told_of.implode())
    )
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


def lacked(lines: pl.DataFrame) -> str:
    """Return what pods of `not_started` lacked: a node, an image, or "" if unknown."""
    reasons = {*lines["why"]} - {None}
    states = {*lines.filter(pl.col("why").is_null())["state"]}
    if reasons == {UNPLACED} and states <= {PENDING}:
        return NO_ROOM
    return "" if reasons or states & {PENDING, REFUSED} else NO_IMAGE


def nodes(frames: Frames, pods: tuple[str, ...]) -> str:
    """Return ` Pod a ran on node x.` for the pods whose node is known, else nothing."""
    placed = placements.pods(frames)
    if placed.is_empty():
        return ""
    told = (
        placed.filter(pl.col("pod").is_in(list(pods)))
        .unique("pod", keep="last", maintain_order=True)
        .sort("pod")
    )
    words = [f"{pod} on node {node}" for pod, node in told.iter_rows()]
    return f" Pod {common.some(words)}." if words else ""


def _named(names: pl.Series, host: str) -> str | None:
    """Return the one of some pods' names that a pod with this host name has."""
    indexed = names.filter(names.str.replace(RANDOM, "$1") == host)
    if host in names:
        return host
    return str(indexed[0]) if indexed.len() == 1 else None


def _prefixes(frames: Frames) -> pl.DataFrame:
    """Return `namespace name container` of the pods in front of the logs' lines."""
    told = [frames[name]["in_pod"] for name in ("events", "exits")]
    parts = pl.concat(told).drop_nulls().unique().str.split_exact("/", 2)
    names = ["namespace", "name", "container"]
    return parts.struct.rename_fields(names).struct.unnest()


def _pod(lines: pl.DataFrame) -> pl.Series:
    """Return the pod that each line names, else the pod that its file describes."""
    names = [c for c in ("pod", "pulling", "listed") if c in lines.columns]
    return lines.select(pl.coalesce(*names, "host").alias("pod"))["pod"]
