"""Lines that begin alike are framed as each would be for itself."""

import random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ncclforensics.parsers.logs import framing, shared_heads
from ncclforensics.parsers.logs.lines import FILE

CALL = "{ahead}{host}:7:9 [{dev}] NCCL INFO {op}: opCount {n:x} sendbuff 0x7 comm 0x{n}"
AHEAD = ("", "[rank3]: ", "[1,2]<stdout>:", "[default0]:[rank1]: ", "> ", "gpu7: ")
BEHIND = (
    *("", "", "", "", "", " [repeated 3x across cluster]", "\r 50%|#| step=4"),
    *(" \x1b[0m", "gpu1:7:9 [0] NCCL WARN lost", "AllGather: opCount 3", "```"),
    *("[rank1]:[W1120 10:00:00.1 a.cpp:1] late", "^C", " (trainer.py:12)"),
)
OTHERS = (
    *("", "AllReduce: opCount 3 is a call", "step 3 of 9", "a: opCount "),
    *("Rank 3: opCount 4", '{"rank": 3, "message": "AllReduce: opCount 3"}'),
    "[rank1]:[E1120 10:00:00.000001 ProcessGroupNCCL.cpp:632] [Rank 1] is late",
)


def lines(chance, many, files):
    told = []
    for n in range(many):
        call = CALL.format(
            ahead=chance.choice(AHEAD),
            host=chance.choice(["gpu1", "gpu2"]),
            dev=chance.randrange(2),
            op=chance.choice(["AllReduce", "Send"]),
            n=n,
        )
        told.append(
            call + chance.choice(BEHIND)
            if chance.random() < 0.9
            else chance.choice(OTHERS)
        )
    place = pl.int_range(many, dtype=pl.Int64, eager=True)
    line = (place * files // many) * FILE + place + 1
    return pl.DataFrame({"line": line, "raw": told})


@pytest.mark.parametrize("seed", range(4))
def test_lines_that_begin_alike_are_framed_as_each_for_itself(monkeypatch, seed):
    told = lines(random.Random(seed), 2000, 1 + seed)
    alone = framing.frame(told)
    calls = []
    framed = framing._framed
    monkeypatch.setattr(framing, "_framed", lambda x: calls.append(x) or framed(x))
    monkeypatch.setattr(shared_heads, "LEAST", 10)
    monkeypatch.setattr(shared_heads, "FEW", 2)
    together = framing.frame(told)
    assert sum(some.height for some in calls) < told.height * 0.9
    assert_frame_equal(together, alone)


def test_lines_that_begin_with_a_time_are_all_framed(monkeypatch):
    monkeypatch.setattr(shared_heads, "LEAST", 10)
    raw = [
        f"2026-11-20T10:00:00.{n:03}Z gpu1:7:9 [0] NCCL INFO Send: opCount {n:x} send"
        for n in range(500)
    ]
    told = pl.DataFrame({"line": range(500), "raw": raw})
    segments = framing.frame(told)
    assert segments["t"].n_unique() == 500
    assert segments["text"].str.starts_with("Send: opCount ").all()
