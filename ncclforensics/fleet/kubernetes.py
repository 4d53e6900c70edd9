"""Pods of a selector, by kubectl: a pod is a node, and `kubectl exec -i` runs there.

A pod that does not run is not asked; its phase is what is known. The pods themselves
go into the folder as well, as far as the analysis reads them: without annotations,
commands and unknown variables, where secrets may stand.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ncclforensics.fleet.nodes import PYTHON, Node, listed, once
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

Object = dict[str, Any]
CONTAINER = "kubectl.kubernetes.io/default-container"
# the variables of a pod that say who it is
_SAFE = re.compile(
    r"(?:GLOBAL_|LOCAL_|NODE_|GROUP_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)"
)


def pods(selector: str, namespace: str | None) -> list[Object]:
    """Return the pods that a selector matches; UsageError if there is none."""
    where = () if namespace is None else ("--namespace", namespace)
    command = ("kubectl", "get", "pods", f"--selector={selector}", *where)
    try:
        found = json.loads(listed((*command, "--output=json")))["items"]
    except (ValueError, KeyError, TypeError) as caught:
        raise UsageError("kubectl get pods printed no list of pods") from caught
    if not found:
        raise UsageError(f"no pod matches {selector}")
    return list(found)


def nodes(found: Sequence[Object], arguments: Sequence[str] = ()) -> list[Node]:
    """Return a node for each pod; one that does not run has a reason in `why_not`."""
    return once(_node(pod, arguments) for pod in found)


def _node(pod: Object, arguments: Sequence[str]) -> Node:
    meta, status = pod["metadata"], pod.get("status") or {}
    phase = status.get("phase", "Unknown")
    if phase != "Running":
        why = status.get("reason") or _waiting(status)
        return Node(meta["name"], (), f"{phase}, {why}" if why else phase)
    named = (meta.get("annotations") or {}).get(CONTAINER)
    container = named or pod["spec"]["containers"][0]["name"]
    where = ("--namespace", meta["namespace"], "--container", container)
    reach = ("kubectl", "exec", "--stdin", *where, meta["name"], "--")
    return Node(meta["name"], (*reach, *PYTHON, *arguments))


def _waiting(status: Object) -> str:
    """Return why the first waiting container waits, "" if none does."""
    for container in status.get("containerStatuses") or ():
        if reason := ((container.get("state") or {}).get("waiting") or {}).get(
            "reason"
        ):
            return str(reason)
    return ""


def told(found: Sequence[Object]) -> bytes:
    """Return the pods as a list in JSON that holds no secret, for the parsers."""
    items = [_told(pod) for pod in found]
    head = {"apiVersion": "v1", "items": items, "kind": "PodList"}
    return json.dumps(head, indent=1).encode()


def _told(pod: Object) -> Object:
    spec, meta = pod.get("spec") or {}, pod["metadata"]
    kept = ("name", "namespace", "creationTimestamp", "deletionTimestamp")
    return {
        "kind": "Pod",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [_container(one) for one in spec.get("containers") or ()],
        },
        "status": pod.get("status") or {},
    }


def _container(container: Object) -> Object:
    env = container.get("env") or ()
    return {
        "name": container.get("name"),
        "image": container.get("image"),
        "env": [e for e in env if _SAFE.fullmatch(e.get("name", "")) and "value" in e],
        "resources": container.get("resources") or {},
    }
