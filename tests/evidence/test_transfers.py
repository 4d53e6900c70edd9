"""Calls that take longer on their last member: the network of a group, or of a host."""

import polars as pl
import pytest

import slowness_streams
from ncclforensics.analysis import analyze
from ncclforensics.evidence.transfers import standing_apart

USUAL = {
    "backend": "timed", "shape": "tp", "width": 4, "world": 16, "per_host": 4,
    "calls": 4, "step": 0.6, "steps": 60, "syncs": 1, "sigma": 0.02, "spikes": 0.0,
    "transfer": 0.12, "spread": 0.3, "off": [0.0] * 4, "drift": [0.0] * 4,
    "bias": [0.0] * 16, "weight": [1.0] * 4, "slow": set(),
}  # fmt: skip


class Falling(slowness_streams.Play):
    """A job in which links are slower from half of its steps on."""

    def tp(self):
        """Make a step."""
        half = len(self.ends) >= self.job.steps // 2
        self.job.links = self.job.late if half else {}
        super().tp()


def report(tmp_path, links, play=slowness_streams.Play, **other):
    """Analyze a job with groups whose transfers take so many times as long."""
    job = slowness_streams.Job("steady", "1")
    for name, value in {**USUAL, "links": links, "late": links, **other}.items():
        setattr(job, name, value)
    played = play(job, job.share)
    played.play()
    played.write(tmp_path, ended=True)
    return analyze([str(tmp_path)]).report


def test_a_group_that_is_slower_than_its_sisters_is_told_and_nobody_blamed(tmp_path):
    told = report(tmp_path, {"d2": 2.5})
    assert (told.verdict.slug, told.verdict.confidence) == ("slow-network", "likely")
    assert "all_reduce of ranks 2,6,10,14" in told.verdict.headline
    assert "84.0 in its sister groups: 2.5 times as long" in told.verdict.headline
    assert told.verdict.culprits.ranks == told.verdict.culprits.hosts == ()
    assert "GPU 2 of each of their hosts" in told.verdict.explanation
    assert [(s.rank, s.weight) for s in told.suspects] == [
        (rank, 0.25) for rank in (2, 6, 10, 14)
    ]


def test_the_only_host_of_the_slower_group_is_blamed(tmp_path):
    told = report(tmp_path, {"i2": 4.0}, transfer=0.3)
    assert told.verdict.slug == "slow-network"
    assert told.verdict.culprits.hosts == ("gpu0003",)
    assert told.suspects == ()


def test_a_bandwidth_that_falls_for_good_is_possible(tmp_path):
    told = report(tmp_path, {f"d{n}": 2.5 for n in range(4)}, Falling)
    (found,) = (f for f in told.findings if f.slug == "slow-network")
    assert found.confidence == "possible"
    assert "before: 2.5 times as long" in found.headline
    assert "and so in 3 more" in found.headline


def test_half_of_the_groups_may_be_of_another_kind_and_are_possible(tmp_path):
    told = report(tmp_path, {"d1": 2.5, "d2": 2.5})
    assert told.outcome == "inconclusive"
    (found,) = (f for f in told.findings if f.slug == "slow-network")
    assert (found.confidence, found.culprits.ranks) == ("possible", ())
    assert "2.5 times as long, and so in 1 more" in found.headline


@pytest.mark.parametrize(
    ("links", "other"),
    [
        ({}, {}),
        ({}, {"slow": {5}, "share": 0.3}),  # who waits is no slow link
        ({"d2": 1.3}, {}),
        ({"d2": 2.5}, {"transfer": 0.001}),  # it costs nothing
    ],
)
def test_what_is_as_usual_or_costs_nothing_is_no_slow_network(tmp_path, links, other):
    told = report(tmp_path, links, **other)
    assert "slow-network" not in {f.slug for f in told.findings}


def calls_of(few):
    """Return calls of two groups, all of the second longer than any of the first."""
    took = {"low": [0.1, 0.4], "usually": [0.1, 0.4], "high": [0.11, 0.41]}
    return pl.DataFrame({"what": ["reduce"] * 2, "n": [few] * 2, **took})


@pytest.mark.parametrize(("few", "tells"), [(5, False), (7, True)])
def test_of_few_calls_some_are_the_longest_by_chance(few, tells):
    """Of 10 calls any 5 are the longest in 1 of 252 jobs, of 14 any 7 in 1 of 3,432."""
    apart = standing_apart(calls_of(few), "what")
    assert apart["slow"].to_list() == [False, tells]
