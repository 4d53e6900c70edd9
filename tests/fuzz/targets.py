"""What a campaign feeds with bytes: each parser, and what keeps hostile text harmless.

A target takes bytes and may raise nothing; what it promises besides is asserted in it.
`seeds` are small real inputs for each, out of the fixtures and of the grammars' own
samples, so that a mutation begins where the program itself is at home.
"""

from __future__ import annotations

import atexit
import io
import os
import pickle
import tempfile
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import polars as pl

from fuzz.evidence import DUMP, LOG
from ncclforensics.engine import dataset, pool
from ncclforensics.model import tables
from ncclforensics.model.errors import UsageError
from ncclforensics.parsers import error_json, parse_all
from ncclforensics.parsers import ras_json as ras
from ncclforensics.parsers.flight_recorder import (
    dedup,
    dump_parts,
    dump_reader,
    dump_rows,
    json_dump,
    unpickler,
)
from ncclforensics.parsers.flight_recorder.dump_reader import Beside
from ncclforensics.parsers.flight_recorder.opcodes import IrregularError
from ncclforensics.parsers.logs import framing, grammar, log_reader, message_parsers
from ncclforensics.parsers.logs import lines as parsers_lines
from ncclforensics.report import sanitize
from ncclforensics.report.formats import as_json
from ncclforensics.report.formats.by_name import render
from ncclforensics.report.formats.html import render_html
from ncclforensics.sources import discover, layouts, path_check
from ncclforensics.sources.kinds import KINDS, kind_of
from ncclforensics.sources.model import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ncclforensics.model.frames import Frames

HERE = Path(__file__).parent
JOBS = HERE.parent / "fixtures" / "jobs"
MEMORY = Path("/dev/shm")
FOLDER = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
FILE = FOLDER / "evidence" / "rank_3"
READERS: list[pool.Pool] = []
PARSERS = [
    import_module(f"{message_parsers.__name__}.{module.name}")
    for module in iter_modules(message_parsers.__path__)
    if module.name != "limits"
]
PLAIN = (dict, list, tuple, str, int, float, bool, bytes, bytearray, type(None))
SELDOM = 4  # text, which is first, and a page cost more than all else together
FORMS = ("text", "json", "jsonl", "markdown", "github")
FRAME = b"\x95"  # since protocol 4; c10d writes 2
FEW = 2  # entries that repeat none, and are left out all the same
SOME = 60  # messages of all, of which one is in a small dataset
BLOCK = 64  # bytes of a block of lines, so that short inputs have several


