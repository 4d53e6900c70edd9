"""What a campaign feeds with bytes: each parser, and what keeps hostile text harmless.

A target takes bytes and may raise nothing; what it promises besides is asserted in it.
`SEEDS` are small real inputs for each, out of the fixtures and of the grammars' own
samples, so that a mutation begins where the program itself is at home.
"""

from __future__ import annotations

import atexit
import io
import os
import pickle
import tempfile
import zlib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import polars as pl

from ncclforensics import dataset, grammar, pool, tables
from ncclforensics.errors import UsageError
from ncclforensics.parsers import (
    error_json,
    flight_recorder,
    fr_dump,
    fr_json,
    fr_repeats,
    fr_rows,
    framing,
    log_files,
    parse_all,
    structures,
    unpickler,
)
from ncclforensics.parsers import ras_json as ras
from ncclforensics.parsers.flight_recorder import Beside
from ncclforensics.parsers.fr_opcodes import IrregularError
from ncclforensics.parsers.lines import blocks
from ncclforensics.report import as_json, clean
from ncclforensics.report.formats import render
from ncclforensics.report.html import render_html
from ncclforensics.sources import discover, layouts, voices
from ncclforensics.sources.kinds import KINDS, kind_of
from ncclforensics.sources.model import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ncclforensics.frames import Frames
    from ncclforensics.report.contract import Report

HERE = Path(__file__).parent
JOBS = HERE.parent / "fixtures" / "jobs"
MEMORY = Path("/dev/shm")
FOLDER = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
FILE = FOLDER / "evidence" / "rank_3"
READERS: list[pool.Pool] = []
PARSERS = [
    import_module(f"{structures.__name__}.{module.name}")
    for module in iter_modules(structures.__path__)
    if module.name != "limits"
]
PLAIN = (dict, list, tuple, str, int, float, bool, bytes, bytearray, type(None))
SMALL = 4096  # bytes of a seed
SELDOM = 4  # text, which is first, and a page cost more than all else together
FORMS = ("text", "json", "jsonl", "markdown", "github")
FRAME = b"\x95"  # since protocol 4; c10d writes 2
FEW = 2  # entries that repeat none, and are left out all the same
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
    conforming(flight_recorder.read(stored(data, "flight_recorder_pickle")))


def dump_json(data: bytes) -> None:
    """Read a Flight Recorder JSON into frames."""
    loaded = fr_json.load(data)
    assert 0 <= loaded.end <= len(data)
    conforming(flight_recorder.read(stored(data, "flight_recorder_json")))


def repeats(data: bytes) -> None:
    """Shorten a pickle by its repeats: what it says stays, or it is read whole."""
    besides = Beside(), Beside()
    if pair := both(data, besides):
        same([pair], besides)


def both(data: bytes, besides: tuple[Beside, Beside]) -> tuple[Any, Any] | None:
    """Read a pickle shortened and whole; None where it is not shortened.

    Of fewer entries than in earnest, so that an input is short.
    """
    with mock.patch.object(fr_repeats, "SOME", FEW):
        short = fr_repeats.shortened(data, besides[0].walks, besides[0].layouts)
    if short is None:
        return None
    loaded = unpickler.load(short.data)
    entries = fr_dump.parts(loaded.value).entries
    if loaded.problem is not None or not short.agrees(entries):
        return None
    source = stored(b"", "flight_recorder_pickle")
    size = len(short.data)
    try:
        content, notes = flight_recorder._read(source, besides[0], loaded, size, short)
    except IrregularError:
        return None
    plain = unpickler.load(data)
    if plain.problem and FRAME in data:
        return None  # a frame's length, which shortened is not looked at
    whole, told = flight_recorder._read(source, besides[1], plain, len(data))
    assert notes == told
    return (source, content), (source, whole)


def same(pairs: Sequence[tuple[Any, Any]], besides: tuple[Beside, Beside]) -> None:
    """Assert that dumps give the same rows shortened and whole."""
    short, whole = (
        fr_rows.frames([pair[n] for pair in pairs], beside.stacks)
        for n, beside in enumerate(besides)
    )
    assert short.keys() == whole.keys()
    for name in whole:
        assert short[name].equals(whole[name]), name


