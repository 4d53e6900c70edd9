"""Needles are spelled out as a shell does it with braces."""

import pytest

from ncclforensics.parsers.logs.alternatives import spelled_out


@pytest.mark.parametrize(
    ("needle", "told"),
    [
        ("plain", ["plain"]),
        ("{a,b}c", ["ac", "bc"]),
        ("x{a,b}{=,: }", ["xa=", "xa: ", "xb=", "xb: "]),
        ("{a,}b", ["ab", "b"]),
        ("{'loss': ", ["{'loss': "]),  # no alternatives
        ("{one}", ["{one}"]),
    ],
)
def test_each_alternative_is_a_needle(needle, told):
    assert spelled_out([needle]) == tuple(told)


def test_a_needle_is_told_once():
    assert spelled_out(["{a,b}", "b", "{b,a}"]) == ("a", "b")
