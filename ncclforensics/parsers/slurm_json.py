"""Parser for Slurm's `--json`: sacct, squeue, `scontrol show job`, sinfo, `show node`.

`{"jobs": [{"job_id", "state": {"current", "reason"}, "time": {"end"}, "nodes", …}]}` of
the accounting, `{"jobs": [{"job_id", "job_state", "state_reason", "end_time", …}]}` of
the controller, `{"nodes": [{"name", "state", "reason", "reason_changed_at", …}]}`. From
23.02 on a state is a list, and a number an object (`{"set": true, "number": 5}`). The
rows equal those of scontrol's text: `slurm.state` and `slurm.node`. Real: 22.05; newer
shapes are rendered from the OpenAPI specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.hostlist import expanded
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RAS_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.sources import Source

STATE, NODE = "slurm.state", "slurm.node"
# states of the grammar's message `slurm.state`: the job ended, and not by itself
ENDED = (
    *("NODE_FAIL", "PREEMPTED", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"),
    *("CANCELLED", "FAILED"),
)
CAPTURES = {
    "state": pl.String(),
    "reason": pl.String(),
    "when": pl.String(),
    "nodes": pl.List(pl.String()),
    "node_state": pl.String(),
    "by": pl.String(),
    "job": pl.String(),
}
OWN = ("text", "host", "line")
Row = dict[str, Any]


def read(source: Source) -> Frames:
    """Parse one document into the messages `slurm.state`, `slurm.node`, and `events`.

    `line` counts the jobs or nodes. A source that cannot be parsed yields a row of
    `notes` instead.
    """
    try:
        data = documents.whole(source, MAX_RAS_BYTES)
        told = msgspec.json.decode(data)
        jobs, nodes = told.get("jobs") or [], told.get("nodes") or []
        rows = {STATE: list(_jobs(jobs)), NODE: list(_nodes(nodes))}
    except documents.DAMAGE as error:
        return documents.damaged(source, f"not output of Slurm: {error}")
    return frames(source, {name: found for name, found in rows.items() if found})


def frames(source: Source, rows: dict[str, list[Row]]) -> Frames:
    """Return `events` and the frame of each message; `rows` is by message id."""
    messages = {}
    for name, found in rows.items():
        own = {
            "message": name,
            "role": "either" if name == STATE else "neutral",
            "source": source.name,
        }
        seconds = pl.Series("t", [row.pop("seconds") for row in found], pl.Int64())
        events = [{**own, **{c: row.pop(c) for c in OWN}} for row in found]
        t = (seconds * 1_000_000_000).cast(tables.TIME)
        whole = tables.rows("events", events).with_columns(t)
        captured = pl.DataFrame(found, schema=CAPTURES, strict=False)
        messages[name] = whole.hstack(captured)
    columns = list(tables.SCHEMAS["events"])
    parts = [frame.select(columns) for frame in messages.values()]
    return Frames({"events": pl.concat(parts)} if parts else {}, messages)


def _jobs(jobs: list[Row]) -> Iterator[Row]:
    """Yield a row for each job that ended, and not by itself."""
    for line, job in enumerate(jobs, 1):
        accounted = job.get("state")
        current = accounted["current"] if accounted else job["job_state"]
        states = [str(state) for state in _listed(current)]
        state = next((state for state in ENDED if state in states), None)
        if state is None:
            continue
        reason = accounted.get("reason") if accounted else job.get("state_reason")
        by = str(job.get("kill_request_user") or "") or None
        end = job["time"].get("end") if "time" in job else job.get("end_time")
        told = f"JobId={job['job_id']} JobState={state} Reason={reason}"
        yield {
            "state": state,
            "reason": str(reason) if reason else None,
            "nodes": expanded(str(job.get("nodes") or "")),
            "by": by,
            "job": str(job["job_id"]),
            "host": None,
            "line": line,
            "seconds": _number(end),
            "text": f"{told}, cancelled by {by}" if by else told,
        }


def _nodes(nodes: list[Row]) -> Iterator[Row]:
    """Yield a row for each node with a reason."""
    for line, node in enumerate(nodes, 1):
        states = [*_listed(node["state"]), *_listed(node.get("state_flags"))]
        state = "+".join(str(state).upper() for state in states)
        if not (reason := str(node.get("reason") or "")):
            continue
        by = node.get("reason_set_by_user")
        yield {
            "node_state": state,
            "reason": reason,
            "by": str(by) if by else None,
            "host": str(node["name"]),
            "line": line,
            "seconds": _number(node.get("reason_changed_at")),
            "text": f"NodeName={node['name']} State={state} Reason={reason} [{by}]",
        }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _number(value: Any) -> int | None:
    """Read seconds since 1970, also as an object; 0 and unset are None."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    return int(value) if value and 0 < int(value) < 1 << 33 else None
