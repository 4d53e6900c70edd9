"""Text out of evidence acts nowhere: not in a terminal, a browser, a ticket or a trace."""

from __future__ import annotations

import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from ncclforensics.cli.commands import cli

ACTS = (
    "\x1b[2J\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil.test\x1b\\ "
    "\x9b31m\u202e <script>alert(1)</script><img src=http://evil.test/p onerror=alert(1)>"
    " [click](http://evil.test) ![x](http://evil.test/p) `</code></details>` @everyone "
    "<!channel> | # *b* \\ ${IFS} &lt;b&gt; <marquee>bold</marquee>"
)
HEAD = "[rank{rank}]: "
RAISED = (
    HEAD + "Traceback (most recent call last):\n"
    f'{HEAD}  File "/job/{ACTS}/train.py", line 3, in {ACTS}\n'
    f"{HEAD}    step()  # {ACTS}\n"
    f"{HEAD}ValueError: bad batch {ACTS}\n"
)
NAMES = ("rank_1\n\x1b[31m<img src=x onerror=alert(1)>.log", "rank_0 `x` | <b>.log")
OURS = {"details", "summary", "sub", "br", "code", "pre", "kbd"}


@pytest.fixture
def evidence(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank, name in enumerate(NAMES):
        text = RAISED.replace("{rank}", str(rank)) if rank else f"step 1 {ACTS}\n"
        (folder / name).write_text(text)
    return str(folder)


def said(*args: str) -> str:
    done = CliRunner().invoke(cli, args)
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    return done.stdout


def acting(text: str) -> set[str]:
    """Return the characters that act on a terminal or on the order of text."""
    return {
        c
        for c in text
        if (unicodedata.category(c) == "Cc" and c not in "\n")
        or c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    }


class Page(HTMLParser):
    """Collects the tags of a page, and what they would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.live: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.live += [
            (name, value)
            for name, value in attrs
            if name.startswith("on")
            or (name in ("src", "href") and not str(value).startswith("#"))
        ]


@pytest.mark.parametrize("form", ["text", "markdown", "json", "jsonl", "github"])
def test_nothing_that_is_printed_moves_a_cursor(evidence, form):
    for command in (["analyze", "-f", form], ["evidence"]):
        printed = said(*command, evidence)
        assert printed
        assert acting(printed) == set()


def test_a_verdict_is_told_all_the_same(evidence):
    verdict = json.loads(said("analyze", "-f", "json", evidence))["verdict"]
    assert verdict["class"] == "crashed-rank"
    assert "bad batch" in said("analyze", evidence)


def test_a_page_runs_and_fetches_nothing(evidence, tmp_path):
    file = tmp_path / "report.html"
    said("report", "-o", str(file), evidence)
    page = Page()
    page.feed(file.read_text())
    assert page.live == [("href", "data:,")]  # that there is no icon to fetch
    assert not page.tags & {"script", "img", "iframe", "object", "marquee"}
    assert "bad batch" in file.read_text()


def test_markdown_holds_no_link_no_picture_and_no_markup_of_a_log(evidence):
    text = said("analyze", "-f", "markdown", evidence)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    for token in (*tokens, *inner):
        assert token.type not in ("link_open", "image"), token
        if token.type in ("html_block", "html_inline"):
            bare = token.content.replace("<!-- -->", "")
            assert set(re.findall(r"</?([a-zA-Z!]+)", bare)) <= OURS, token.content
    mentions = [
        t.content for t in inner if t.type == "text" and "@everyone" in t.content
    ]
    assert mentions == []


def test_a_trace_of_it_is_read_back(evidence, tmp_path):
    said("export", "--format", "trace", "-o", str(tmp_path / "out"), evidence)
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert files
    assert all(json.loads(file.read_text()) for file in files)
