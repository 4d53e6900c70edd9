"""Suspects are told in order in every format, in words that accuse nobody."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace as with_
from rich.cells import cell_len

from ncclforensics.engine.excerpts import cited
from ncclforensics.model.findings import Cite, Ranked, Suspect
from ncclforensics.model.frames import Frames
from ncclforensics.report import suspect_phrases
from ncclforensics.report.build import build, other
from ncclforensics.report.bundle import SUFFIXES, paper
from ncclforensics.report.details import Details
from ncclforensics.report.formats.annotations import render_github
from ncclforensics.report.formats.as_json import decode, render_json, render_jsonl
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.jira_markup import render_wiki
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.formats.text import render_text
from ncclforensics.report.rank_filter import narrow
from ncclforensics.report.redact import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ncclforensics.report.class_docs import Documented
    from ncclforensics.report.contract import Report

SUSPECTS = (
    Suspect(
        617,
        "gpu0078",
        0.62345,
        "15 ranks wait for it; nothing of it was collected",
        (Cite("fr/nccl_trace_rank_616", 9, "all_reduce SeqNum=7 started"),),
    ),
    Suspect(7, "gpu0001", 0.2, "it came to SeqNum=6 after all others"),
    *(Suspect(100 + n, None, 0.03, f"reason {n}") for n in range(6)),
)
RENDERERS: tuple[Callable[[Report], str], ...] = (
    render_text,
    render_markdown,
    render_html,
    render_github,
    lambda report: render_wiki(report, Details()),
)


@pytest.fixture
def inconclusive(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> Report:
    """A report that accuses nobody and suspects eight ranks."""
    nobody = replace(
        ranked, outcome="inconclusive", verdict=None, findings=(), suspects=SUSPECTS
    )
    return build(nobody, frames, classes)


@pytest.fixture
def accusing(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> Report:
    """A report that accuses rank 617, and suspects it and seven others."""
    return build(replace(ranked, suspects=SUSPECTS), frames, classes)


LOOK = """\
inconclusive: something stopped; ranks are suspected, none is accused
suspected: rank 617 on gpu0078 (62 %), rank 7 on gpu0001 (20 %), …
look at  rank 617 on gpu0078  62 %  15 ranks wait for it; nothing of it was
           collected (fr/nccl_trace_rank_616:9)
         rank 7 on gpu0001    20 %  it came to SeqNum=6 after all others
         rank 100              3 %  reason 0
