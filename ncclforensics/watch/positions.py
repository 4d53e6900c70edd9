"""How far dumps and RAS reports say that each rank came: a number that has to rise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics import parsers

if TYPE_CHECKING:
    from ncclforensics.watch.tails import New

COUNTS = "ncclras.mismatch"
MOST_BYTES = 64 << 20  # of a dump that is parsed while the job runs


class Positions:
    """The last position of each rank, by the files that told it."""

    def __init__(self) -> None:
        """Begin without any position."""
        self._last: dict[str, float] = {}

    def feed(self, new: New) -> bool:
        """Take a dump in; returns whether its rank came further than was known.

        The first dump of a rank tells nothing, nor does one that is half written.
        """
        source = new.tail.source
        if source.path.stat().st_size > MOST_BYTES:
            return False
        frames = parsers.parse(source)
        if frames["sources"]["cut"].fill_null(False).any():
            return False
        calls = frames["collectives"]
        rank = source.rank
        if calls.height:
            told = calls["rank"].drop_nulls()
            rank = int(told[0]) if told.len() and rank is None else rank
            done = float((calls["state"] == "completed").sum())
            reached = float(str(calls["record_id"].max() or 0)) * 1000 + done
        else:
            counts = frames.message(COUNTS)
            if "operation" not in counts.columns or counts.is_empty():
                return False
            reached = float(counts["operation"].sum())
        key = f"{source.kind} {source.path.name if rank is None else rank}"
        before = self._last.get(key)
        self._last[key] = reached
        return before is not None and reached > before
