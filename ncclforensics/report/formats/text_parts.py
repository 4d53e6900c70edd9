"""Parts of the text answer that its brief and its verbose body share.

Text from a log follows its `path:line` or a bar, so that none of it can pass for a line
of the report.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ncclforensics.model.folding import count
from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import recognised
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import GIVE as GIVE
from ncclforensics.report.phrases import clue as clue
from ncclforensics.report.phrases import perhaps, who
from ncclforensics.report.rank_filter import ASKED
from ncclforensics.report.sanitize import ELLIPSIS
from ncclforensics.report.text_layout import fold, shorten, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.report.contract import Evidence, Finding, Note, Report, Step
    from ncclforensics.report.given import Given

PROSE = 100  # cells; longer lines of prose are hard to read
MOST = 1000  # entries of any list even with -v: the JSON has them all
# Shell commands stay on one line. Such a line starts like a command, ends in a remark,
# or contains what only commands contain and is not a sentence that introduces one.
_COMMAND = re.compile(
    r"(?:\$ |export |[A-Z][A-Z0-9_]*=\S|(?:sudo|ssh|pdsh|srun|scontrol|sacct|systemctl"
    r"|journalctl|dmesg|nvidia-smi|dcgmi|kubectl|torchrun|python3?|ip|ibstat|df|mount"
    r"|ncclforensics|(?:z|xz|bz|zstd)?less|py-spy|gdb|rdma) [^ ]*[^ .,]( |$)"
    r"|.* {3,}# |(?!.*: ).* (?:#|&&|\||--[a-z][a-z-]*) )"
)


def asked(report: Report) -> list[str]:
    """Return what was found on the ranks and groups that were asked for."""
    return [note.text for note in report.notes if note.stage == ASKED]


def why(report: Report) -> list[str]:
    """Return the explanation, after a headline that the second line had to cut."""
    if report.verdict is None:
        return []
    cut = opening(report)[1].endswith(ELLIPSIS)
    full = [f"{report.verdict.headline}."] if cut else []
    return [*full, report.verdict.explanation]


def quote(cite: Evidence, room: int, most: int = 4) -> list[str]:
    """Return a citation: on one line if it fits, else the text below its place.

    The text takes at most `most` lines.
    """
    if not cite.text:
        return [cite.place]
    together = f"{cite.place}  {cite.text}"
    if shorten(together, room) == together:
        return [together]
    parts = fold(cite.text, room - 4, most)
    return [cite.place, *(f"  | {part}" for part in parts)]


def remedy(item: str, width: int, given: Given) -> list[str]:
    """Return what to do, in lines; a command stays on one, to be pasted."""
    item = given.remedy(item)
    return [item] if _COMMAND.match(item) else wrap(item, width, hang=2)


def suspects(report: Report, width: int) -> list[list[str]]:
    """Return the lines of each suspect: name, share, reason; shares are aligned."""
    shown = suspect_phrases.suspects(report)[:MOST]
    broad = max((cell_len(suspect_phrases.name(s)) for s in shown), default=0)
    found = []
    for suspect in shown:
        name, share = suspect_phrases.name(suspect), suspect_phrases.share(suspect)
        head = f"{name}{' ' * (broad - cell_len(name))} {share:>5} "
        # a placeholder as wide as the head, because wrapping collapses spaces
        place = "#" * cell_len(head)
        first, *rest = wrap(f"{place} {suspect_phrases.reason(suspect)}", width, hang=2)
        found.append([head + first[len(place) :], *rest])
    return found


def course(report: Report) -> list[Step]:
    """Return the chain from the cause to the symptoms, without the cause."""
    after = [s for s in report.chain if s.part == "spread"]
    return after + [s for s in report.chain if s.part == "seen"]


def told(finding: Finding) -> str:
    """Return another finding in one line."""
    named = who(finding.culprits, 80)
    where = [e.place for e in finding.evidence[:1] if e.line]
    said = "; ".join((finding.headline, *where))
    slug = f"{perhaps(finding)}{finding.slug}"
    return f"{slug}: {named} ({said})" if named else f"{slug}: {said}"


def notes(report: Report) -> list[str]:
    """Return the number of notes, and one text for notes that differ only in digits."""
    found = [note for note in report.notes if note.stage != ASKED]
    if not found:
        return []
    texts = [count(len(found), "note")]
    for group in alike(found):
        first, files = group[0], len({note.source for note in group})
        where = f"{first.source}: " if first.source else ""
        rest = f" (and {len(group) - 1:,} more like it" if len(group) > 1 else ""
        rest += f", in {count(files, 'file')})" if rest else ""
        texts.append(f"{where}{first.text}{rest}")
    return texts


def alike(notes: Iterable[Note]) -> list[list[Note]]:
    """Return notes that differ only in digits together, the largest group first.

    Notes on no file are of the whole evidence: they come before all others.
    """
    groups: dict[str, list[Note]] = {}
    for note in notes:
        groups.setdefault(re.sub(r"[0-9]+", "#", note.text), []).append(note)
    return sorted(
        groups.values(), key=lambda some: (some[0].source is not None, -len(some))
    )


def next_commands(report: Report, given: Given, width: int) -> list[str]:
    """Return the commands that show more: one line if they fit, else one each."""
    show = "timeline" if recognised(report) else "evidence"
    told = [] if given.is_stdin else [f"ncclforensics {show} {given.words}"]
    if recognised(report):
        slug = report.outcome if report.verdict is None else report.verdict.slug
        told.append(f"ncclforensics explain {slug}")
    together = " · ".join(told)
    return [together] if together and cell_len(together) <= width else told
