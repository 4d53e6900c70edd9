"""Workflow commands: one per line, and unescaped by the runner to what was meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_

from ncclforensics.report.contract import Evidence
from ncclforensics.report.formats.annotations import command, render_github

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report


def obey(text: str) -> tuple[str, dict[str, str], str]:
    """Read a command as the runner does."""
    match = re.fullmatch(r"::(\w+) ((?:(?!::).)*)::(.*)\n", text)
    assert match is not None, text
    level, properties, data = match.groups()
    pairs = (pair.split("=", 1) for pair in properties.split(","))
    return level, {key: unescape(value) for key, value in pairs}, unescape(data)


def unescape(text: str) -> str:
    for code, letter in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}.items():
        text = text.replace(code, letter)
    return text.replace("%25", "%")


@given(st.text("ab:,%\r\n=0A3# []", max_size=30), st.text("a:,%\n=#[]5", max_size=30))
def test_what_is_written_is_what_is_read(title: str, text: str) -> None:
    cite = Evidence(title or "x", 7, "")
    told = command("error", title, text, (cite,))
    assert told.count("\n") == 1
    assert "##[" not in told
    level, properties, data = obey(told)
    plain = title.replace("##[", "# #[")
    assert level == "error"
    assert properties["title"] == plain
    assert properties["file"] == (plain or "x")
    assert properties["line"] == "7"
    assert data == text.replace("##[", "# #[")


def test_the_verdict_is_an_error_and_the_rest_are_notices(report: Report) -> None:
    first, second = (obey(f"{told}\n") for told in render_github(report).splitlines())
    assert first[0] == "error"
    assert first[1] == {
        "file": "fr/nccl_trace_rank_617",
        "line": "84924",
        "title": "missing-rank: rank 617 on gpu0078 (GPU 1) certain",
    }
    assert "1,023 of 1,024 members wait in it" in first[2]
    assert second[:2] == ("notice", {"title": "echo: timeout-masking"})


def test_without_a_verdict_there_is_still_one_annotation(report: Report) -> None:
    healthy = with_(report, outcome="no-failure", verdict=None, findings=())
    assert obey(render_github(healthy))[0] == "notice"
    unknown = with_(healthy, outcome="inconclusive")
    assert obey(render_github(unknown))[0] == "warning"


def test_github_shows_ten_so_no_more_are_sent(report: Report) -> None:
    many = with_(report, findings=report.findings[:1] + report.findings[1:] * 15)
    lines = render_github(many).splitlines()
    assert len(lines) == 12
    assert lines[-1].endswith("::5 more findings: use -f json")
