"""Calls that are counted by the bytes of their lines are those that a reader counts."""

import random
import re
from collections import Counter

import numpy as np
import pytest

from ncclforensics.parsers.logs import search_terms
from ncclforensics.parsers.logs.call_counting import COUNTS, CallCounting
from ncclforensics.parsers.logs.ended_texts import UNKNOWN, EndedTexts
from ncclforensics.parsers.logs.lines import decoded
from ncclforensics.parsers.logs.needles import in_bulk
from ncclforensics.parsers.logs.repeated_needles import in_lines

FIRST, LAST = 5, 20
CALL = (
    "{ahead}{host}:{pid}:{tid} [{pid}] NCCL INFO {op}: opCount {n:x} sendbuff 0x7f1 "
    "recvbuff 0x7f2 count 8 datatype 7 op 0 root {root} comm {comm} [nranks=4] stream 0"
)
WHO = re.compile(r"([^\s:]+:\d+):\d+ \[.*? comm (\S+) \[nranks=")
ODD = (
    "AllReduce: opCount 3 is what NCCL prints of a call",
    "gpu1:7:9 [0] NCCL INFO AllReduce: opCount 3 sendbuff 0x7",
    "AllGather: opCount 3 comm 0x7f30 [nranks=4]",
    "xgpu1:7:9 [0] NCCL INFO Send: opCount 3 count 1 comm 0x7f3000 [nranks=4] stream",
)


@pytest.fixture(autouse=True)
def few_are_read(monkeypatch):
    monkeypatch.setattr(search_terms, "FIRST_CALLS", FIRST)
    monkeypatch.setattr(search_terms, "LAST_CALLS", LAST)


def call(chance, n, **told):
    return CALL.format(
        ahead=chance.choice(["", f"2026-11-20T10:00:00.{n:06}Z ", "[1,0]<stdout>:"]),
        host=chance.choice(["gpu1", "xgpu1"]),
        pid=chance.choice([7, 17]),
        tid=chance.randrange(3),
        op=told.get("op") or chance.choice(["AllReduce", "Send"]),
        n=n,
        root=chance.randrange(3),
        comm=chance.choice(["0x7f3000", "0x17f3000", "0x7f3000aabbccddee", "0x1"]),
    )


def calls(chance, many):
    """Lines of two hosts whose names end alike, of pointers that do, and of stamps.

    Two writers' lines may be one: it counts as the call that it begins with.
    """
    for n in range(many):
        if chance.random() < 0.02:
            yield chance.choice(ODD)
        elif chance.random() < 0.02:
            first, second = (call(chance, n, op="AllReduce") for _ in range(2))
            yield first[: chance.choice([None, -20, -70])] + second
        else:
            yield call(chance, n)


# of a line each, fewer blocks are enough for more calls of each than are read
@pytest.mark.parametrize(("each", "many"), [(1, 600), (300, 3000), (5000, 3000)])
@pytest.mark.parametrize("texts", [0, 65_536])
def test_calls_are_counted_as_if_each_line_were_parsed(monkeypatch, each, many, texts):
    monkeypatch.setattr("ncclforensics.parsers.logs.call_counting.TEXTS", texts)
    lines = [*calls(random.Random(each), many)]
    counting = CallCounting()
    at_once = set()
    for start in range(0, len(lines), each):
        some = lines[start : start + each]
        block = decoded("".join(f"{x}\n" for x in some).encode(), start + 1)
        rows, at = in_lines(block, b": opCount ")
        left = counting.left_out(block, at, rows)
        assert {*left} <= {*rows}
        at_once |= {*(rows + start + 1)} - {*(left + start + 1)}
    read, counts = counting.done()
    assert read["raw"].to_list() == [lines[line - 1] for line in read["line"]]

    of = {}
    for number, line in enumerate(lines, 1):
        if found := WHO.search(line):
            of.setdefault(found.groups(), []).append(number)
    expected_at_once = {n for n, x in enumerate(lines, 1) if not WHO.search(x)}
    last, told = set(), []
    for own in of.values():
        expected_at_once |= {*own[:FIRST]}
        last |= {*own[FIRST:][-LAST:]}
        if between := own[FIRST:-LAST]:
            numbered = sum("Send: " not in lines[n - 1] for n in between)
            told.append((own[-LAST], between[0], len(between), numbered))
    assert len(told) > 10
    assert at_once == expected_at_once
    assert {*read["line"]} == last
    assert counts.select(COUNTS).rows() == sorted(told)


def test_without_calls_there_is_nothing_to_count():
    assert CallCounting().done() is None
    block = decoded(f"{ODD[0]}\n".encode(), 1)
    at = in_bulk(block.data, b": opCount ")
    counting = CallCounting()
    assert counting.left_out(block, at, block.rows_of(at)).size == 0
    assert counting.done() is None


def test_a_text_is_known_only_where_it_is_whole():
    texts = EndedTexts()
    texts.learn({b"gpu0001:7": 1, b"gpu0001:71": 2, b"short": 3})
    data = b"gpu0001:7 xgpu0001:7 :gpu0001:7 gpu0001:71 gpu0001:8 short"
    ends = [at for at, byte in enumerate(data) if byte in b" "] + [len(data)]
    found = texts.numbers(data, np.array(ends))
    assert found.tolist() == [1, UNKNOWN, 1, 2, UNKNOWN, UNKNOWN]
    assert texts.many == 2


def test_equal_ends_of_long_texts_are_told_apart():
    chance = random.Random(1)
    names = {f"{chance.randrange(10**9):09}-gpu:{n % 7}" for n in range(5000)}
    texts = EndedTexts()
    texts.learn({name.encode(): n for n, name in enumerate(sorted(names))})
    assert texts.many == len(names)
    data = "".join(f"{name} " for name in sorted(names)).encode()
    ends = np.flatnonzero(np.frombuffer(data, "uint8") == ord(" "))
    assert Counter(texts.numbers(data, ends)).most_common(1)[0][1] == 1
