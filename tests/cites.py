"""Resolves the cites of a report: what they quote has to stand at that place."""

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ncclforensics import parsers
from ncclforensics.report.contract import Evidence
from ncclforensics.report.sanitize import ELLIPSIS, line
from ncclforensics.sources import discover


def cites(value):
    """Yield every cite in a report, wherever it stands."""
    if isinstance(value, Evidence):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from cites(item)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from cites(getattr(value, name))


def unresolved(told, folder):
    """Return the cites whose text does not stand where they say, in `folder`."""
    return [cite for cite in told if not _resolves(cite, folder)]


def _resolves(cite, folder):
    file = Path(folder) / cite.source.partition("!")[0]  # FILE!MEMBER in an archive
    if not file.is_file():
        return False
    if cite.line is None:  # what the tool says of the whole file
        return bool(cite.text)
    if cite.counts == "entry":
        return _tells(cite, _entries(str(file), cite.source.partition("!")[2]))
    lines = _lines(file)
    said = re.sub(r"\s+", " ", cite.text.rstrip(ELLIPSIS)).strip()
    return cite.line <= len(lines) and said in lines[cite.line - 1]


@cache
def _lines(file):
    text = file.read_bytes().decode("utf-8", "replace")
    return [re.sub(r"\s+", " ", line(raw, 10**6)) for raw in text.split("\n")]


@cache
def _entries(file, member):
    """Return what stands in each entry of a dump, by number: op, SeqNum, rank."""
    with TemporaryDirectory() as scratch:
        found = discover([file], Path(scratch)).sources
        (source,) = (s for s in found if s.name.endswith(member))
        frame = parsers.parse(source)["collectives"]
    return {row["line"]: row for row in frame.iter_rows(named=True)} or None


def _tells(cite, entries):
    """Whether an entry has the call that a cite of it names."""
    if entries is None:  # not a dump of calls
        return cite.line > 0
    row = entries.get(cite.line)
    told = re.search(r"(\w+)(?: to rank \d+| from rank \d+)? SeqNum=(\d+)", cite.text)
    if row is None or told is None:
        return row is not None
    numbers = {row["seq"], row["p2p_seq"], row["op_id"]}
    return told[1] in {row["op"], "call"} and int(told[2]) in numbers