def error_file(data: bytes) -> None:
    """Read an error file of torchelastic."""
    conforming(error_json.read(stored(data, "error_json")))


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
    for block in blocks(io.BytesIO(data), BLOCK):
        assert block.lines.schema == {"line": pl.Int64, "raw": pl.String}
        if block.lines.height:
            assert expected - 1 <= block.lines["line"][0] <= expected
            expected = block.lines["line"][-1] + 1


def log(data: bytes) -> None:
    """Recognise the messages of a text log."""
    conforming(log_files.read(stored(data, "log")))


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
    folder = FOLDER / "dataset"
    if not folder.is_dir():
        (FOLDER / "small").mkdir()
        (FOLDER / "small" / "rank_3.log").write_bytes(_LOG)
        (FOLDER / "small" / "rank_4").write_bytes(pickle.dumps(_SMALL))
        found = discover([str(FOLDER / "small")], FOLDER).sources
        name = dataset.save(parse_all(found), str(folder))
        listed = folder / dataset.SHARES / f"{name}.parquet"
        pl.read_parquet(listed).drop("sha256").write_parquet(listed)
    files = sorted(folder.rglob("*.parquet"))
    file = files[int(number[:3]) % len(files) if number[:3].isdigit() else 0]
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        with mock.patch.object(pool, "apart", _kept):
            frames = dataset.load([str(folder)])
    except UsageError:
        return
    finally:
        file.write_bytes(before)
    explain(frames)


