"""Maps the formats of `analyze` to renderers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ncclforensics.report.given import NOTHING_GIVEN

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report
    from ncclforensics.report.given import Given

Format = Literal["text", "json", "jsonl", "markdown", "github"]


def render(
    report: Report,
    form: Format,
    *,
    width: int | None = None,
    colour: bool = False,
    verbose: bool = False,
    quiet: bool = False,
    given: Given = NOTHING_GIVEN,
) -> str:
    """Return the report in a format; the options apply to text only."""
    # imported here, because Markdown's needs polars, and an answer may be there without
    match form:
        case "text":
            from ncclforensics.report.formats.text import render_text

            return render_text(
                report,
                width=width or 80,
                colour=colour,
                verbose=verbose,
                quiet=quiet,
                given=given,
            )
        case "json":
            from ncclforensics.report.formats.as_json import render_json

            return render_json(report)
        case "jsonl":
            from ncclforensics.report.formats.as_json import render_jsonl

            return render_jsonl(report)
        case "markdown":
            from ncclforensics.report.formats.markdown import render_markdown

            return render_markdown(report)
        case "github":
            from ncclforensics.report.formats.annotations import render_github

            return render_github(report)