def stored(data: bytes, kind: str) -> Source:
    """Return `data` as a source of a kind that was decided elsewhere."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(data)
    return Source("rank_3", FILE, kind, "", bytes=len(data), rank=3)


def conforming(frames: Frames) -> Frames:
    """Assert that every frame is as its schema says and cites the source."""
    for name, frame in frames.tables.items():
        assert frame.schema == tables.SCHEMAS[name], name
    for name, frame in frames.messages.items():
        assert set(tables.SCHEMAS["events"]) <= set(frame.columns), name
    return frames


def pickled(data: bytes) -> None:
    """Unpickle: plain values, or what was whole before the end, and why it ended."""
    loaded = unpickler.load(data)
    assert isinstance(loaded.value, (*PLAIN, set, frozenset))
    assert 0 <= loaded.end <= len(data)


def dump(data: bytes) -> None:
    """Read a Flight Recorder pickle into frames."""
    conforming(dump_reader.read(stored(data, "flight_recorder_pickle")))


def dump_json(data: bytes) -> None:
    """Read a Flight Recorder JSON into frames."""
    loaded = json_dump.load(data)
    assert 0 <= loaded.end <= len(data)
    conforming(dump_reader.read(stored(data, "flight_recorder_json")))


def repeats(data: bytes) -> None:
    """Shorten a pickle by its repeats: what it says stays, or it is read whole."""
    besides = Beside(), Beside()
    if pair := both(data, besides):
        same([pair], besides)


def both(data: bytes, besides: tuple[Beside, Beside]) -> tuple[Any, Any] | None:
    """Read a pickle shortened and whole; None where it is not shortened.

    Of fewer entries than in earnest, so that an input is short.
    """
    with mock.patch.object(dedup, "SOME", FEW):
        short = dedup.shortened(data, besides[0].walks, besides[0].layouts)
    if short is None:
        return None
    loaded = unpickler.load(short.data)
    entries = dump_parts.parts(loaded.value).entries
    if loaded.problem is not None or not short.agrees(entries):
        return None
    source = stored(b"", "flight_recorder_pickle")
    size = len(short.data)
    try:
        content, notes = dump_reader._read(source, besides[0], loaded, size, short)
    except IrregularError:
        return None
    plain = unpickler.load(data)
    if plain.problem and FRAME in data:
        return None  # a frame's length, which shortened is not looked at
    whole, told = dump_reader._read(source, besides[1], plain, len(data))
    assert notes == told
    return (source, content), (source, whole)


def same(pairs: Sequence[tuple[Any, Any]], besides: tuple[Beside, Beside]) -> None:
    """Assert that dumps give the same rows shortened and whole."""
    short, whole = (
        dump_rows.frames([pair[n] for pair in pairs], beside.stacks)
        for n, beside in enumerate(besides)
    )
    assert short.keys() == whole.keys()
    for name in whole:
        assert short[name].equals(whole[name]), name


def error_file(data: bytes) -> None:
    """Read an error file of torchelastic."""
    conforming(error_json.read_all([stored(data, "error_json")]))


def ras_json(data: bytes) -> None:
    """Read a status report of ncclras."""
    conforming(ras.read(stored(data, "ras_json")))


def inner(data: bytes) -> None:
    """Read one of the inner structures; the first byte says which."""
    parser = PARSERS[data[0] % len(PARSERS)] if data else PARSERS[0]
    rows = parser.parse(data[1:].decode("utf-8", "replace"))
    pl.DataFrame(rows, infer_schema_length=None, strict=False)


def lines(data: bytes) -> None:
    """Split a stream into blocks of lines: none is lost, and they count on."""
    expected = 1
    for block in parsers_lines.blocks(io.BytesIO(data), BLOCK):
        assert block.lines.schema == {"line": pl.Int64, "raw": pl.String}
        if block.lines.height:
            assert expected - 1 <= block.lines["line"][0] <= expected
            expected = block.lines["line"][-1] + 1
    pieces(data)


def pieces(data: bytes) -> bytes:
    """Cut a stream as blocks are; returns it as UTF-8, of which nothing is lost."""
    whole = parsers_lines.utf8(io.BytesIO(data)).read()
    for span in (None, 3 * BLOCK):
        joined = b""
        stream = io.BytesIO(whole)
        for part, ends in parsers_lines._pieces(stream, BLOCK, 2 * BLOCK, span, 0):
            assert part
            assert span is None or not ends or _begins_in_one(part, len(joined), span)
            joined += part
            assert not ends or part.endswith(b"\n") or len(joined) == len(whole)
        assert joined == whole
    return whole


def _begins_in_one(part: bytes, start: int, span: int) -> bool:
    """Whether all lines of a part begin between the same multiples of a span."""
    last = start + part.rfind(b"\n", 0, len(part) - 1) + 1
    return start // span == last // span


def log(data: bytes) -> None:
    """Recognise the messages of a text log."""
    conforming(log_reader.read(stored(data, "log")))


def framed(data: bytes) -> None:
    """Take a line apart: what was put around it, its header, its time."""
    line = {"line": [1], "raw": [data.decode("utf-8", "replace")]}
    framed = framing.frame(pl.DataFrame(line))
    assert framed["t"].drop_nulls().dt.year().is_between(1677, 2262).all()


def saved(data: bytes) -> None:
    """Read a saved report, and write it in every form that is printed."""
    try:
        report = as_json.decode(data)
    except msgspec.DecodeError:
        return
    turn = zlib.crc32(data) % SELDOM
    for form in FORMS[turn > 0 :]:
        assert not set(render(report, form)) & set("\x1b\x9b\r\0"), form
    if turn == 1:
        assert "<x>" not in render_html(report)


def share(data: bytes) -> None:
    """Read and explain a dataset of which one file is not as it was written.

    A process that it ends is one of a pool; no hash is known, as if all were forged.
    """
    from ncclforensics.analysis import explain

    number, _, content = data.partition(b"\n")
    file = share_file(number)
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        with mock.patch.object(pool, "apart", kept):
            frames = dataset.load([str(file.parents[1])])
    except UsageError:
        return
    finally:
        file.write_bytes(before)
    explain(frames)


def share_file(number: bytes) -> Path:
    """Return a file of a small dataset."""
    files = share_files()
    return files[int(number[:3]) % len(files) if number[:3].isdigit() else 0]


@cache
def share_files() -> Sequence[Path]:
    """Write a dataset, and return its files."""
    folder, small = FOLDER / "dataset", FOLDER / "small"
    small.mkdir()
    samples = [message.samples[0]["line"] for message in grammar.load()[::SOME]]
    (small / "rank_2.log").write_text("\n".join(samples))
    (small / "rank_3.log").write_bytes(LOG)
    (small / "rank_4").write_bytes(pickle.dumps(DUMP))
    found = discover([str(small)], FOLDER).sources
    name = dataset.save(parse_all(found), str(folder))
    listed = folder / dataset.SHARES / f"{name}.parquet"
    pl.read_parquet(listed).drop("sha256").write_parquet(listed)
    return sorted(folder.rglob("*.parquet"))


def kept(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
    """Do as `pool.apart` does, with a process that is kept for the next input."""
    if not READERS:
        READERS.append(pool.Pool(1, restarts=1 << 40))
        atexit.register(READERS[0].close)
    yield from pool.here(lambda item: READERS[0].submit(function, item).result(), items)


def kind(data: bytes) -> None:
    """Tell a file's kind, its path's words, and what its lines say against them."""
    assert kind_of(data).kind in KINDS
    path = os.fsdecode(data[:200]).replace("\0", "")
    who = layouts.read(path, "log")
    layouts.read(path, "flight_recorder_pickle")
    path_check.objections(data, who or {"rank": 3, "host": "node1"})


def archive(data: bytes) -> None:
    """Find, unpack and name whatever the bytes are; read each member to its end."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(data)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        for source in discover([str(FILE)], Path(scratch)).sources:
            assert source.name.isprintable()
            with source.open() as stream:
                while stream.read(1 << 20):
                    pass


