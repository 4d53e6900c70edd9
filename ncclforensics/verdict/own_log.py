"""The last line of the culprit's own log before anybody noticed, whatever it says.

What it did last is mostly a line that no grammar knows: `saving checkpoint`. So the
file is read for it, from the last line that is known up to the first trouble below.
A file that several ranks write is not read, and neither is one whose lines are put
together: there the known line stays. Of a dataset it is the line that was kept of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model import last_words
from ncclforensics.model.findings import Cite
from ncclforensics.model.tables import CITE
from ncclforensics.parsers.logs import last_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.model.findings import Onset, Ranked
    from ncclforensics.model.frames import Frames
    from ncclforensics.sources import Source

# printed by a process that has not done anything yet, or by somebody who looks at it
IDLE = r"^(?:c10d\.store\.hostname$|stacks\.)"


def last_line(
    frames: Frames, ranked: Ranked, onset: Onset | None, sources: Sequence[Source]
) -> Cite | None:
    """Return the last line that the culprits printed before anybody noticed.

    Never raises: of a file that cannot be read any more it is the last known line.
    """
    verdict = ranked.verdict
    if verdict is None or not verdict.ranks:
        return None
    noticed = None if onset is None else onset.noticed
    known = _known(frames, verdict.ranks, noticed)
    name = _own(frames, verdict.ranks, known)
    if name is None:
        return known
    begin = 1 if known is None or known.line is None else known.line
    end = _end(frames, name, begin, noticed)
    source = next((s for s in sources if s.name == name), None)
    if source is None:
        there = frames["last_lines"].filter(pl.col("end").eq_missing(end), source=name)
        told = next(there.select("line", "text").iter_rows(), None)
    else:
        told = last_lines.last(source, end)
    return known if told is None or told[0] < begin else Cite(name, *told)


def _known(frames: Frames, ranks: tuple[int, ...], noticed: int | None) -> Cite | None:
    """Return the last line of `ranks` that was recognised and tells of no trouble."""
    if frames["events"].is_empty():
        return None
    logs = frames["sources"].filter(pl.col("kind") == "log")["source"]
    theirs = frames["events"].filter(
        pl.col("rank").is_in(ranks) & pl.col("source").is_in(logs.implode())
    )
    if theirs.is_empty():
        return None
    words = theirs.filter(pl.col("message") == last_words.LAST)
    if words.height:
        return common.cites(words.sort("rank", "source"), 1)[0]
    said = theirs.filter(
        (pl.col("role") == "neutral") & ~pl.col("message").str.contains(IDLE)
    )
    if said.is_empty():
        return None
    if noticed is not None:
        said = said.filter(pl.col("t").dt.epoch("ns") <= noticed)
    else:
        ends = (
            last_lines.ends(frames)
            .group_by("source")
            .agg(pl.col("line").min().alias("end"))
        )
        above = pl.col("line") < pl.col("end")
        said = said.join(ends, "source", "left").filter(above.fill_null(True))
    # a launcher may print what a rank's own log has as well
    alone = frames.writers().unique("source", keep="none")["source"]
    is_own = pl.col("source").is_in(alone.implode())
    last = said.sort("t", is_own, "source", "line", "message").tail(1)
    return common.cites(last)[0] if last.height else None


def _own(frames: Frames, ranks: tuple[int, ...], known: Cite | None) -> str | None:
    """Return a log that only a culprit writes; if a line is `known`, the one with it.

    Of several, what a program says (stdout) comes before what its runtime says.
    """
    logs = frames["sources"].filter((pl.col("kind") == "log") & (pl.col("bytes") > 0))
    if logs.is_empty():
        return None
    alone = frames.writers().unique("source", keep="none")
    looked = frames["events"].filter(pl.col("message").str.starts_with("stacks."))
    alone = alone.join(looked.select("source"), on="source", how="anti")
    theirs = alone.filter(pl.col("rank").is_in(ranks))
    logs = logs.filter(pl.col("source").is_in(theirs["source"].implode()))
    if known is not None:
        logs = logs.filter(pl.col("source") == known.source)
    is_other = (pl.col("stream") != "stdout").fill_null(True)
    return next(iter(logs.sort(is_other, "rank", "source")["source"]), None)


def _end(frames: Frames, source: str, begin: int, noticed: int | None) -> int | None:
    """Return the first line below `begin` that ends it, or came after `noticed`."""
    told = last_lines.ends(frames)
    if noticed is not None:
        late = frames["events"].filter(pl.col("t").dt.epoch("ns") > noticed)
        told = pl.concat([told, late.select(*CITE)])
    below = (pl.col("source") == source) & (pl.col("line") > begin)
    first = told.filter(below)["line"].min()
    return None if first is None else int(str(first))
