"""Markdown shows the text of a log and obeys none of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace as with_

from ncclforensics.model.findings import Cite, Ranked
from ncclforensics.report.build import build
from ncclforensics.report.details import Call, Details, Excerpt
from ncclforensics.report.formats.markdown import escape, fence, render_markdown
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markdown_it.token import Token

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.class_docs import Documented
    from ncclforensics.report.contract import Report

HOSTILE = (
    "@alice #12 <img src=x> [a](http://e.vil) ![b](c) ``` </details> https://e.vil"
)


def tokens(text: str) -> Iterator[Token]:
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        yield token
        yield from token.children or ()


@given(st.text(max_size=80))
def test_escaped_text_is_shown_as_it_is(raw: str) -> None:
    text = line(raw, 80)
    found = list(tokens(escape(text)))
    shown = [t.content for t in found if t.type in {"text", "text_special"}]
    assert "".join(shown).strip() == text
    allowed = {"text", "text_special", "inline", "html_inline"}
    kinds = {t.type for t in found} - allowed
    assert kinds <= {"paragraph_open", "paragraph_close"}
    assert {t.content for t in found if t.type == "html_inline"} <= {"<!-- -->"}


@given(st.lists(st.text("`~a\t ", max_size=12), min_size=1))
def test_no_line_closes_its_fence(lines: list[str]) -> None:
    found = list(tokens(fence(lines)))
    assert [t.type for t in found] == ["fence"]
    assert found[0].content == "\n".join(lines) + "\n"


def test_the_short_form_is_on_top_and_details_fold(report: Report) -> None:
    text = render_markdown(report)
    top, _, below = text.partition("<details>")
    assert top.startswith("**`missing-rank`: rank 617 on gpu0078 (GPU 1)** (certain)\n")
    assert "ssh gpu0078 py-spy dump --pid 41234" in top
    assert "Evidence (2)" in below
    assert "echo: timeout-masking ranks 0-616,618-1023: 1,023 watchdogs" in below
    assert "host-oom, gpu-fault: no kernel log" in below
    assert text.endswith("ncclforensics 0.1.0</sub>\n")


def test_a_log_line_links_and_mentions_nothing(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    verdict = replace(
        ranked.verdict,
        headline=HOSTILE,
        explanation=f"- {HOSTILE}\n# {HOSTILE}",
        hosts=(HOSTILE,),
        remedy=(HOSTILE,),
        evidence=(Cite(HOSTILE, 1, HOSTILE),),
    )
    hostile = replace(ranked, verdict=verdict, findings=(("root", verdict),))
    text = render_markdown(build(hostile, frames, classes))
    found = list(tokens(text))
    assert not [t for t in found if t.type in {"link_open", "image", "heading_open"}]
    html = {t.content.strip() for t in found if t.type.startswith("html")}
    assert not [h for h in html if "img" in h]
    prose = "".join(t.content for t in found if t.type == "inline")
    assert "@alice" not in prose
    assert "#12" not in prose


def test_outcomes_without_a_verdict_have_their_two_lines(report: Report) -> None:
    healthy = with_(report, outcome="no-failure", verdict=None, findings=())
    text = render_markdown(healthy)
    assert text.startswith(
        "**no-failure: nothing in this evidence failed**\n\nnot a clean"
    )


def test_a_thousand_ranks_stay_under_20_kilobytes(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    cites = tuple(
        Cite(f"logs/gpu{i:04}/{'d' * 60}.log", i, "t" * 400) for i in range(1024)
    )
    verdict = replace(ranked.verdict, evidence=cites, ranks=tuple(range(0, 1024, 2)))
    echoes = tuple(("echo", replace(verdict, evidence=())) for _ in range(1024))
    told = replace(ranked, verdict=verdict, findings=(("root", verdict), *echoes))
    scattered = ",".join(str(rank) for rank in range(0, 1024, 2))
    calls = (Call("c" * 120, scattered, scattered, "", scattered, ""),) * 12
    excerpts = (Excerpt("a.log", 1, ("x" * 400,) * 7, (4,)),) * 60
    report = build(told, frames, classes)
    text = render_markdown(report, Details(excerpts, calls, 900))
    assert len(text.encode()) < 20_000
    assert "more in the JSON report" in text
    assert "more in the zip report" in text
    assert "900 more calls that hang" in text


def test_long_lists_say_what_they_leave_out(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    cites = tuple(Cite(f"{i}.log", i, "died") for i in range(60))
    verdict = replace(ranked.verdict, evidence=cites)
    text = render_markdown(build(replace(ranked, verdict=verdict), frames, classes))
    assert "<summary>Evidence (60)</summary>" in text
    assert "49.log:49  died" in text
    assert "50.log" not in text
    assert "10 more in the JSON report" in text