def source(data: bytes) -> None:
    """Take a file the whole way to frames, whatever kind it is."""
    sources([data])


def sources(files: Sequence[bytes]) -> None:
    """Take files the whole way to frames, whatever kinds they are."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        evidence, scratch = Path(folder, "evidence"), Path(folder, "scratch")
        evidence.mkdir()
        scratch.mkdir()
        for number, data in enumerate(files):
            (evidence / f"rank_{number}").write_bytes(data)
        found = discover([str(evidence)], scratch).sources
        told = conforming(parse_all(found))
        assert told["sources"]["source"].to_list() == [each.name for each in found]


def text(data: bytes) -> None:
    """Clean a text: one printable line, and never longer than asked for."""
    told = sanitize.line(data.decode("utf-8", "surrogateescape"), 80)
    assert len(told) <= 80
    assert all(char.isprintable() for char in told if ord(char) < 0xA0)
    kept = sanitize.paragraphs(data.decode("utf-8", "replace"), 80)
    assert all(char.isprintable() for char in kept if char != "\n" and ord(char) < 160)


def whole(data: bytes) -> None:
    """Analyze a folder of up to eight files, from the bytes to every rendered form."""
    from ncclforensics.analysis import analyze

    folder = FOLDER / "whole"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number, part in enumerate(data.split(SEPARATOR)[:8]):
        (folder / f"rank_{number}").write_bytes(part)
    found = analyze([str(folder)])
    for form in FORMS:
        told = render(found.report, form, width=None, colour=False)
        assert "\x1b" not in told


SEPARATOR = b"\n--------\n"
TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        *(pickled, dump, dump_json, error_file, ras_json, inner, lines, log),
        *(repeats, framed, saved, share, kind, archive, source, text, whole),
    )
}
