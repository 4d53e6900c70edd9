"""Parser for the environment of a process: `env`, /proc/PID/environ, `collect`.

One variable a line, or between NUL bytes. Its own RANK says whose it is. All of it is
there, so a variable that is not in it was not set, which no log line ever says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RANK, MAX_RAS_BYTES

if TYPE_CHECKING:
    from ncclforensics.sources import Source

MESSAGE = "environment.variable"
KEPT = re.compile(r"(?:[NR]CCL|TORCH|GLOO|UCX|FI|MASTER|CUDA|OMP)_\w+|WORLD_SIZE")
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
MOST_VALUE = 1000  # characters
CAPTURES = {"variable": pl.String(), "value": pl.String(), "world_size": pl.Int64()}


def read(source: Source) -> Frames:
    """Parse one environment into the message `environment.variable`, and `ranks`."""
    try:
        text = documents.whole(source, MAX_RAS_BYTES).decode("utf-8", "replace")
    except documents.DAMAGE as error:
        return documents.damaged(source, f"no environment: {error}")
    lines = re.split(r"\0|\n", text)
    told = {
        name: (value, number)
        for number, line in enumerate(lines, 1)
        for name, equals, value in [line.partition("=")]
        if equals
    }
    rank = next((n for name in RANKS if (n := _number(told, name)) is not None), None)
    who = {
        "rank": source.rank if rank is None else rank,
        "local_rank": _number(told, "LOCAL_RANK"),
        "host": source.host,
        "source": source.name,
    }
    rows = [
        {**who, "line": number, "variable": name, "value": value[:MOST_VALUE]}
        for name, (value, number) in told.items()
        if KEPT.fullmatch(name)
    ]
    shared = {"message": MESSAGE, "role": "neutral"}
    events = tables.rows(
        "events",
        (
            {**shared, **{c: r[c] for c in (*who, "line")}, "text": _text(r)}
            for r in rows
        ),
    )
    size = _number(told, "WORLD_SIZE")
    captured = pl.DataFrame(
        [
            {**{c: r[c] for c in ("variable", "value")}, "world_size": size}
            for r in rows
        ],
        schema=CAPTURES,
    )
    ranks = tables.rows("ranks", [who] if who["rank"] is not None else [])
    messages = {MESSAGE: pl.concat([events, captured], how="horizontal")}
    return Frames({"events": events, "ranks": ranks}, messages if rows else {})


def _text(row: dict[str, object]) -> str:
    return f"{row['variable']}={row['value']}"[:200]


def _number(told: dict[str, tuple[str, int]], name: str) -> int | None:
    value = told.get(name, ("", 0))[0]
    short = value.isascii() and value.isdigit() and len(value) < 8
    return int(value) if short and int(value) <= MAX_RANK else None
