"""The manifest's SHA-256 is that of the file as it lies there, however it is read."""

import gzip
import hashlib
import io
import pickle

import pytest

from log_lines import timeout
from ncclforensics.parsers import parse_all
from ncclforensics.parsers.logs import scan
from ncclforensics.sources import Source

TEXT = ("step 1 of 2\n" * 3 + timeout(3)).encode()
WRAPPED = b"".join(f"{i:04d} {'x' * 75}\n".encode() for i in range(64))
FILES = {
    "text": (TEXT, None),
    "empty": (b"", None),
    "gzip": (gzip.compress(TEXT), "gzip"),
    "gzip and more": (gzip.compress(TEXT) + b"what no gzip is", "gzip"),
    "cut gzip": (gzip.compress(TEXT)[:-9], "gzip"),
    "utf-16": (TEXT.decode().encode("utf-16"), None),
    "in pieces": (b"2026-01-01T00:00:00.0Z stdout P a\n" * 5 + TEXT, None),
    "wrapped": (WRAPPED, None),
    "no LF": (TEXT + b"the last", None),
}


@pytest.mark.parametrize("span", [1 << 20, 64], ids=["whole", "in spans"])
def test_logs_are_hashed_as_they_lie_there(tmp_path, monkeypatch, span):
    monkeypatch.setattr(scan, "SPAN_BYTES", span)
    sources, expected = [], []
    for name, (data, compression) in FILES.items():
        path = tmp_path / name
        path.write_bytes(data)
        expected.append(hashlib.sha256(data).hexdigest())
        sources.append(
            Source(name, path, "log", "", compression=compression, bytes=len(data))
        )
    assert parse_all(sources)["sources"]["sha256"].to_list() == expected
    for source, digest in zip(sources, expected, strict=True):
        assert parse_all([source])["sources"]["sha256"].to_list() == [digest]


def test_a_stream_that_was_not_read_to_its_end_has_no_hash(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(TEXT * 4096)
    with Source("log", path, "log", "").open(hashed=True) as stream:
        stream.read(10)
        assert stream.sha256 is None
        while stream.read(1000):
            pass
        assert stream.sha256 == hashlib.sha256(TEXT * 4096).hexdigest()
        with pytest.raises(io.UnsupportedOperation):
            stream.seek(0)


def test_dumps_are_hashed(tmp_path):
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps({"version": "2.4", "entries": []}))
    source = Source("dump", path, "flight_recorder_pickle", "", rank=0)
    found = parse_all([source])["sources"]["sha256"].to_list()
    assert found == [hashlib.sha256(path.read_bytes()).hexdigest()]
