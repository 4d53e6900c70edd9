"""The HTML page: self-contained, bounded, and a log line in it stays text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace as with_

from ncclforensics.model.findings import Cite, Ranked
from ncclforensics.report.build import build
from ncclforensics.report.contract import Evidence, Onset, Step
from ncclforensics.report.details import Call, Details, Excerpt, Sign
from ncclforensics.report.formats.html import MOST_FILES, render_html
from ncclforensics.report.rank_calls import RankCalls, Row
from ncclforensics.report.wait_groups import Box, WaitGroups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.class_docs import Documented
    from ncclforensics.report.contract import Report

EVIL = (
    "</pre><script>alert(1)</script><img src=//e.vil onerror=x>"
    " \"'><a href=javascript:x>"
)


class Page(HTMLParser):
    """Collects the elements, the attributes that load something, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.loads: list[str | None] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def details(text: str) -> Details:
    return Details(
        excerpts=(Excerpt("a.log", 7, ("before", text, "after"), (8,)),),
        calls=(Call(text, "0-1", "", "", "2", ""),),
        rank_calls=RankCalls(
            ("a4", "a5"),
            1,
            (("a", text),),
            (Row("2", 1, "culprit", (1, 10), text), Row("0-1", 2, "", (1, 8), "")),
            more_rows=3,
            more_ranks=40,
        ),
        waits=WaitGroups((Box(0, (text, "x")), Box(1, ("0-1", text), (0,))), 2, 5),
        signs=(
            Sign(0, "2", text, True),
            Sign(90_000_000_000, "0-1", "later", False),
        ),
    )


def hostile(
    text: str,
    ranked: Ranked,
    frames: Frames,
    classes: Mapping[str, Documented],
) -> str:
    assert ranked.verdict is not None
    verdict = replace(
        ranked.verdict,
        headline=text,
        explanation=text,
        hosts=(text,),
        remedy=(text,),
        evidence=(Cite(text, 1, text),),
    )
    told = replace(ranked, verdict=verdict, findings=(("root", verdict),))
    return render_html(build(told, frames, classes), details(text), f"A {text}.")


