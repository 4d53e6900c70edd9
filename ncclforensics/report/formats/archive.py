"""Renders the report as one zip: every format, the cited excerpts, and the frames.

The output is deterministic: members are sorted and have a fixed time. Frames are
parquet; only the first MOST_ROWS rows of a frame are kept, and README.txt says what was
dropped.
"""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from ncclforensics.report.formats.as_json import render_json
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.formats.text import render_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report
    from ncclforensics.report.details import Details, Excerpt

MOST_ROWS = 200_000
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store


def render_zip(
    report: Report, details: Details, frames: Frames | None, doc: str | None
) -> tuple[bytes, tuple[str, ...]]:
    """Return the archive, and a line for each truncated frame.

    Without `frames` (a saved report) it has none, and README.txt says so.
    """
    members = {
        "report.txt": render_text(report, verbose=True).encode(),
        "report.md": render_markdown(report, details).encode(),
        "report.html": render_html(report, details, doc).encode(),
        "report.json": render_json(report).encode(),
    }
    for number, excerpt in enumerate(details.excerpts, 1):
        members[f"excerpts/{number:03}.txt"] = _excerpt(excerpt).encode()
    cut: list[str] = []
    for name, frame in ({} if frames is None else named(frames)).items():
        if frame.height > MOST_ROWS:
            cut.append(f"{name}: {MOST_ROWS:,} of {frame.height:,} rows")
        members[f"frames/{name}.parquet"] = _parquet(frame.head(MOST_ROWS))
    members["README.txt"] = _readme(members, frames is not None, cut).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(members.items()):
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return buffer.getvalue(), tuple(cut)


def named(frames: Frames) -> Mapping[str, pl.DataFrame]:
    """Return the non-empty frames by name; captures are named `message.ID`."""
    found = {name: frames[name] for name in frames.names}
    found |= {f"message.{i}": frames.messages[i] for i in sorted(frames.messages)}
    return {name: frame for name, frame in found.items() if frame.height}


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _excerpt(excerpt: Excerpt) -> str:
    """Return an excerpt as text: file, then numbered lines with > before cited ones."""
    lines = [
        f"{'>' if number in excerpt.cited else ' '} {number:>8}  {text}"
        for number, text in enumerate(excerpt.lines, excerpt.first)
    ]
    return "\n".join([excerpt.source, *lines, ""])


def _readme(members: Mapping[str, bytes], with_frames: bool, cut: list[str]) -> str:
    """Return the text of README.txt: the members, and what was left out."""
    told = [f"{len(data):>12,}  {name}" for name, data in sorted(members.items())]
    left = [f"cut: {text}" for text in cut]
    if not with_frames:
        left.append("no frames and no excerpts: made from a saved report")
    return "\n".join(["A report of ncclforensics: bytes, name", "", *told, *left, ""])
