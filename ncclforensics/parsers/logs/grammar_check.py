"""Checks grammars against their own samples, and lists the messages of a log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.parsers.logs import event_rows, grammar, log_reader, scan
from ncclforensics.parsers.logs.grammar import KINDS, ROLES
from ncclforensics.parsers.logs.kept_lines import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ncclforensics.parsers.logs.grammar import Message


def problems(checked: Sequence[Message], against: Sequence[Message]) -> Iterator[str]:
    """Yield the problems of the messages `checked`, as "id: problem".

    Each message needs a sample. Every sample has to match this message and no other of
    `against`, with the stated values; no look-alike (`near`) may match it.
    """
    seen: set[str] = set()
    for message in checked:
        for problem in (*_form(message, seen), *_samples(message, against)):
            yield f"{message.id}: {problem}"
        seen.add(message.id)


def _form(message: Message, seen: set[str]) -> Iterator[str]:
    if message.id in seen:
        yield "this id is used twice"
    if not message.samples:
        yield "has no sample"
    if message.role not in ROLES:
        yield f"role {message.role!r} is none of {', '.join(ROLES)}"
    if message.feeds is not None and message.feeds not in tables.SCHEMAS:
        yield f"feeds {message.feeds!r}, which is no frame"
    for name, kind in message.columns.items():
        if kind not in KINDS:
            yield f"column {name} has no type {kind!r}"
    try:
        pl.Series(["x"]).str.contains(message.regex)
    except pl.exceptions.ComputeError as error:
        yield f"pattern: {error}"


def _samples(message: Message, against: Sequence[Message]) -> Iterator[str]:
    for sample in message.samples:
        line = sample["line"]
        if not any(needle in line for needle in message.needles):
            yield f"no needle is in its sample {line!r}"
        found = first_line(line, against)
        if set(found) != {message.id}:
            others = ", ".join(sorted(found)) or "nothing"
            yield f"sample {line!r} is taken for {others}"
            continue
        told = found[message.id].row(0, named=True)
        for name, value in sample.get("values", {}).items():
            if name not in told or not _same(told[name], value):
                yield f"{name} is {told.get(name)!r}, not {value!r}, in {line!r}"
    for line in message.near:
        if message.id in first_line(line, against):
            yield f"takes its look-alike {line!r}"


def _same(told: object, stated: object) -> bool:
    if isinstance(told, float) and isinstance(stated, int | float):
        return math.isclose(told, stated)
    return told == stated


def first_line(text: str, messages: Sequence[Message]) -> dict[str, pl.DataFrame]:
    """Return the messages that begin on the first non-empty line of `text`."""
    raw = text.strip("\n").split("\n")
    lines = pl.DataFrame({"line": range(1, len(raw) + 1), "raw": raw})
    found = event_rows.recognise(lines, 1, messages).messages
    return {
        str(name): part
        for frame in found.values()
        for (name,), part in frame.partition_by("message", as_dict=True).items()
    }


def matches(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, message id, text) of every recognised line of a log, in order."""
    messages = grammar.load()
    with file.open("rb") as stream:
        plan = scan.paste(scan.head(stream))
        stream.seek(0)
        events = pl.concat(
            log_reader.recognised(lines, own, messages)["events"]
            for lines, own in log_reader.windows(stream, Kept(), plan)
        )
    ordered = events.sort("line", "message")
    yield from ordered.select("line", "message", "text").iter_rows()


def check_file(file: Path) -> list[str]:
    """Return the problems of one grammar file, checked against the shipped ones."""
    checked = grammar.load_file(file)
    ids = {message.id for message in checked}
    others = [message for message in grammar.load() if message.id not in ids]
    return list(problems(checked, [*checked, *others]))
