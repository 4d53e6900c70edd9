"""Parser for `fleet.json`: which nodes `collect` asked, and which did not answer.

`{"ncclforensics_fleet": 1, "by": "ssh", "limit_s": 60, "nodes": [{"node", "kind",
"why", "host", …}]}`, as `fleet/manifest.py` writes it. A silent node is a row of
`fleet.silent`, its reason a capture and no text: an error of ssh is none of the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.folding import count, name_hosts
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RAS_BYTES

if TYPE_CHECKING:
    from ncclforensics.sources import Source

SILENT = "fleet.silent"
TOLD = {
    "silent": "did not answer",
    "part": "sent a part only",
    "refused": "sent nothing",
    "unasked": "had not answered when it was ended",
}


def read(source: Source) -> Frames:
    """Parse one manifest into SILENT, `events`, and a note for each kind of failure.

    `line` counts the nodes. A source that cannot be parsed yields a row of `notes`.
    """
    try:
        told = msgspec.json.decode(documents.whole(source, MAX_RAS_BYTES))
        nodes = [
            {
                "line": line,
                "host": str(node.get("host") or node["node"]),
                "kind": str(node["kind"]),
                "why": str(node.get("why") or ""),
            }
            for line, node in enumerate(told["nodes"], 1)
        ]
        limit = float(told["limit_s"])
    except documents.DAMAGE as error:
        return documents.damaged(source, f"no manifest of collected nodes: {error}")
    notes = [
        _note(source, kind, [n for n in nodes if n["kind"] == kind], len(nodes))
        for kind in TOLD
        if any(n["kind"] == kind for n in nodes)
    ]
    frames = {"notes": tables.rows("notes", notes)}
    silent = [node for node in nodes if node["kind"] == "silent"]
    if not silent:
        return Frames(frames)
    own = {"message": SILENT, "role": "neutral", "source": source.name}
    text = f"did not answer within {limit:g} s"
    rows = [
        {**own, "host": n["host"], "line": n["line"], "text": f"{n['host']} {text}"}
        for n in silent
    ]
    events = tables.rows("events", rows)
    captured = events.with_columns(
        pl.Series("why", [n["why"] for n in silent], pl.String),
        pl.lit(limit).alias("limit_s"),
        pl.lit(len(nodes)).alias("asked"),
    )
    return Frames({**frames, "events": events}, {SILENT: captured})


def _note(
    source: Source, kind: str, nodes: list[dict[str, Any]], asked: int
) -> dict[str, object]:
    who = name_hosts([node["host"] for node in nodes])
    reasons = sorted({node["why"] for node in nodes} - {""})
    why = f": {'; '.join(reasons[:3])}" if reasons else ""
    text = f"{len(nodes):,} of {count(asked, 'node')} {TOLD[kind]}: {who}{why}"
    return {"stage": "parsers", "text": text, "source": source.name}
