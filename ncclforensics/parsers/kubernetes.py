"""Parser for Kubernetes objects: pods and events, as `kubectl get -o json|yaml` prints.

Each state of a pod and each event is written as the line that `kubectl get events` or
`kubectl get pods` shows for it, and these lines are read like a log: so an object and a
table give the same rows. `-o yaml` needs PyYAML. Other objects, and a document that is
damaged, are read as plain text. Rendered from the API reference (core/v1 Pod, Event).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RAS_BYTES
from ncclforensics.parsers.logs import log_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.sources import Source

Object = dict[str, Any]
NEVER_STARTED = (
    *("ImagePullBackOff", "ErrImagePull", "InvalidImageName"),
    *("CreateContainerConfigError", "CreateContainerError"),
)
STATUSES = ("initContainerStatuses", "containerStatuses")
GPUS = ("nvidia.com/gpu", "amd.com/gpu")


def read(source: Source) -> Frames:
    """Parse pods and events into the messages `launchers.kubernetes.*` and `ranks`."""
    try:
        data = documents.whole(source, MAX_RAS_BYTES)
        found = [item for one in _documents(data) for item in _items(one)]
        lines = [line for item in found for line in _lines(item)]
        ranks = [rank for item in found if (rank := _rank(item)) is not None]
    except (*documents.DAMAGE, ImportError):
        return log_reader.read(source)
    if not lines:
        return log_reader.read(source)
    text = "".join(f"{_one_line(line)}\n" for line in lines).encode()
    read_lines = _at_first_line(log_reader.of_text(source, text))
    claims = [{**rank, "source": source.name, "line": 1} for rank in ranks]
    return join([read_lines, Frames({"ranks": tables.rows("ranks", claims)})])


def _documents(data: bytes) -> list[Object]:
    """Return the objects of a JSON document, or of all documents of a YAML file.

    Raises ValueError on damage, ImportError without PyYAML.
    """
    if data.lstrip()[:1] == b"{":
        return [json.loads(data)]
    import yaml  # type: ignore[import-untyped]

    # every scalar a string: a time stays as printed
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return [one for one in yaml.load_all(data, loader) if isinstance(one, dict)]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _items(document: Object) -> Iterator[Object]:
    """Yield the pods and events of an object or list; items may lack their kind."""
    kind = str(document["kind"])
    if kind.endswith("List"):
        for item in document.get("items") or []:
            yield {"kind": kind.removesuffix("List"), **item}
    else:
        yield document


def _lines(item: Object) -> Iterator[str]:
    if item["kind"] == "Event":
        about = item.get("involvedObject") or item.get("regarding") or {}
        at = next(
            (item[c] for c in ("lastTimestamp", "eventTime", "firstTimestamp")
             if item.get(c) and item[c] != "null"),
            "",
        )  # fmt: skip
        message = item.get("message") or item.get("note") or ""
        about_what = f"{str(about.get('kind', '')).lower()}/{about.get('name')}"
        yield f"{at} {item.get('type')}  {item.get('reason')}  {about_what}  {message}"
    elif item["kind"] == "Pod":
        yield from _of_pod(item)


def _of_pod(pod: Object) -> Iterator[str]:
    meta, status = pod["metadata"], pod.get("status") or {}
    name, phase = meta["name"], status.get("phase")
    if node := (pod.get("spec") or {}).get("nodeName"):
        full = f"{space}/{name}" if (space := meta.get("namespace")) else name
        assigned = f"Successfully assigned {full} to {node}"
        yield f"Normal  Scheduled  pod/{name}  {assigned}"
    if meta.get("deletionTimestamp") and phase in ("Running", "Pending"):
        told = f'deletionTimestamp: "{meta["deletionTimestamp"]}"'
        yield f"Normal  Terminating  pod/{name}  {told}"
    if status.get("reason") == "NodeLost":
        told = f"Node {node} status is now: NodeNotReady"
        yield f"Warning  NodeNotReady  pod/{name}  {told}"
    elif status.get("reason"):
        told = status.get("message") or f"reason: {status['reason']}"
        yield f"Warning  {status['reason']}  pod/{name}  {told}"
    for condition in status.get("conditions") or []:
        yield from _of_condition(name, condition)
    for field in STATUSES:
        for container in status.get(field) or []:
            yield from _of_container(name, container, phase)


def _of_condition(name: str, condition: Object) -> Iterator[str]:
    kind, reason = condition.get("type"), condition.get("reason")
    at, told = condition.get("lastTransitionTime") or "", condition.get("message") or ""
    if kind == "PodScheduled" and reason == "Unschedulable":
        yield f"{at} Warning  FailedScheduling  pod/{name}  {told or reason}"
    elif kind == "DisruptionTarget" and str(condition.get("status")) == "True":
        yield f"{at} Warning  DisruptionTarget  pod/{name}  reason: {reason} {told}"


def _of_container(name: str, container: Object, phase: object) -> Iterator[str]:
    now = container.get("state") or {}
    for state in (now, container.get("lastState") or {}):
        if ended := state.get("terminated"):
            at, code = ended.get("finishedAt") or "", ended.get("exitCode")
            if ended.get("reason") == "OOMKilled":
                yield f"{at} {name}  0/1  OOMKilled"
            elif str(code) not in ("0", "None"):
                told = f"container {container.get('name')} exitCode: {code}"
                yield f"{at} pod {name} {told} terminated message:"
    waiting = (now.get("waiting") or {}).get("reason")
    if waiting in NEVER_STARTED and phase == "Pending":
        yield f"{name}  0/1  {waiting}"
    if "running" in now:
        yield f"Normal  Started  pod/{name}  Started container {container.get('name')}"


def _rank(item: Object) -> Object | None:
    """Return the rank of a pod with one container and at most one GPU, from its `RANK`.

    With several GPUs an agent may start several ranks: `RANK` is then the node's.
    """
    containers = (item.get("spec") or {}).get("containers") or []
    if item["kind"] != "Pod" or len(containers) != 1:
        return None
    limits = (containers[0].get("resources") or {}).get("limits") or {}
    values = {
        env.get("name"): env.get("value") for env in containers[0].get("env") or []
    }
    rank = str(values.get("RANK") or "")
    one_gpu = [str(limits[gpu]) for gpu in GPUS if gpu in limits] == ["1"]
    if not one_gpu or not re.fullmatch(r"\d{1,6}", rank):
        return None
    return {"rank": int(rank), "host": str(item["metadata"]["name"])}


def _one_line(text: str) -> str:
    return " ".join(text.replace("\r", "\n").split("\n")).strip()


def _at_first_line(frames: Frames) -> Frames:
    """Cite line 1: the lines that were read stand in no file."""

    def first(frame: pl.DataFrame) -> pl.DataFrame:
        if "line" not in frame.columns:
            return frame
        return frame.with_columns(pl.lit(1, pl.Int64).alias("line"))

    return frames.each(first)
