"""Tags are told apart by bytes as the pattern tells them, and a few of each are kept."""

import re

import numpy as np
import pytest

from ncclforensics.parsers.logs import search_terms, tag_lines
from ncclforensics.parsers.logs.ended_texts import UNKNOWN
from ncclforensics.parsers.logs.hits import Hits, placed, rows_under
from ncclforensics.parsers.logs.lines import decoded
from ncclforensics.parsers.logs.needles import in_bulk

SEARCH = search_terms.search()
NEEDLE = b"rank "
NUMBER = SEARCH.needles.index(NEEDLE)


@pytest.mark.parametrize(
    ("behind", "number"),
    [
        (b"7", 7),
        (b"7\n", 7),
        (b"(12) left", 12),
        (b"123456", 123456),
        (b"1234567", 123456),
        (b"0042 3", 42),
        (b"of 3", UNKNOWN),
        (b"_1", UNKNOWN),
        (b"((( 1", UNKNOWN),
        (b"", UNKNOWN),
    ],
)
def test_the_number_behind_a_needle_is_what_the_pattern_takes(behind, number):
    data = b"its rank " + behind
    found = tag_lines._numbers(data, np.array([data.index(NEEDLE) + len(NEEDLE)]))
    assert found.tolist() == [number]
    told = re.search(tag_lines.NUMBERED.encode(), data)
    assert number == (int(told[1]) if told else UNKNOWN)


def hits(block):
    return placed(block, {NUMBER: in_bulk(block.data, NEEDLE)})


def test_of_each_tag_the_first_lines_and_the_last_one_are_kept():
    lines = [f"[rank {i % 3}] part {i} is done" for i in range(600)]
    lines[100] = "[rank 7] my only line"
    lines[200] = "took rank 2 from the list"
    lines[300] = "no rank at all"
    lines[400] = "the rank is told as Rank=5"
    block = decoded("".join(f"{line}\n" for line in lines).encode(), 1)
    few = tag_lines.few(block, hits(block), SEARCH).tolist()
    assert few == sorted(few)
    kept = [lines[row].split("]")[0] for row in few]
    each = tag_lines.TAG_LINES + 1
    assert {tag: kept.count(tag) for tag in kept} == {
        **{f"[rank {rank}": each for rank in range(3)},
        "[rank 7": 1,
    }
    assert {597, 598, 599} < {*few}
    assert not {200, 300, 400} & {*few}


def test_the_rows_below_each_row_are_kept_once_and_end_with_the_block():
    def under(rows, ends, pending=0):
        some = np.array(rows, np.int64), np.array(ends, np.int64)
        return rows_under(*some, pending, 10).tolist()

    assert under([2, 3, 8], [4, 4, 15]) == [2, 3, 8, 9]
    assert under([2, 2], [3, 6], pending=1) == [0, 2, 3, 4, 5]
    assert under([], [], pending=20) == [*range(10)]
    assert under([], []) == []


def test_hits_are_chosen_by_their_needles():
    block = decoded(b"one\ntwo two\n", 1)
    told = placed(block, {5: in_bulk(block.data, b"two"), 3: np.array([0])})
    assert isinstance(told, Hits)
    assert told.row.tolist() == [1, 1, 0]
    assert told.only(told.of({3})).place.tolist() == [0]
    assert not told.of(set()).any()
