"""An edge from a cause to its effect needs a class, somebody in common, and time."""

import pytest

from ncclforensics.diagnosers import CLASSES
from ncclforensics.model.findings import Cite, Collective, Finding
from ncclforensics.verdict import causality, ranking

SECOND = 1_000_000_000
HALF_HOUR = 1800 * SECOND


def finding(slug, *ranks, hosts=(), t=None, own=False, line=1, **more):
    return Finding(
        slug=slug,
        confidence=more.pop("confidence", "certain"),
        headline=f"{slug} {ranks}",
        evidence=(Cite(f"{slug}.log", line, slug),),
        explanation="",
        remedy=(),
        ranks=ranks,
        hosts=hosts,
        first_seen=t,
        own=own,
        **more,
    )


def ranked(*findings):
    return ranking.rank(findings, CLASSES, 1, {})


def roles(found):
    return [(role, f.slug) for role, f in found.findings]


def test_a_fault_a_crash_and_an_absence_are_one_story_with_all_cites():
    call = Collective("5", "DATA_PARALLEL_GROUP", 4, "all_reduce")
    found = ranked(
        finding("missing-rank", 5, t=3 * SECOND, collective=call),
        finding("crashed-rank", 5, hosts=("gpu0003",), t=2 * SECOND, own=True),
        finding("gpu-fault", hosts=("gpu0003",), t=SECOND),
    )
    assert roles(found) == [
        ("root", "gpu-fault"),
        ("echo", "crashed-rank"),
        ("echo", "missing-rank"),
    ]
    assert found.causes == (None, 0, 1)
    verdict = found.verdict
    assert verdict.ranks == (5,)
    assert {c.source for c in verdict.evidence} >= {"gpu-fault.log", "crashed-rank.log"}


def test_an_effect_does_not_come_half_an_hour_before_its_cause():
    hang = finding("missing-rank", 2, t=0)
    fault = finding("gpu-fault", 2, t=HALF_HOUR)
    assert roles(ranked(fault, hang)) == [
        ("root", "missing-rank"),
        ("root", "gpu-fault"),
    ]
    soon = finding("gpu-fault", 2, t=60 * SECOND)
    assert roles(ranked(soon, hang)) == [
        ("root", "gpu-fault"),
        ("echo", "missing-rank"),
    ]


@pytest.mark.parametrize("hours", [1, 5.5, 8])
def test_whole_hours_between_two_logs_may_be_two_zones(hours):
    apart = int(hours * 3600) * SECOND
    assert not causality.is_before(0, apart, 120 * SECOND)
    assert causality.is_before(0, apart + 420 * SECOND, 120 * SECOND)


def test_a_crash_of_its_own_is_no_echo_of_another_rank():
    hang = finding("missing-rank", 2, hosts=("gpu0001",), t=0)
    own = finding("crashed-rank", 7, hosts=("gpu0004",), t=4 * SECOND, own=True)
    assert roles(ranked(own, hang)) == [
        ("root", "missing-rank"),
        ("root", "crashed-rank"),
    ]
    bare = finding("crashed-rank", 7, hosts=("gpu0004",), t=4 * SECOND)
    assert roles(ranked(bare, hang)) == [
        ("root", "missing-rank"),
        ("echo", "crashed-rank"),
    ]


def test_two_roots_come_in_order_of_onset():
    first = finding("crashed-rank", 3, t=0, own=True)
    second = finding("gpu-oom", 9, t=600 * SECOND, own=True)
    assert roles(ranked(second, first)) == [
        ("root", "crashed-rank"),
        ("root", "gpu-oom"),
    ]


def test_of_two_stories_that_are_only_possible_neither_accuses():
    found = ranked(
        finding("ib-error", 1, confidence="possible"),
        finding("gil-deadlock", 4, confidence="possible"),
    )
    assert (found.outcome, found.verdict) == ("inconclusive", None)
    assert {slug for _, slug in roles(found)} == {"ib-error", "gil-deadlock"}
    assert {role for role, _ in roles(found)} == {"root"}


def test_two_possible_stories_of_one_rank_accuse_it_all_the_same():
    found = ranked(
        finding("ib-error", 4, confidence="possible"),
        finding("gil-deadlock", 4, confidence="possible"),
    )
    assert found.outcome == "failure"
    assert found.verdict.ranks == (4,)


def test_every_finding_has_a_way_up_to_a_root():
    everything = [finding(slug, 1, t=0) for slug in CLASSES]
    found = ranked(*everything)
    assert "root" in {role for role, _ in found.findings}
    for number, cause in enumerate(found.causes):
        seen = {number}
        while cause is not None:
            assert cause not in seen
            seen.add(cause)
            cause = found.causes[cause]


def test_a_guess_about_a_whole_host_does_not_explain_a_surer_death_on_it():
    guess = finding("node-lost", *range(8, 16), hosts=("gpu1",), confidence="possible")
    death = finding("crashed-rank", 13, hosts=("gpu1",), confidence="likely")
    assert ranked(guess, death).verdict.slug == "crashed-rank"
    # where it names nobody else, it says why that rank died
    alone = finding("host-oom", 13, hosts=("gpu1",), confidence="possible")
    assert causality.brings_about(alone, death, CLASSES)


@pytest.mark.parametrize(
    ("rank", "root"), [(5, ["gpu-oom"]), (6, ["gpu-oom", "uneven-inputs"])]
)
def test_what_befell_a_rank_is_felt_in_its_own_calls(rank, root):
    found = ranked(
        finding("uneven-inputs", rank, t=2 * SECOND, calls=frozenset({0})),
        finding("gpu-oom", 5, t=SECOND),
    )
    assert [slug for role, slug in roles(found) if role == "root"] == root


def test_a_crash_does_not_explain_why_a_rank_called_something_else():
    found = ranked(
        finding("collective-mismatch", 5, calls=frozenset({0})),
        finding("crashed-rank", 5, own=True),
    )
    assert roles(found)[0] == ("root", "collective-mismatch")
