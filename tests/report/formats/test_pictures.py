"""The pictures of the page: text out of evidence stays text, and names are redacted."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import polars as pl
import pytest

import simulate_timeline
from known_jobs import known
from ncclforensics.diagnosers import CLASSES
from ncclforensics.model.frames import Frames
from ncclforensics.report.bundle import paper
from ncclforensics.report.formats.pictures import pictures
from ncclforensics.report.redact import KINDS

EVIL = "</title></svg><script>alert(1)</script>\x1b[2J\u202e\" onload='x' <img src=//e>"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]


def named(desc: str, redact: frozenset[str] = frozenset()):
    """A job of sixteen ranks whose tensor groups have a name out of a log."""
    job = simulate_timeline.Job(ranks=16, calls=24, culprit=9)
    made = simulate_timeline.collectives(job, 0, job.ranks)
    frames = simulate_timeline.frames(job, collectives=made)
    renamed = pl.col("pg_desc").replace(simulate_timeline.TENSOR, desc)
    tables = {
        name: frame.with_columns(renamed) if "pg_desc" in frame.columns else frame
        for name, frame in frames.tables.items()
    }
    report = simulate_timeline.report(job)
    return paper(report, Frames(tables, {}), (), CLASSES, redact)


def test_the_name_of_a_group_never_becomes_an_element():
    plain = Tags(named("harmless").render(".html")[0].decode())
    page = named(EVIL).render(".html")[0].decode()
    assert Tags(page).found == plain.found
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_redaction_reaches_into_the_pictures():
    path = "/home/alice/runs/secret-model/" + "deep/" * 9 + "groups of gpu0001"
    told = named(path, frozenset(KINDS))
    drawn = "".join(
        picture.drawn + "".join(picture.notes)
        for picture in pictures(told.report, told.details)
    )
    assert "groups of" in drawn
    assert "host" in drawn
    for secret in ("alice", "secret", "deep", "gpu0001"):
        assert secret in str(pictures(*plain(path)))
        assert secret not in drawn


def plain(path):
    told = named(path)
    return told.report, told.details


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        (
            "torch-chain",
            [
                "How long nobody noticed",
                "What each rank did",
                "Where the waits lead",
                "When it was first noticed",
            ],
        ),
        ("nccl-docker0", ["When it was first noticed"]),
        ("torch-healthy", []),
    ],
)
def test_each_picture_has_a_title_and_its_content_in_words(name, titles):
    found = known(name)
    told = paper(found.report, found.frames, (), CLASSES)
    drawn = pictures(told.report, told.details)
    assert [picture.title for picture in drawn] == titles
    for picture in drawn:
        svg = ET.fromstring(picture.drawn)
        assert svg.get("role") == "img"
        assert svg[0].tag == "title"
        assert svg[0].text
        assert svg[1].tag == "desc"
        assert len(svg[1].text or "") > 10


def test_every_state_that_is_drawn_is_in_the_legend():
    found = known("torch-chain")
    told = paper(found.report, found.frames, (), CLASSES)
    chart = next(p for p in pictures(told.report, told.details) if p.legend)
    assert [letter for letter, *_ in chart.legend] == ["·", "x", "E", "w", "X"]
    cells = ET.fromstring(chart.drawn).iter("path")
    kinds = {cell.get("class", "").split()[-1] for cell in cells}
    assert kinds == {"done", "away", "exited", "waiting", "own"}