"""


def test_where_nobody_is_accused_suspects_come_first(inconclusive: Report) -> None:
    text = render_text(inconclusive)
    assert text.startswith(LOOK)
    assert max(cell_len(row) for row in text.splitlines()) <= 80
    assert "\nmore     8 suspects · " in text
    whole = render_text(inconclusive, verbose=True)
    assert [int(n) for n in re.findall(r"reason (\d)", whole)] == list(range(6))
    assert render_text(inconclusive, quiet=True) == "".join(LOOK.splitlines(True)[:2])


def test_a_culprit_is_no_suspect_and_comes_before_them(accusing: Report) -> None:
    rows = render_text(accusing).splitlines()
    assert rows[0].startswith("missing-rank: rank 617 on gpu0078")
    (at,) = (n for n, row in enumerate(rows) if row.startswith("suspect "))
    assert rows[at].startswith("suspect  rank 7 on gpu0001  20 %  it came to")
    assert rows[at - 1].endswith("py-spy dump --pid 41234")
    assert not [row for row in rows if row.startswith("look at")]
    assert accusing.suspects[0].rank == 617


@pytest.mark.parametrize("render", RENDERERS)
def test_suspects_that_are_the_culprits_change_nothing(
    report: Report, accusing: Report, render: Callable[[Report], str]
) -> None:
    only = with_(accusing, suspects=accusing.suspects[:1])
    assert render(only) == render(report)
    assert render(with_(report, suspects=())) == render(report)


def test_a_host_that_is_accused_holds_what_ran_there(accusing: Report) -> None:
    assert accusing.verdict is not None
    culprits = with_(accusing.verdict.culprits, ranks=(), ranks_folded="")
    finding = with_(accusing.findings[0], culprits=culprits)
    told = with_(
        accusing,
        verdict=with_(accusing.verdict, culprits=culprits),
        findings=(finding,),
    )
    assert [s.rank for s in suspect_phrases.suspects(told)][:2] == [7, 100]


@pytest.mark.parametrize("render", RENDERERS)
def test_every_format_tells_them_in_order_and_accuses_nobody(
    inconclusive: Report, render: Callable[[Report], str]
) -> None:
    text = render(inconclusive)
    first = text.index("15 ranks wait for it")
    assert first < text.index("it came to SeqNum") < text.index("reason 0")
    assert "suspected" in text[:first]
    assert not re.search("culprit|accused", re.sub("(not|none is) accused", "", text))


@pytest.mark.parametrize("render", RENDERERS)
def test_every_format_tells_them_below_a_verdict(
    accusing: Report, render: Callable[[Report], str]
) -> None:
    text = render(accusing)
    assert text.index("py-spy dump") < text.index("it came to SeqNum=6")
    assert "15 ranks wait for it" not in text


def test_an_inconclusive_witness_has_them_before_its_explanation(
    accusing: Report,
) -> None:
    witness = with_(accusing, outcome="inconclusive")
    for render in RENDERERS:
        text = render(witness)
        assert text.index("15 ranks wait") < text.index("1,023 of 1,024 members")


def test_two_stories_are_still_named_in_the_opening(accusing: Report) -> None:
    stories = (accusing.findings[0], with_(accusing.findings[1], role="root"))
    tie = with_(accusing, outcome="inconclusive", verdict=None, findings=stories)
    rows = render_text(tie).splitlines()
    assert rows[0] == "inconclusive: 2 explanations fit, nobody is accused"
    assert rows[1].startswith("missing-rank: rank 617 on gpu0078")
    assert rows[2].startswith("look at  rank 617 on gpu0078")


def test_json_has_all_and_reads_back(accusing: Report) -> None:
    text = render_json(accusing)
    told = json.loads(text)["suspects"]
    assert told[0] == {
        "rank": 617,
        "host": "gpu0078",
        "weight": 0.623,
        "why": "15 ranks wait for it; nothing of it was collected",
        "evidence": [
            {
                "source": "fr/nccl_trace_rank_616",
                "line": 9,
                "text": "all_reduce SeqNum=7 started",
                "counts": "line",
            }
        ],
    }
    assert len(told) == 8
    assert decode(text.encode()) == accusing


def test_a_report_of_before_has_no_suspects(report: Report) -> None:
    told = json.loads(render_json(report))
    del told["suspects"]
    assert decode(json.dumps(told).encode()) == report


def test_a_weight_is_a_share(inconclusive: Report) -> None:
    told = json.loads(render_json(inconclusive))
    told["suspects"][0]["weight"] = 62
    with pytest.raises(msgspec.ValidationError, match="weight"):
        decode(json.dumps(told).encode())


def test_jsonl_tells_them_once(accusing: Report, inconclusive: Report) -> None:
    first, second = map(json.loads, render_jsonl(accusing).splitlines())
    assert [s["rank"] for s in first["suspects"]][:2] == [617, 7]
    assert "suspects" not in second
    (only,) = map(json.loads, render_jsonl(inconclusive).splitlines())
    assert only["finding"] is None
    assert len(only["suspects"]) == 8


def test_what_is_built_is_cleaned_and_bounded(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    bad = "\x1b[2Jtext\r\n\u202e"
    many = (Suspect(1, bad, 1.7, bad, (Cite(bad, 1, bad),)),) * 20
    built = build(replace(ranked, suspects=many), frames, classes)
    assert len(built.suspects) == 8
    first = built.suspects[0]
    assert (first.host, first.why, first.weight) == ("text", "text", 1.0)
    assert first.evidence[0].text == "text"


@pytest.mark.parametrize(
    ("weight", "told"),
    [(0, "0 %"), (0.004, "<1 %"), (0.625, "62 %"), (0.999, ">99 %"), (1, "100 %")],
)
def test_a_share_is_not_rounded_to_nothing_or_all(
    inconclusive: Report, weight: float, told: str
) -> None:
    assert suspect_phrases.share(with_(inconclusive.suspects[0], weight=weight)) == told


def test_names_of_suspects_are_redacted(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    lone = Suspect(
        3,
        "node-a17",
        0.9,
        "node-a17 has no dump, and 10.3.4.5 waits for /home/alice/x/train.py",
        (Cite("node-a17/rank_3.log", 1, "alice@node-a17"),),
    )
    nobody = replace(
        ranked, outcome="inconclusive", verdict=None, findings=(), suspects=(lone,)
    )
    built = build(nobody, frames, classes)
    hidden = paper(built, None, (), classes, frozenset(KINDS))
    (told,) = hidden.report.suspects
    assert (told.rank, told.weight) == (3, 0.9)
    assert told.host is not None
    assert told.why.startswith(f"{told.host} has no dump, and ip1 waits for /dir")
    for suffix in SUFFIXES:
        if suffix != ".zip":
            text = hidden.render(suffix)[0].decode()
            assert not re.search(r"node-a|10\.3|alice", text)
            assert told.host in text


def test_a_log_line_in_a_reason_stays_text(inconclusive: Report) -> None:
    evil = (
        "<script>x</script> **bold** [a](http://e.vil) @alice {noformat} %0A::error::"
    )
    first = with_(inconclusive.suspects[0], why=evil, host="h<b>")
    told = with_(inconclusive, suspects=(first,))
    html = render_html(told)
    assert "<script" not in html
    assert "h&lt;b&gt;" in html
    text = render_markdown(told)
    assert "\\*\\*bold\\*\\*" in text
    assert "@alice" not in text
    assert render_github(told).count("\n") == 1
    assert "\\{noformat\\}" in render_wiki(told, Details())


def test_their_cited_lines_are_quoted_and_a_narrowed_report_keeps_them(
    inconclusive: Report,
) -> None:
    assert cited(inconclusive, Frames())["fr/nccl_trace_rank_616"][0][0] == 9
    assert narrow(inconclusive, ranks=frozenset({5})).suspects == inconclusive.suspects


def test_another_attempt_tells_its_first_ones_in_short(inconclusive: Report) -> None:
    told = other(inconclusive, None, 0)
    assert told.headline.startswith("cause not seen; suspected: rank 617 on gpu0078 (")
    assert told.culprits.ranks == ()


def test_a_possible_verdict_is_told_as_one(report: Report) -> None:
    assert report.verdict is not None
    verdict = with_(report.verdict, confidence="possible")
    other_ = with_(report.findings[1], confidence="possible", role="root")
    told = with_(report, verdict=verdict, findings=(report.findings[0], other_))
    rows = render_text(told).splitlines()
    assert rows[0] == "possible: missing-rank: rank 617 on gpu0078 (GPU 1)"
    assert any(row.startswith("also     possible: timeout-masking: ") for row in rows)
    assert rows[2].startswith("why ")
    assert render_markdown(told).startswith("**possible: `missing-rank`: rank 617")
    assert "<h1>possible: rank 617 on gpu0078 (GPU 1)</h1>" in render_html(told)
    assert render_wiki(told, Details()).startswith("*possible: missing-rank: rank 617")
    assert "title=possible%3A missing-rank" in render_github(told)
