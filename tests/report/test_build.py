"""The report holds what was found, cleaned, bounded and in one order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ncclforensics.diagnosers.domains import Lies
from ncclforensics.model import tables
from ncclforensics.model.findings import Cite, Ranked
from ncclforensics.model.frames import Frames
from ncclforensics.report.build import MOST_CITES, build, rfc3339
from ncclforensics.report.formats.as_json import render_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.report.class_docs import Documented


def test_family_and_references_come_from_the_class(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    verdict = build(ranked, frames, classes).verdict
    assert verdict is not None
    assert verdict.family == "desync"
    assert verdict.references == (
        "https://pytorch.org/docs/stable/distributed.html",
        "ProcessGroupNCCL.cpp, function runLoop",
    )


def test_text_of_a_log_is_cleaned_everywhere(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    bad = "\x1b[2Jtext\r\n\u202e\udcff" + "x" * 5000
    assert ranked.verdict is not None
    verdict = replace(
        ranked.verdict,
        headline=bad,
        explanation=bad,
        remedy=(bad,),
        evidence=(Cite(bad, 1, bad),),
        hosts=(bad,),
    )
    hostile = replace(
        ranked,
        verdict=verdict,
        findings=(("root", verdict),),
        job={"hosts": [bad], "nccl_version": bad, "launcher": bad},
    )
    dirty = Frames(
        {
            "sources": tables.rows(
                "sources", [{"source": "\x1b[2Ja\u202e", "kind": "log", "rows": 1}]
            ),
            "notes": tables.rows("notes", [{"stage": "parsers", "text": "\x07bell"}]),
        }
    )
    report = build(hostile, dirty, classes)
    text = render_json(report)
    assert "\\u00" not in text
    assert not {"\x1b", "\r", "\u202e", "\udcff"} & set(text)
    assert report.sources[0].source == "a"
    assert report.notes[0].text == "bell"
    assert report.verdict is not None
    assert report.verdict.evidence[0].text.endswith("…")
    assert len(report.verdict.evidence[0].text) == 400


def test_many_cites_are_cut_and_a_note_says_so(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    cites = tuple(Cite("a.log", i, "x") for i in range(MOST_CITES + 5))
    verdict = replace(ranked.verdict, evidence=cites)
    long = replace(ranked, verdict=verdict, findings=(("root", verdict),))
    report = build(long, frames, classes)
    assert report.verdict is not None
    assert len(report.verdict.evidence) == MOST_CITES
    assert report.notes[-1].stage == "report"
    assert report.notes[-1].text == "missing-rank: 1000 of 1005 cited lines are kept"


def test_the_order_of_files_and_sets_does_not_matter(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    turned = Frames({k: v.reverse() for k, v in frames.tables.items()})
    hosts = ranked.job["hosts"]
    assert isinstance(hosts, list)
    shuffled = replace(ranked, job={**ranked.job, "hosts": hosts[::-1]})
    assert build(shuffled, turned, classes) == build(ranked, frames, classes)


def test_unread_evidence_is_never_health(classes: Mapping[str, Documented]) -> None:
    photos = Frames(
        {
            "sources": tables.rows(
                "sources",
                [
                    {"source": "a.jpg", "kind": "unknown"},
                    {"source": "words.txt", "kind": "log", "rows": 0},
                ],
            )
        }
    )
    assert build(Ranked("no-failure", None), photos, classes).outcome == "inconclusive"


def test_an_unknown_job_is_null(
    frames: Frames, classes: Mapping[str, Documented]
) -> None:
    job = build(Ranked("no-failure", None), frames, classes).job
    assert (job.world_size, job.hosts, job.launcher) == (None, (), None)


@pytest.mark.parametrize(
    ("t", "written"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_767_323_045_000_000_001, "2026-01-02T03:04:05.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (10**30, None),
    ],
)
def test_times_are_rfc3339_with_nanoseconds(t: int | None, written: str | None) -> None:
    assert rfc3339(t) == written


@pytest.mark.parametrize(
    ("told", "hosts", "restart"),
    [
        (
            "after draining HOST",
            ("gpu0002", "gpu0001"),
            "after draining gpu[0001-0002]",
        ),
        ("after draining HOST", (), "unknown"),
        ("yes", (), "yes"),
    ],
)
def test_a_restart_names_the_hosts_to_drain_or_is_unknown(
    ranked: Ranked,
    frames: Frames,
    classes: Mapping[str, Documented],
    told: str,
    hosts: tuple[str, ...],
    restart: str,
) -> None:
    assert ranked.verdict is not None
    slug = ranked.verdict.slug
    entry = replace(classes[slug], domain="hardware", restart=told)  # type: ignore[type-var]
    verdict = replace(ranked.verdict, hosts=hosts)
    told_of = replace(ranked, verdict=verdict, findings=(("root", verdict),))
    found = build(told_of, frames, {**classes, slug: entry}).verdict
    assert found is not None
    assert (found.domain, found.restart) == ("hardware", restart)


def test_evidence_may_show_more_of_where_a_failure_lies_than_its_class(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    slug = ranked.verdict.slug
    more = {"odd": Lies("storage", "yes", "it is odd")}
    entry = replace(classes[slug], variants=more)  # type: ignore[type-var]
    for variant, told in (("odd", "storage"), ("", "unknown"), ("other", "unknown")):
        verdict = replace(ranked.verdict, variant=variant)
        told_of = replace(ranked, verdict=verdict, findings=(("root", verdict),))
        found = build(told_of, frames, {**classes, slug: entry}).verdict
        assert found is not None
        assert found.domain == told
