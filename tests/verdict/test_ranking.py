"""Roots come before echoes, witnesses never rule, and nobody is a root by itself."""

from dataclasses import dataclass

import pytest

from ncclforensics.model.findings import Cite, Finding, NotChecked, RuledOut
from ncclforensics.verdict import ranking


@dataclass(frozen=True)
class Class:
    explains: tuple[str, ...] = ()
    spreads: bool = False
    told_within_s: int = 120
    family: str = "desync"


CLASSES = {
    "gpu-oom": Class(("crashed-rank", "timeout-masking"), spreads=True),
    "crashed-rank": Class(("missing-rank", "timeout-masking")),
    "missing-rank": Class(("crashed-rank", "timeout-masking")),
    "timeout-masking": Class(),
}


def finding(slug, *ranks, confidence="certain", first_seen=None, calls=()):
    return Finding(
        slug=slug,
        confidence=confidence,
        headline=slug,
        evidence=(Cite("a.log", 1, "x"),),
        explanation="",
        remedy=(),
        ranks=ranks,
        first_seen=first_seen,
        calls=frozenset(calls),
    )


def ranked(*statements, signs=1):
    return ranking.rank(statements, CLASSES, signs, {})


def roles(found):
    return {f.slug: role for role, f in found.findings}


def test_a_cause_makes_echoes_of_what_it_explains():
    found = ranked(finding("crashed-rank", 0, 1), finding("gpu-oom", 3))
    assert found.verdict.slug == "gpu-oom"
    assert roles(found) == {"gpu-oom": "root", "crashed-rank": "echo"}


def test_a_crash_explains_the_absence_of_its_own_rank_only():
    own = ranked(finding("crashed-rank", 3), finding("missing-rank", 3))
    assert roles(own) == {"crashed-rank": "root", "missing-rank": "echo"}
    other = ranked(finding("crashed-rank", 3), finding("missing-rank", 5))
    assert set(roles(other).values()) == {"root"}


def test_failures_at_two_ends_of_the_waits_are_two():
    crash = finding("crashed-rank", 3, calls=(0, 1))
    apart = ranked(finding("missing-rank", 5, calls=(2,)), crash)
    assert roles(apart) == {"missing-rank": "root", "crashed-rank": "root"}
    gpu = finding("gpu-oom", 3, calls=(0,))
    one = ranked(gpu, finding("crashed-rank", 5, calls=(0, 2)))
    assert roles(one) == {"gpu-oom": "root", "crashed-rank": "echo"}
    two = ranked(gpu, finding("crashed-rank", 5, calls=(2,)))
    assert roles(two) == {"gpu-oom": "root", "crashed-rank": "root"}


def test_two_that_are_only_possible_compete_unless_they_are_at_two_ends():
    def of(*calls):
        maybe = [
            finding(slug, rank, confidence="possible", calls=some)
            for (slug, rank), some in zip(
                (("missing-rank", 3), ("gpu-oom", 5)), calls, strict=True
            )
        ]
        return ranked(*maybe)

    rivals = of((), ())
    assert (rivals.outcome, rivals.verdict) == ("inconclusive", None)
    both = of((1,), (2,))
    assert both.outcome == "failure"
    assert both.verdict is not None


def test_of_two_that_explain_each_other_the_one_listed_first_is_the_cause():
    found = ranked(finding("missing-rank", 3), finding("crashed-rank", 3))
    assert found.verdict.slug == "crashed-rank"


def test_a_timeout_beside_a_cause_is_a_witness():
    found = ranked(finding("timeout-masking"), finding("missing-rank", 3))
    assert found.outcome == "failure"
    assert roles(found) == {"missing-rank": "root", "timeout-masking": "witness"}


def test_a_timeout_alone_is_the_verdict_of_an_inconclusive_job():
    found = ranked(finding("timeout-masking"))
    assert (found.outcome, found.verdict.slug) == ("inconclusive", "timeout-masking")


@pytest.mark.parametrize(("signs", "outcome"), [(0, "no-failure"), (2, "inconclusive")])
def test_without_a_finding_the_signs_decide(signs, outcome):
    told = (RuledOut("gpu-oom", "x"), NotChecked("missing-rank", "x", "y"))
    found = ranked(*told, signs=signs)
    assert (found.outcome, found.verdict) == (outcome, None)
    assert (len(found.ruled_out), len(found.not_checked)) == (1, 1)


def test_the_surer_and_then_the_earlier_of_two_roots_comes_first():
    early = finding("missing-rank", 1, first_seen=10)
    late = finding("missing-rank", 2, first_seen=20)
    unsure = finding("gpu-oom", 9, confidence="likely", first_seen=1)
    order = [f.ranks for _, f in ranked(late, unsure, early).findings]
    assert order == [(1,), (2,), (9,)]
