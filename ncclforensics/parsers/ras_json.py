"""Parser for `ncclras -f json` of NCCL 2.28 to 2.30: members of all communicators.

`{"communicators": [{"hash", "size", "ranks": [{"rank", "host", "pid", "cuda_dev",
"collective_counts": {op: calls}}], "missing_ranks": [{…, "status": {…}}]}]}`, as
`src/ras/client_support.cc` prints it. 2.28.9 omits a comma between two keys of a
missing rank. The rows equal those parsed from the client's text output.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RAS_BYTES
from ncclforensics.parsers.logs import timestamps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.sources import Source

_NO_COMMA = re.compile(rb'(["\d\]}el])(\s*\n\s*"[^"\n]*"\s*:)')
CAPTURES = {
    "comm_id": pl.String(),
    "kind": pl.String(),
    "op": pl.String(),
    "operation": pl.Int64(),
    "ranks": pl.Int64(),
    "comm_rank": pl.Int64(),
    "gpu": pl.String(),
    "process": pl.Int64(),
    "node": pl.String(),
    "gpus": pl.Int64(),
}


@dataclass(frozen=True, slots=True)
class Report:
    """Content of one report: its time, and (message id, captures) in order."""

    timestamp: str
    rows: Sequence[tuple[str, dict[str, Any]]]


def read(source: Source) -> Frames:
    """Parse one status report into the messages `ncclras.*` and `events`.

    A source that cannot be parsed yields a row of `notes` instead.
    """
    report = content(source)
    if isinstance(report, str):
        note = {"stage": "parsers", "text": report, "source": source.name}
        return Frames({"notes": tables.rows("notes", [note])})
    return frames(source, report)


def content(source: Source) -> Report | str:
    """Return the content of a source, or the reason why it is not a report."""
    try:
        data = documents.whole(source, MAX_RAS_BYTES)
        told = _decoded(data)
        return Report(str(told.get("timestamp")), list(_messages(told)))
    except documents.DAMAGE as error:
        return f"not a status report of ncclras: {error}"


def frames(source: Source, report: Report) -> Frames:
    """Return `events` and the frame of each message of a report."""
    stamp = pl.DataFrame({"stamp": [report.timestamp]})
    t = stamp.select(timestamps.absolute("stamp")).to_series()[0]
    messages: dict[str, pl.DataFrame] = {}
    for name in dict.fromkeys(name for name, _ in report.rows):
        rows = [row for key, row in report.rows if key == name]
        captured = pl.DataFrame(rows, schema=CAPTURES, strict=False)
        event = {
            "message": name,
            "role": "neutral",
            "text": "a communicator in the status report of ncclras",
            "source": source.name,
            "line": 1,
        }
        events = tables.rows("events", [event]).with_columns(
            pl.lit(t).cast(tables.TIME).alias("t")
        )
        messages[name] = events.join(captured, how="cross")
    columns = list(tables.SCHEMAS["events"])
    parts = [frame.select(columns).unique() for frame in messages.values()]
    return Frames({"events": pl.concat(parts)} if parts else {}, messages)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        found = msgspec.json.decode(_NO_COMMA.sub(rb"\1,\2", data))
    if not isinstance(found, dict):
        raise TypeError("the report is not an object")
    return found


def _messages(told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (message id, captures) of each inconsistent communicator, then the job."""
    processes = set()
    for comm in told["communicators"]:
        comm_id = str(comm["hash"]).removeprefix("0x")
        members, missing = comm.get("ranks") or [], comm.get("missing_ranks") or []
        processes |= {
            (m["host"], m["pid"], m.get("cuda_dev")) for m in members + missing
        }
        yield from (("ncclras.mismatch", r) for r in _behind(comm_id, members))
        for member in missing:
            row = {"comm_id": comm_id, "kind": "missing", **_who(member)}
            yield "ncclras.incomplete", row
            if (member.get("status") or {}).get("considered_dead"):
                yield "ncclras.dead", {**row, "kind": "process"}
    yield "ncclras.job", {"gpus": len(processes)}


def _behind(comm_id: str, members: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the counts of each operation whose count differs between members."""
    names = dict.fromkeys(op for m in members for op in m["collective_counts"])
    for op in names:
        counts = Counter(_number(m["collective_counts"].get(op, 0)) for m in members)
        if len(counts) < 2:
            continue
        shared = {"comm_id": comm_id, "kind": "count", "op": op}
        for operation, ranks in sorted(counts.items(), reverse=True):
            yield {**shared, "operation": operation, "ranks": ranks}
        for member in members:
            operation = _number(member["collective_counts"].get(op, 0))
            if operation < max(counts):
                yield {**shared, "operation": operation, **_who(member)}


def _who(member: dict[str, Any]) -> dict[str, Any]:
    return {
        "comm_rank": _number(member["rank"]),
        "gpu": str(member.get("cuda_dev")),
        "process": _number(member["pid"]),
        "node": str(member["host"]),
    }


def _number(told: Any) -> int:
    """Read a count or an id; raises ValueError if it exceeds 2^62."""
    number = int(told)
    if abs(number) > 2**62:
        raise ValueError(f"a number of {number.bit_length()} bits")
    return number
