"""Parser for a JSON document that tells on which host each rank runs.

People write one beside their logs: `nodes.json`, `topology.json`, `hosts.json`; see
`model/placed_ranks.py` for the forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.placed_ranks import placed
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RAS_BYTES

if TYPE_CHECKING:
    from ncclforensics.sources import Source

MESSAGE = "placement.json"


def read(source: Source) -> Frames:
    """Parse one document: MESSAGE has a row for each rank, `first`, `on` and `turn`.

    Its line is the first one that names the host. A source that cannot be parsed yields
    a row of `notes`.
    """
    try:
        data = documents.whole(source, MAX_RAS_BYTES)
        places = placed(msgspec.json.decode(data))
    except documents.DAMAGE as error:
        return documents.damaged(source, f"no list of ranks and hosts: {error}")
    text = data.decode("utf-8", "replace")
    lines = {
        host: text.count("\n", 0, text.find(f'"{host}"')) + 1
        for host in {place.host for place in places}
    }
    own = {"message": MESSAGE, "role": "neutral", "source": source.name}
    rows = [
        {**own, "line": lines[p.host], "text": f"rank {p.rank} on {p.host}"}
        for p in places
    ]
    events = tables.rows("events", rows)
    captured = events.with_columns(
        pl.Series("first", [p.rank for p in places], pl.Int64),
        pl.Series("on", [p.host for p in places], pl.String),
        pl.Series("turn", [p.local for p in places], pl.Int64),
    )
    return Frames({"events": events}, {MESSAGE: captured})
