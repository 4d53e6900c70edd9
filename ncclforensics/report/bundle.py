"""Everything that is written or posted from one analysis, redacted first.

Reports, exports and tickets are all made from a `Paper`, so redaction is complete
before anything is rendered or planned.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.model.errors import UsageError
from ncclforensics.report.details import Details, details
from ncclforensics.report.formats.archive import render_zip
from ncclforensics.report.formats.as_json import render_json
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.redact import Redactor
from ncclforensics.report.redact_frames import learn, redacted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.class_docs import Documented
    from ncclforensics.report.contract import Report
    from ncclforensics.report.details import Excerpt

SUFFIXES = (".md", ".html", ".json", ".zip")


@dataclass(frozen=True, slots=True)
class Paper:
    """A report, its details, frames (None for a saved report) and class docs."""

    report: Report
    details: Details
    frames: Frames | None
    doc: str | None

    def render(self, suffix: str) -> tuple[bytes, tuple[str, ...]]:
        """Return the report in the format of a suffix, and a line per truncation.

        Raises UsageError on a suffix that is not in SUFFIXES.
        """
        match suffix:
            case ".md":
                return render_markdown(self.report, self.details).encode(), ()
            case ".html":
                return render_html(self.report, self.details, self.doc).encode(), ()
            case ".json":
                return render_json(self.report).encode(), ()
            case ".zip":
                return render_zip(self.report, self.details, self.frames, self.doc)
        known = ", ".join(SUFFIXES)
        raise UsageError(f"a report's suffix is one of {known}, not {suffix!r}")

    def fingerprint(self) -> str:
        """Return 12 hex digits that identify the evidence."""
        hashes = sorted(f"{s.sha256} {s.bytes}" for s in self.report.sources)
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()[:12]


def paper(
    report: Report,
    frames: Frames | None,
    excerpts: Sequence[Excerpt],
    classes: Mapping[str, Documented],
    redact: frozenset[str] = frozenset(),
) -> Paper:
    """Return what to publish, with names of the kinds in `redact` replaced."""
    redactor = Redactor(redact)
    told = Details() if frames is None else details(report, frames, excerpts)
    if redact:
        redactor.learn(report)
        if frames is not None:
            learn(redactor, frames)
        report, told = redactor.struct(report), redactor.struct(told)
        frames = None if frames is None else redacted(frames, redactor)
    entry = None if report.verdict is None else classes.get(report.verdict.slug)
    doc = None if entry is None else entry.doc
    return Paper(report, told, frames, doc)


def check(path: Path, *, force: bool, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise UsageError before any work if `path` cannot be written."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; -o takes a file")
    if suffixes and path.suffix.lower() not in suffixes:
        known = ", ".join(suffixes)
        raise UsageError(f"{path}: the suffix says what to write, one of {known}")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force overwrites it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a folder")


def write(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file atomically; raises UsageError if it exists or cannot be written.

    An interrupted run leaves the old file, or none.
    """
    check(path, force=force, suffixes=())
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as caught:
        raise UsageError(f"{path} cannot be written: {caught.strerror}") from caught
    finally:
        draft.unlink(missing_ok=True)
