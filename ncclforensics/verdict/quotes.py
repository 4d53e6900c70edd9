"""A cite of a log quotes the line that it names; a cite of a dump names its entry.

Diagnosers cite with words of their own: `SIGTERM`, `rank 3 waits in all_reduce`. Those
are kept for the entries of dumps, which have no text. What a log says is quoted, so
that whoever opens the file there finds it. What stands under a heading (an exception
under `Traceback`) is quoted where it stands. Where the path of a file does not tell
whose lines it holds, a quote keeps the prefix that does.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model.findings import Cite
from ncclforensics.model.plans import collected
from ncclforensics.model.tables import CITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ncclforensics.model.frames import Frames

HEADED = "python.traceback"
DUMPS = r"^(?:flight_recorder|pyspy|slurm)_"  # kinds whose `line` counts entries


def quoted(frames: Frames, *told: Any) -> tuple[Any, ...]:
    """Return `told`, dataclasses and tuples of them, with all their cites quoted.

    What is one object in `told` is one object in the result.
    """
    cites = {cite for cite in _cites(told) if cite.line is not None}
    swaps = _swaps(frames, cites)
    done: dict[int, Any] = {}
    return tuple(_swapped(one, swaps, done) for one in told)


def counting_entries(frames: Frames) -> frozenset[str]:
    """Return the files in which a `line` is the number of an entry."""
    dumps = frames["sources"].filter(pl.col("kind").str.contains(DUMPS))
    return frozenset(dumps["source"])


def _swaps(frames: Frames, cites: set[Cite]) -> dict[Cite, Cite]:
    if not cites:
        return {}
    places = sorted({(cite.source, cite.line) for cite in cites})
    asked = pl.DataFrame(places, CITE, orient="row")
    heads = frames.quoted(HEADED).join(asked, on=[*CITE], how="semi")
    moved = {(s, n): Cite(s, at, said) for s, n, at, said in heads.iter_rows()}
    lines = collected(
        frames["events"]
        .lazy()
        .select("source", "line", "message", "text")
        .join(asked.lazy(), on=[*CITE], how="semi")
        .sort("source", "line", "message")
    )
    said: dict[tuple[str, int], list[str]] = {}
    for source, line, _, text in lines.iter_rows():
        said.setdefault((source, line), []).append(text or "")
    dumps = counting_entries(frames)
    swaps = {}
    for cite in cites:
        place = (cite.source, cite.line)
        texts = said.get(place, [])  # type: ignore[arg-type]
        if cite.source in dumps:
            swaps[cite] = dataclasses.replace(cite, counts="entry")
        elif place in moved:
            swaps[cite] = moved[place]
        elif texts and not any(cite.text in text for text in texts if cite.text):
            swaps[cite] = dataclasses.replace(cite, text=texts[0])
    return swaps | _prefixed(frames, {cite: swaps.get(cite, cite) for cite in cites})


def _prefixed(frames: Frames, quotes: Mapping[Cite, Cite]) -> dict[Cite, Cite]:
    """Put in front of whole messages what tells who prints them, if no path does."""
    told = pl.any_horizontal(pl.col("rank", "host").is_not_null())
    named = frames["sources"].filter(told).select("source")
    asked = sorted({(cite.source, cite.line, cite.text) for cite in quotes.values()})
    lines = collected(
        pl.LazyFrame(asked, {**CITE, "text": pl.String()}, orient="row")
        .join(named.lazy(), on="source", how="anti")
        .join(frames["events"].lazy().drop_nulls("prefix"), on=[*CITE, "text"])
        .select(*CITE, "text", "prefix")
    )
    ahead = {tuple(place): head for *place, head in lines.iter_rows()}
    return {
        cite: dataclasses.replace(now, text=head + now.text)
        for cite, now in quotes.items()
        if (head := ahead.get((now.source, now.line, now.text)))
    }


def _cites(value: object) -> Iterator[Cite]:
    if isinstance(value, Cite):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _cites(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _cites(getattr(value, field.name))


def _swapped(value: Any, swaps: Mapping[Cite, Cite], done: dict[int, Any]) -> Any:
    if isinstance(value, Cite):
        return swaps.get(value, value)
    if isinstance(value, tuple):
        return tuple(_swapped(item, swaps, done) for item in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    if id(value) not in done:
        names = [field.name for field in dataclasses.fields(value)]
        new = {name: _swapped(getattr(value, name), swaps, done) for name in names}
        done[id(value)] = dataclasses.replace(value, **new)
    return done[id(value)]
