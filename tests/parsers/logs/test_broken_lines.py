"""Lines that a container runtime wrote in pieces are one line again."""

import json

import polars as pl

from ncclforensics.parsers.logs.broken_lines import joined
from ncclforensics.parsers.logs.framing import frame

AT = "2026-03-01T10:00:00.123456789Z"


def lines(*raw):
    numbered = {"line": range(1, len(raw) + 1), "raw": raw}
    return pl.DataFrame(numbered, schema={"line": pl.Int64, "raw": pl.String})


def docker(log, stream="stderr"):
    return json.dumps({"log": log, "stream": stream, "time": AT}, separators=(",", ":"))


def test_pieces_of_a_stream_are_joined_up_to_the_full_one():
    found = joined(
        lines(
            f"{AT} stderr P Watchdog cau",
            f"{AT} stdout F step 3",
            f"{AT} stderr P ght coll",
            f"{AT} stderr F ective",
            f"{AT} stderr F next",
        )
    )
    assert found.rows() == [
        (1, f"{AT} stderr F Watchdog caught collective"),
        (2, f"{AT} stdout F step 3"),
        (5, f"{AT} stderr F next"),
    ]


def test_a_piece_whose_end_is_not_there_stays_a_piece():
    half = joined(lines(f"{AT} stderr P one ", f"{AT} stderr P two "))
    assert half.rows() == [(1, f"{AT} stderr P one two ")]
    rest = lines(f"{AT} stderr F three").with_columns(line=pl.lit(3, pl.Int64))
    assert joined(pl.concat([half, rest])).rows() == [
        (1, f"{AT} stderr F one two three")
    ]


def test_docker_splits_at_16_kib_and_ends_with_a_newline():
    found = joined(lines(docker("a\tb"), docker("x\n", "stdout"), docker("c\n")))
    assert found.rows() == [(1, f"{AT} stderr F a\tbc"), (2, f"{AT} stdout F x")]


def test_the_time_of_the_runtime_is_kept():
    told = frame(joined(lines(docker("h:1:2 [0] NCCL INFO Using network IB\n"))))
    at = "2026-03-01T10:00:00.123456789"
    assert told["t"].dt.to_string("%Y-%m-%dT%H:%M:%S%.9f").to_list() == [at]
    assert (told["host"][0], told["text"][0]) == ("h", "Using network IB")


def test_json_that_is_cut_and_text_that_looks_alike_are_left_alone():
    raw = ('{"log":"half', "the stdout P line of a log", f"{AT} neither")
    assert joined(lines(*raw))["raw"].to_list() == list(raw)
