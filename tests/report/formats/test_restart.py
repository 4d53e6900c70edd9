"""Every face says whether to start the job again, where that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ncclforensics.report.details import Details
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.jira_markup import render_wiki
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.formats.text import render_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncclforensics.report.contract import Report

FACES: tuple[Callable[[Report], str], ...] = (
    render_text,
    render_markdown,
    render_html,
    lambda report: render_wiki(report, Details()),
)


@pytest.mark.parametrize("render", FACES)
def test_it_is_told_where_it_is_known(
    report: Report, render: Callable[[Report], str]
) -> None:
    assert report.verdict is not None
    known = replace(report.verdict, restart="after draining gpu0078", domain="hardware")
    told = render(replace(report, verdict=known))
    assert "after draining gpu0078 (hardware)" in told
    assert "draining" not in render(report)
    lies = replace(report.verdict, restart="unknown", domain="storage")
    assert "unknown (storage)" in render(replace(report, verdict=lies))
    assert "unknown (unknown)" not in render(report)