def test_a_log_line_never_becomes_an_element(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    plain = Page(hostile("harmless", ranked, frames, classes))
    page = Page(hostile(EVIL, ranked, frames, classes))
    assert page.elements == plain.elements
    assert page.handlers == []
    assert page.text.count("<script>alert(1)</script>") >= 8


def test_the_page_loads_nothing(report: Report) -> None:
    text = render_html(report, details("x"), "A class.")
    page = Page(text)
    assert page.loads == ["data:,"]
    assert "script" not in page.elements
    assert "default-src 'none'" in text
    assert not re.findall(r"url\(|@import|https?://(?!www.w3.org/)", text)


def test_it_reads_from_the_answer_to_the_manifest(report: Report) -> None:
    text = Page(
        render_html(report, details("x"), "A class.\n\nWhat it means\n\nX.")
    ).text
    order = [
        "rank 617 on gpu0078 (GPU 1)",
        "What to do",
        "ssh gpu0078 py-spy dump --pid 41234",
        "What each rank did",
        "Where the waits lead",
        "When it was first noticed",
        "Who waits for whom",
        "[rank3]:[E102 03:04:05.678901",
        "In the logs",
        "1,023 watchdogs timed out",
        "host-oom, gpu-fault",
        "What missing-rank means",
        "sha256",
        "cut in entry 1",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_cited_lines_have_their_numbers(report: Report) -> None:
    text = render_html(report, details("Timed out"))
    assert '<span class="cited"><b>8</b><i>Timed out</i></span>' in text
    assert "<span><b>7</b><i>before</i></span>" in text


def test_the_pictures_say_in_words_what_colours_say(report: Report) -> None:
    text = Page(render_html(report, details("a.message"))).text
    for word in (
        "rank 2, culprit: done in a4, absent in a5",
        "X absent: never made a call that others wait in",
        "5 more ranks wait",
        "+1 min 30 s",
        "1970-01-01 00:00:00",
    ):
        assert word in text
    assert "Left out: 3 rows of 40 ranks" in text


@pytest.mark.parametrize("outcome", ["no-failure", "inconclusive"])
def test_an_outcome_without_a_verdict_has_a_page(report: Report, outcome: str) -> None:
    text = render_html(with_(report, outcome=outcome, verdict=None, findings=()))
    assert f'<header class="top {outcome}">' in text
    assert "What to do" not in text


def test_only_who_is_named_is_drawn_as_the_culprit(report: Report) -> None:
    rows = tuple(
        Row(rank, 1, who, (1, 10), "")
        for rank, who in (("2", ""), ("3", "culprit"), ("4", "suspected"))
    )
    chart = RankCalls(("4", "5"), 1, (("", "default_pg"),), rows)
    page = render_html(report, Details(rank_calls=chart))
    assert page.count('class="cell absent own"') == 1
    assert page.count('class="cell absent"') == 2
    assert Page(page).text.count("absent in 5") == 3


@pytest.mark.parametrize(("state", "said"), [(9, "late in 5"), (11, "mismatched in 5")])
def test_a_culprit_is_told_by_what_it_did(
    report: Report, state: int, said: str
) -> None:
    rows = tuple(Row("3", 1, who, (1, state), "waits in 6") for who in ("culprit", ""))
    chart = RankCalls(("4", "5"), 1, (("", "default_pg"),), rows)
    text = Page(render_html(report, Details(rank_calls=chart))).text
    assert f"culprit: {said}" in text
    assert text.count("waits in 6") == 1


def test_the_title_of_the_page_has_no_padding(report: Report) -> None:
    found = re.search("<title>(.*?)</title>", render_html(report))
    assert found is not None
    assert "  " not in found[1]
    assert found[1].startswith("missing-rank: rank 617 on gpu0078")


@pytest.mark.parametrize(
    ("hidden", "lost"),
    [(10, "8 GPUs x 10 s = 0.02 GPU hours"), (0, None), (None, None)],
)
def test_the_bar_has_the_loss_and_is_missing_where_nothing_was_lost(
    report: Report, hidden: int | None, lost: str | None
) -> None:
    times = ("2026-01-02T03:04:05.1Z", "2026-01-02T03:04:15.1Z")
    onset = Onset(times[0], "", times[1], hidden, 8, "0.02", ())
    text = Page(render_html(with_(report, onset=onset))).text
    assert ("noticed 03:04:15" in text) is (lost is not None)
    assert (f"lost: {lost}" in text) is (lost is not None)


def test_a_line_is_told_by_its_words_and_not_by_its_grammar(report: Report) -> None:
    cite = Evidence("a.log", 3, "Timed out waiting 8000ms")
    ended = "exit: ended with SIGTERM"
    seen = Step("seen", None, "c10d.gloo.timeout: it waited", 7, "0-6", (cite,))
    exits = Step("seen", None, ended, 1, "7", (Evidence("a.log", 4, "SIGTERM"),))
    text = Page(render_html(with_(report, chain=(seen, exits)))).text
    assert "7 x Timed out waiting 8000ms (ranks 0-6): it waited" in text
    assert "1 x ended with SIGTERM (rank 7)" in text
    assert "c10d.gloo" not in text


def test_long_lists_are_cut_and_say_so(report: Report) -> None:
    files = report.sources[:1] * (MOST_FILES + 12)
    text = Page(render_html(with_(report, sources=files))).text
    assert "Files (1,012)" in text
    assert "12 more files: the JSON report has them all" in text


def test_documentation_is_set_as_paragraphs_lists_and_commands(report: Report) -> None:
    doc = "A class.\n\nWhat to do\n\nRun `x`.\n\n    a < b\n\n- one\n  more\n- two"
    text = render_html(report, Details(), doc)
    assert "<p>Run <code>x</code>.</p>" in text
    assert "<pre>    a &lt; b</pre>" in text
    assert "<li>one more</li><li>two</li>" in text
