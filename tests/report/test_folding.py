"""Sets fold to what people write, and nothing is lost on the way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclforensics.model.folding import (
    count,
    fold_hosts,
    fold_ranks,
    name_ranks,
    natural,
    some,
    unfold_ranks,
)


@pytest.mark.parametrize(
    ("ranks", "folded"),
    [
        ((), ""),
        ((7,), "7"),
        ((1, 0), "0-1"),
        ((3, 1, 2, 9, 9), "1-3,9"),
        (tuple(r for r in range(1024) if r != 617), "0-616,618-1023"),
    ],
)
def test_ranks_fold(ranks: tuple[int, ...], folded: str) -> None:
    assert fold_ranks(ranks) == folded


@given(st.frozensets(st.integers(0, 100_000), min_size=1))
def test_folded_ranks_unfold_to_the_same(ranks: frozenset[int]) -> None:
    assert unfold_ranks(fold_ranks(ranks)) == ranks


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "0-99999999", "1.5"])
def test_what_is_no_set_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rank"):
        unfold_ranks(text)


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        ([], ""),
        (["gpu0078"], "gpu0078"),
        ([f"gpu{i:04}" for i in (1, 2, 3, 18)], "gpu[0001-0003,0018]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n1", "n01", "n02"], "n[01-02],n1"),
        (["gpu0999", "gpu1000"], "gpu[0999-1000]"),
        (["r1-n1.lab", "r1-n2.lab", "r2-n1.lab"], "r1-n[1-2].lab,r2-n1.lab"),
        (["gpu01-ib0", "gpu02-ib0"], "gpu[01-02]-ib0"),
        (["10.0.0.7", "10.0.0.8", "head"], "10.0.0.[7-8],head"),
        (["alpha", "beta"], "alpha,beta"),
    ],
)
def test_hosts_fold(hosts: list[str], folded: str) -> None:
    assert fold_hosts(reversed(hosts)) == folded


def unfold_hosts(folded: str) -> set[str]:
    names: set[str] = set()
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", folded):
        spans = re.fullmatch(r"(.*)\[(.*)\](.*)", part)
        if spans is None:
            names.add(part)
            continue
        for span in spans[2].split(","):
            first, _, last = span.partition("-")
            width = len(first) if first.startswith("0") else 0
            names |= {
                f"{spans[1]}{n:0{width}}{spans[3]}"
                for n in range(int(first), int(last or first) + 1)
            }
    return names


@given(st.sets(st.from_regex(r"[ab]{1,2}[0-9]{1,3}(-[01]{1,2})?", fullmatch=True)))
def test_folded_hosts_unfold_to_the_same(hosts: set[str]) -> None:
    assert unfold_hosts(fold_hosts(hosts)) == hosts


def test_names_sort_by_their_numbers() -> None:
    assert sorted(["n10", "n9", "a", "10", "9"], key=natural) == [
        "9",
        "10",
        "a",
        "n9",
        "n10",
    ]


def test_numbers_have_separators_and_the_right_noun() -> None:
    assert count(1024, "rank") == "1,024 ranks"
    assert count(1, "rank") == "1 rank"
    assert count(2, "entry", "entries") == "2 entries"


def test_a_cut_set_ends_at_a_whole_run() -> None:
    assert some("0-616,618-1023", 10) == "0-616,…"
    assert some("0-616", 10) == "0-616"


@pytest.mark.parametrize(
    ("ranks", "folded"),
    [
        (range(0, 1024, 8), "0-1016:8"),
        ([*range(0, 80, 8), 81, 82, 83], "0-72:8,81-83"),
        (range(0, 40, 8), "0-32:8"),
        (range(0, 32, 8), "0,8,16,24"),  # 0-24:8 looks like 25 ranks
        ([5, 7, 9], "5,7,9"),
        ([0, 4, 5, 6, *range(8, 44, 4)], "0,4-6,8-40:4"),
    ],
)
def test_many_ranks_at_equal_distances_fold(ranks, folded):
    assert fold_ranks(ranks) == folded


def test_behind_a_stride_stands_how_many_ranks_it_is():
    assert name_ranks(range(0, 1024, 8)) == "ranks 0-1016:8 (128 in all)"
    assert name_ranks(range(8)) == "ranks 0-7"


@given(st.integers(0, 99), st.integers(1, 9), st.integers(0, 40))
def test_a_stride_reads_back(first, step, many):
    ranks = frozenset(range(first, first + step * many, step))
    assert unfold_ranks(fold_ranks(ranks) or "0") == (ranks or {0})


@pytest.mark.parametrize("text", ["0-8:0", "0-8:", "3:2", "8-0:2"])
def test_a_step_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="not a r"):
        unfold_ranks(text)
