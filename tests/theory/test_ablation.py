"""What the benchmark leaves out exists, so that it leaves something out."""

from __future__ import annotations

import pytest

import ablation


@pytest.mark.parametrize("kind", ablation.KINDS)
def test_each_kind_of_observation_can_be_left_out(kind):
    places = [(of, name) for of, name, _ in ablation.KINDS[kind]]
    known = [vars(of)[name] for of, name in places]
    with ablation.without(kind):
        assert all(
            vars(of)[name] is not old
            for (of, name), old in zip(places, known, strict=True)
        )
    assert [vars(of)[name] for of, name in places] == known
