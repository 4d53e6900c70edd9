"""Lines with a needle are found wherever it stands, also where the others lack it."""

import random

import pytest

from ncclforensics.parsers.logs.lines import decoded
from ncclforensics.parsers.logs.needles import in_bulk, stands
from ncclforensics.parsers.logs.repeated_needles import in_lines

NEEDLES = [
    b": opCount ",
    b"elapsed time per iteration (ms): ",
    b"ranks=",
    b"\xc3\xa9",
    b"=",
]


def lines(chance, many, needle):
    """Most lines hold the needle at one place, others elsewhere, twice, or nowhere."""
    for n in range(many):
        words = [f"gpu1:7:8 [0] step {n}".encode(), needle, b"0x7f1 count 8 stream 0"]
        kind = chance.randrange(20)
        if kind == 0:
            words = words[::2]
        elif kind == 1:
            words = [b"x" * chance.randrange(40), *words[1:]]
        elif kind == 2:
            words += words[1:]
        elif kind == 3:
            words = words[1:2]
        elif kind == 4:
            words = [needle[:-1], b""]
        yield b"".join(words)


@pytest.mark.parametrize("needle", NEEDLES)
@pytest.mark.parametrize("share", [1, 3])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_each_line_that_holds_a_needle_is_found_with_a_place_of_it(needle, share, end):
    chance = random.Random(share)
    told = [*lines(chance, 3000, needle)]
    if share > 1:  # most lines are of another kind
        told = [b"of another kind" if chance.randrange(share) else t for t in told]
    block = decoded(b"\n".join(told) + end, 1)
    rows, at = in_lines(block, needle)
    assert rows.tolist() == [n for n, line in enumerate(told) if needle in line]
    assert block.rows_of(at).tolist() == rows.tolist()
    assert stands(block.data, needle, at).all()


def test_a_place_is_compared_in_all_its_bytes():
    for size in (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33):
        needle = bytes(range(65, 65 + size))
        others = [needle[:i] + b"~" + needle[i + 1 :] for i in range(size)]
        data = b" ".join([needle, *others, needle])
        told = [data.find(needle), data.rfind(needle)]
        assert in_bulk(data, needle).tolist() == told
        every = in_bulk(b" " * 70_000 + data, needle)
        assert (every - 70_000).tolist() == told
