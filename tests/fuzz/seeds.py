"""The inputs that campaigns begin with: small real ones, of fixtures and of samples."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import msgspec

from fuzz.evidence import DUMP, ERROR, OTHER, RAS
from fuzz.targets import HERE, JOBS, PARSERS, SEPARATOR, Beside, both, share_files
from ncclforensics.parsers.logs import grammar
from ncclforensics.sources.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ncclforensics.report.contract import Report

SMALL = 4096  # bytes of a seed
FEW_BYTES = 600  # of a log that is one


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
            return [*dumps, *(pickle.dumps(DUMP, p) for p in protocols)]
        case "dump_json":
            return json_dumps
        case "error_file":
            return [ERROR]
        case "ras_json":
            return [RAS]
        case "inner":
            numbers = {p.__name__.rpartition(".")[2]: n for n, p in enumerate(PARSERS)}
            return [
                bytes([numbers[message.inner]]) + sample["line"].encode()
                for message in grammar.load()
                if message.inner
                for sample in message.samples
            ]
        case "log" | "lines" | "text":
            pairs = zip(samples[::2], samples[1::2], strict=False)
            return ["\n".join(pair).encode() for pair in pairs]
        case "framed":
            return [sample.encode() for sample in samples]
        case "repeats":
            files = sorted((HERE.parent / "fixtures").rglob("nccl_trace_rank_*"))
            whole = [f.read_bytes() for f in files if f.stat().st_size <= SMALL]
            written = [d for d in whole if both(d, (Beside(), Beside()))]
            return [*written, *(pickle.dumps(_many(DUMP), p) for p in range(2, 6))]
        case "saved":
            return list(map(msgspec.json.encode, _reports()))
        case "share":
            return [b"%d\n" % n + f.read_bytes() for n, f in enumerate(share_files())]
        case "archive":
            return _archives()
        case "whole":
            return [SEPARATOR.join([*dumps[:4], *logs_of(contents)[:4]])]
        case _:
            logs = [c[:FEW_BYTES] for c in logs_of(contents)[::4]]
            return [*dumps[:4], *json_dumps[:4], *_archives(), *logs]


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
        told["others"] = told["others"] or [OTHER]
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
