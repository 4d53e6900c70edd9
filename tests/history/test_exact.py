"""The tail is the exact one, and a mark is rare where nobody differs."""

import random
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from ncclforensics.history.exact import marked, upper_tails


def upper_tail(count, total, share):
    return upper_tails(np.array([count]), total, np.array([share]))[0]


def held(counts, hours):
    """Who stands out, and what is expected of each, and its tail, by name."""
    names = sorted({*counts, *hours})
    marks = marked(
        np.array([counts.get(name, 0) for name in names], np.int64),
        np.array([hours.get(name, 0.0) for name in names]),
        sum(hours.values()),
        len(hours),
    )
    out = {name for name, is_out in zip(names, marks.stands_out, strict=True) if is_out}
    each = zip(marks.expected, marks.tail, strict=True)
    return out, dict(zip(names, each, strict=True))


@pytest.mark.parametrize(
    ("count", "total", "share"),
    [(0, 5, 0.2), (3, 10, 0.1), (14, 43, 1 / 63), (30, 40, 0.5), (12, 40, 0.5),
     (40, 40, 0.5), (1, 1, 0.25), (2, 60, 1e-6)],
)  # fmt: skip
def test_the_tail_is_that_of_whole_fractions(count, total, share):
    p = Fraction(share)
    terms = (
        comb(total, i) * p**i * (1 - p) ** (total - i) for i in range(count, total + 1)
    )
    assert upper_tail(count, total, share) == pytest.approx(float(sum(terms)), rel=1e-9)


def test_a_share_of_all_or_of_nothing():
    assert upper_tail(3, 3, 1.0) == 1
    assert upper_tail(3, 1_000_000, 0.5) == 1
    assert upper_tail(900_000, 1_000_000, 0.5) == 0


def test_three_of_sixty_three_nodes_stand_out_and_hide_nobody():
    hours = {f"gpu{n:02}": 1000.0 for n in range(63)}
    counts = {"gpu00": 200, "gpu01": 30, "gpu02": 12} | {
        f"gpu{n:02}": 1 for n in range(3, 40)
    }
    out, each = held(counts, hours)
    assert out == {"gpu00", "gpu01", "gpu02"}
    # and the rest is held against what is left without them
    assert each["gpu03"][0] == pytest.approx(37 / 60)
    # held against all that the worst one had, 12 of 279 would be no surprise
    assert upper_tail(12, 279, 1 / 63) * 63 > 0.01


def test_two_faults_of_a_node_among_many_are_no_mark():
    counts = {f"gpu{n:04}": 1 for n in range(50)} | {"gpu0099": 2}
    out, each = held(counts, {f"gpu{n:04}": 1.0 for n in range(1000)})
    assert out == set()
    assert each["gpu0099"][1] == pytest.approx(upper_tail(2, 52, 1 / 1000))


def test_who_worked_more_has_more():
    hours = {"busy": 4000.0, "idle": 100.0, "new": 10.0}
    assert held({"busy": 40, "idle": 1}, hours)[0] == set()
    assert held({"busy": 1, "idle": 40}, hours)[0] == {"idle"}


def test_nothing_to_hold_against_is_no_mark():
    assert held({"alone": 9}, {"alone": 1.0}) == (set(), {"alone": (9, 1)})
    out, each = held({"unseen": 9, "seen": 1}, {"seen": 1.0, "other": 1.0})
    assert out == set()
    assert np.isnan(each["unseen"]).all()
    assert each["seen"] == (0.5, 0.5)  # the events of who is left out count for nobody
    assert held({}, {}) == (set(), {})


def test_fleets_in_which_nobody_differs_are_marked_less_often_than_promised():
    rng = random.Random(7)
    hours = {str(n): rng.expovariate(1) for n in range(200)}
    names, weights = [*hours], [*hours.values()]
    wrong = 0
    for _ in range(300):
        counts = {}
        for name in rng.choices(names, weights, k=60):
            counts[name] = counts.get(name, 0) + 1
        wrong += bool(held(counts, hours)[0])
    assert wrong <= 9  # 1 % of 300 are 3; 10 or more would be a chance of 0.1 %
