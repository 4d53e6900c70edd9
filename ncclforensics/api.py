"""The Python API: one analysis, to query and to inspect in a notebook.

import ncclforensics
found = ncclforensics.analyze("./logs")
found                       # the report, as the notebook shows it
found.verdict.culprits
found.frames["collectives"].filter(…)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics import analysis
from ncclforensics.diagnosers import CLASSES
from ncclforensics.diagnosers.choice import chosen
from ncclforensics.model.frame_docs import described
from ncclforensics.model.span import between
from ncclforensics.model.tables import SCHEMAS
from ncclforensics.report import bundle as papers
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.markdown import render_markdown
from ncclforensics.report.formats.text import render_text
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.redact import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from datetime import datetime

    import polars as pl

    from ncclforensics.report.bundle import Paper
    from ncclforensics.report.contract import (
        Evidence,
        Finding,
        Report,
        Suspect,
        Verdict,
    )


class Tables(dict[str, "pl.DataFrame"]):
    """The frames of one analysis by name: polars DataFrames."""

    def __repr__(self) -> str:
        """Return the names of the frames that have rows, and how many."""
        filled = {name: frame.height for name, frame in self.items() if frame.height}
        width = max(map(len, filled), default=0)
        return "\n".join(f"{n:<{width}}  {rows:>9,} rows" for n, rows in filled.items())


Tables.__doc__ = f"""{Tables.__doc__}

The captures of a log message ID are in message.ID, beside the columns of events. rank
is always the global rank, times are UTC. source and line say where a row was read; in a
dump, line is the number of the entry.

{described()}
"""


@dataclass(frozen=True, repr=False)
class Incident:
    """The result of one analysis.

    A notebook shows it as the HTML report, print shows the text answer. `frames` maps
    names to polars DataFrames; `help(found.frames)` tells their columns.
    """

    analyzed: analysis.Analysis

    @property
    def report(self) -> Report:
        """The report: the struct of the JSON contract."""
        return self.analyzed.report

    @property
    def outcome(self) -> str:
        """One of failure, no-failure, inconclusive."""
        return self.report.outcome

    @property
    def verdict(self) -> Verdict | None:
        """The failure class with its culprits; None if there is no verdict."""
        return self.report.verdict

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """Ranks to look at first, highest weight first; suspicions, not verdicts."""
        return self.report.suspects

    @property
    def last_line(self) -> Evidence | None:
        """The culprit's last own line before the job stopped; None if unknown."""
        return None if self.verdict is None else self.report.last_line

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings in order of blame, the verdict's finding first."""
        return self.report.findings

    @cached_property
    def frames(self) -> Tables:
        """All frames by name, including those without rows."""
        found = self.analyzed.frames
        captures = {f"message.{i}": f for i, f in sorted(found.messages.items())}
        return Tables({name: found[name] for name in SCHEMAS} | captures)

    def save(
        self, path: str | os.PathLike[str], *, redact: str = "", force: bool = False
    ) -> Path:
        """Write the report as .md, .html, .json or .zip; returns its path.

        `redact` is as for the command: hosts,ips,users,paths or all. Raises UsageError
        on another suffix, or if the file exists and `force` is not set.
        """
        target = Path(path)
        papers.check(target, force=force)
        data, _ = self._paper(redact).render(target.suffix.lower())
        papers.write(target, data, force=force)
        return target

    def __repr__(self) -> str:
        """Return the two opening lines of the report."""
        first, second = opening(self.report)
        return f"<Incident {' '.join(first.split())}: {second}>"

    def __str__(self) -> str:
        """Return the text answer."""
        return render_text(self.report)

    def _repr_markdown_(self) -> str:
        told = self._paper()
        return render_markdown(told.report, told.details)

    def _repr_html_(self) -> str:
        """Return the HTML report in an iframe, which isolates its style."""
        from html import escape

        told = self._paper()
        page = escape(render_html(told.report, told.details, told.doc), quote=True)
        style = "width:100%;height:40rem;border:1px solid #8886"
        return f'<iframe sandbox srcdoc="{page}" style="{style}"></iframe>'

    def _paper(self, redact: str = "") -> Paper:
        found = self.analyzed
        args = (found.report, found.frames, found.excerpts)
        return papers.paper(*args, CLASSES, kinds(redact))


def analyze(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    world_size: int | None = None,
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Incident:
    """Analyze directories, files, globs or archives.

    - `world_size`: how many ranks the job had, whatever the evidence says
    - `select`, `ignore`: names of failure classes, to look for these only, or not
    - `since`, `until`: the failure was not before, not after; a datetime or ISO 8601,
      in UTC unless it has a zone
    - `executor`: a `concurrent.futures.Executor` that reads the files; by default
      processes of its own, where that is faster
    - `progress`: is called with the number of files read and their total
    - `cache`: a folder that keeps the answer, for the next analysis of the same files;
      by default nothing is kept

    Raises UsageError on a path that does not exist, on an unknown class, and on a time
    that is none; never on the content of evidence.
    """
    many = [paths] if isinstance(paths, str | os.PathLike) else paths
    return Incident(
        analysis.analyze(
            [os.fspath(path) for path in many],
            executor=executor,
            world_size=world_size,
            select=chosen(select),
            ignore=chosen(ignore),
            span=between(since, until),
            progress=progress,
            quote=True,
            kept=None if cache is None else Path(cache),
        )
    )
