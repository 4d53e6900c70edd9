"""The body of the text answer on one screen; `-v` prints all of it instead.

Sections share LINES lines. Each has a most and a least; the section that can give up
most is shortened first, after an item or a sentence if there are several.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import recognised
from ncclforensics.report.formats import text_parts as parts
from ncclforensics.report.phrases import beside, call, job, onset, others, restart, step
from ncclforensics.report.sanitize import ELLIPSIS
from ncclforensics.report.text_layout import Row, labelled, shorten, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ncclforensics.report.contract import Report, Verdict
    from ncclforensics.report.given import Given

    Fit = Callable[[int], list[str]]

CITES, SUSPECTS = 4, 3  # that usually fit
LINES = 18  # with the opening lines 20, so that the prompt fits on a screen of 24
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class Section:
    """A label, and `fit`, which returns what there is to say in at most n lines.

    It is given `most` lines, and `least` if other sections need the room.
    """

    label: str
    fit: Fit
    most: int
    least: int = 1


def body(report: Report, room: int, given: Given) -> list[Row]:
    """Return the rows below the opening lines, `room` cells wide beside the label."""
    sections = [*_sections(report, room, given)]
    granted = [len(s.fit(s.most)) for s in sections]
    while sum(granted) > LINES:
        spare = [n - s.least for n, s in zip(granted, sections, strict=True)]
        at = spare.index(max(spare))
        if spare[at] <= 0:
            break
        granted[at] = len(sections[at].fit(granted[at] - 1))
    rows: list[Row] = []
    for section, most in zip(sections, granted, strict=True):
        rows += labelled(section.label, section.fit(most))
    return rows


def _sections(report: Report, room: int, given: Given) -> Iterator[Section]:
    """Yield the sections in the order in which they are read."""
    prose = min(room, parts.PROSE)
    is_open = suspect_phrases.comes_first(report)
    suspects = parts.suspects(report, prose)
    yield Section("asked", _prose(". ".join(parts.asked(report)), prose), 2)
    if is_open:
        yield Section("look at", _items(suspects[:SUSPECTS]), 6, 3)
    yield from _of_clue(report, prose)
    if report.verdict is not None:
        yield from _of_verdict(report.verdict, report, room, given)
    elif not recognised(report):
        yield Section("do", _prose(parts.GIVE, prose), 4)
    if not is_open:
        yield Section("suspect", _items(suspects), 2, 0)
    yield Section("then", _first([*map(step, parts.course(report))], prose), 1)
    roots = [parts.told(f) for f in others(report) if f.role == "root"]
    yield Section("also", _first(roots, prose), 1)
    yield Section("others", _first([*map(beside, report.others)], prose), 1)
    yield Section("job", _prose(job(report.job), prose), 2, 0)
    yield Section("notes", _first(parts.notes(report)[1:], prose), 1, 0)
    yield Section("more", _first(_left_out(report), prose), 1)
    more = parts.next_commands(report, given, prose)
    yield Section("next", _items([[line] for line in more]), 2)


def _of_clue(report: Report, prose: int) -> Iterator[Section]:
    for label, text in parts.clue(report):
        yield Section(label, _prose(text, prose), 2)


def _of_verdict(
    verdict: Verdict, report: Report, room: int, given: Given
) -> Iterator[Section]:
    prose = min(room, parts.PROSE)
    yield Section("why", _prose(" ".join(parts.why(report)), prose), 5, 2)
    if verdict.collective is not None:
        yield Section("call", _prose(call(verdict.collective), prose), 2)
    if report.onset is not None:
        yield Section("when", _prose(onset(report.onset), prose), 2)
    elif verdict.first_seen is not None:
        yield Section(
            "when", _prose(f"first seen {verdict.first_seen[:23]}Z", prose), 1
        )
    earlier = [wrap(line, prose, hang=2) for line in report.earlier]
    yield Section("before", _items(earlier), 4, 2)
    if report.last_line is not None:
        yield Section("last", _items([parts.quote(report.last_line, room, 1)]), 2)
    cites = [parts.quote(cite, room, 1) for cite in verdict.evidence]
    yield Section("evidence", _items(cites), 5, 2)
    do = [parts.remedy(item, prose, given) for item in verdict.remedy]
    yield Section("do", _items(do), 4)
    yield Section("restart", _prose(restart(verdict), prose), 1)


def _items(items: Sequence[Sequence[str]]) -> Fit:
    """Fit whole items, each of some lines; of the first at least a part."""

    def fit(room: int) -> list[str]:
        shown: list[str] = []
        for item in items:
            if len(shown) + len(item) > room:
                break
            shown += item
        return shown or [*items[0][:room]] if items else []

    return fit


def _prose(text: str, width: int) -> Fit:
    """Fit whole sentences, or the beginning of the first."""
    ends = [m.start() for m in _SENTENCE.finditer(text)]

    def fit(room: int) -> list[str]:
        for end in (len(text), *reversed(ends)):
            if len(lines := wrap(text[:end], width)) <= room:
                return lines
        first = lines[:room]
        return [*first[:-1], shorten(f"{first[-1]} {ELLIPSIS}", width)] if first else []

    return fit


def _first(told: Sequence[str], width: int) -> Fit:
    """Fit the first of several texts on one line, with the number of the others."""
    more = f" (+{len(told) - 1:,})" if len(told) > 1 else ""
    line = [shorten(told[0], width - len(more)) + more] if told and told[0] else []
    return lambda room: line[:room]


def _left_out(report: Report) -> list[str]:
    """Return one text that counts what only the verbose answer lists, or none."""
    roles = [finding.role for finding in others(report)]
    signs, echoes = roles.count("witness"), roles.count("echo")
    cites = len(report.verdict.evidence) if report.verdict is not None else 0
    suspects = len(suspect_phrases.suspects(report))
    told = [
        *([count(suspects, "suspect")] if suspects > SUSPECTS else []),
        *([count(cites, "citation")] if cites > CITES else []),
        *([count(echoes, "consequence")] if echoes else []),
        *([count(signs, "other sign")] if signs else []),
        *([f"ruled out {len(report.ruled_out)}"] if report.ruled_out else []),
        *([f"unchecked {len(report.not_checked)}"] if report.not_checked else []),
    ]
    return [f"{' · '.join(told)}: -v"] if told else []