def _kept(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
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
    voices.objections(data, who or {"rank": 3, "host": "node1"})


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
    told = clean.line(data.decode("utf-8", "surrogateescape"), 80)
    assert len(told) <= 80
    assert all(char.isprintable() for char in told if ord(char) < 0xA0)
    kept = clean.paragraphs(data.decode("utf-8", "replace"), 80)
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


def seeds(target: str) -> Iterable[bytes]:
    """Return the inputs that a campaign of `target` begins with."""
    files = sorted(file for file in JOBS.rglob("evidence/**/*") if file.is_file())
    contents = {file: file.read_bytes()[:SMALL] for file in files}
    dumps = [c for c in contents.values() if c.startswith(b"\x80")][::12]
    json_dumps = [
        c for c in contents.values() if kind_of(c).kind == "flight_recorder_json"
    ][::4]
    samples = [s["line"] for message in grammar.load() for s in message.samples]
    match target:
        case "pickled" | "dump":
            protocols = range(pickle.HIGHEST_PROTOCOL + 1)
            return [*dumps, *(pickle.dumps(_SMALL, p) for p in protocols)]
        case "dump_json":
            return json_dumps
        case "error_file":
            return [_ERROR]
        case "ras_json":
            return [_RAS]
        case "inner":
            numbers = {p.__name__.rpartition(".")[2]: n for n, p in enumerate(PARSERS)}
            return [
                bytes([numbers[message.inner]]) + sample["line"].encode()
                for message in grammar.load()
                if message.inner
                for sample in message.samples
            ]
        case "log" | "lines" | "text":
            return [
                "\n".join(samples[at : at + 20]).encode()
                for at in range(0, len(samples), 20)
            ]
        case "framed":
            return [sample.encode() for sample in samples]
        case "repeats":
            files = sorted((HERE.parent / "fixtures").rglob("nccl_trace_rank_*"))
            whole = [f.read_bytes() for f in files if f.stat().st_size <= SMALL]
            written = [d for d in whole if both(d, (Beside(), Beside()))]
            return [*written, *(pickle.dumps(_many(_SMALL), p) for p in range(2, 6))]
        case "saved":
            return list(map(msgspec.json.encode, _reports()))
        case "share":
            share(b"")
            files = sorted((FOLDER / "dataset").rglob("*.parquet"))
            return [b"%d\n" % n + f.read_bytes() for n, f in enumerate(files)]
        case "archive":
            return _archives()
        case "whole":
            return [SEPARATOR.join([*dumps[:4], *logs_of(contents)[:4]])]
        case _:
            return [*dumps[:4], *json_dumps[:4], *_archives(), *logs_of(contents)[::8]]


def logs_of(contents: dict[Path, bytes]) -> list[bytes]:
    """Return the text among some files."""
    return [c for f, c in contents.items() if f.suffix in (".log", ".err", ".out")]


def _many(dump: dict[str, Any]) -> dict[str, Any]:
    """Repeat a dump's entry until repeats are taken out of it."""
    (entry,) = dump["entries"]
    told = [entry | {"record_id": n, "collective_seq_id": n} for n in range(8)]
    told[3] |= {"state": "completed", "duration_ms": 2.5}
    return dump | {"entries": told}


def _reports() -> Iterable[Report]:
    """Analyze some jobs, and keep a few members of each list."""
    from ncclforensics.analysis import analyze

    for job in ("torch-missing-rank-two-hosts", "nccl-killed-rank"):
        report = analyze([str(JOBS / job)]).report
        told = _few(msgspec.to_builtins(report))
        told["others"] = told["others"] or [_OTHER]
        yield msgspec.convert(told, type(report))


def _few(value: Any) -> Any:
    """Keep a member of each list, and the beginning of each text."""
    if isinstance(value, dict):
        return {key: _few(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_few(member) for member in value[:1]]
    return value[:40] if isinstance(value, str) else value


def _archives() -> list[bytes]:
    import bz2
    import gzip
    import lzma
    import tarfile
    import zipfile

    import zstandard

    tar, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as packed:
        for name in ("a.log", "../b.log", "c/d.log"):
            info = tarfile.TarInfo(name)
            info.size = 5
            packed.addfile(info, io.BytesIO(b"line\n"))
        link = tarfile.TarInfo("e.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.log", b"line\n" * 9)
        packed.writestr("../b.tar", tar.getvalue()[:1024])
    plain = [tar.getvalue(), zipped.getvalue()]
    packers = (gzip.compress, bz2.compress, lzma.compress, zstandard.compress)
    return [*plain, *(pack(b"line\n" * 9) for pack in packers)]


_SMALL = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 3}},
    "entries": [
        {
            "record_id": 0,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": 1,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1_758_610_505_592_849_034,
            "duration_ms": 1.5,
            "input_sizes": [[4]],
            "state": "scheduled",
            "frames": [{"name": "f", "filename": "a.py", "line": 1}],
            "retired": False,
        }
    ],
}
_OTHER = {
    "job": "7",
    "attempt": 1,
    "outcome": "failure",
    "class": "missing-rank",
    "headline": "rank 3 was killed",
    "culprits": {"ranks": [3], "ranks_folded": "3", "hosts": ["node1"], "devices": []},
    "evidence": [{"source": "rank_3.log", "line": 7, "text": "it is `<here>` [now]"}],
}
_LOG = b"""gpu1:1:2 [0] NCCL INFO Using network IB
[rank3]: Traceback (most recent call last):
[rank3]:   File "/job/train.py", line 3, in step
[rank3]: ValueError: bad batch
"""
_ERROR = (
    b'{"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": '
    b'"Traceback (most recent call last):\\n  File \\"/a.py\\", line 3, in f\\n    g()'
    b'\\nRuntimeError: boom\\n", "timestamp": "1795167676"}}}'
)
_RAS = (
    b'{"nccl_version": "2.29.1", "timestamp": "2026-12-19 13:06:53", "communicators": '
    b'[{"hash": "0xae94", "size": 3, "ranks": [{"rank": 0, "host": "10.0.0.1", "pid": '
    b'700, "cuda_dev": 0, "collective_counts": {"AllReduce": 4}}, {"rank": 1, "host": '
    b'"10.0.0.2", "pid": 701, "cuda_dev": 1, "collective_counts": {"AllReduce": 3}}], '
    b'"missing_ranks": [{"rank": 2, "host": "10.0.0.3", "pid": 702, "cuda_dev": 0, '
    b'"status": {"considered_dead": true}}]}]}'
)
