"""Renders the report as GitHub-flavoured Markdown: short on top, details collapsed.

Text of the evidence is quoted in fences longer than any run of backticks in it. All
other text is escaped, so that nothing in a log can create a link, an image or a tag, or
notify a person.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclforensics.model.folding import some
from ncclforensics.report import suspect_phrases
from ncclforensics.report.coverage import recognised
from ncclforensics.report.details import Details
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.phrases import (
    GIVE,
    SPREAD,
    also,
    around_last,
    beside,
    call,
    clue,
    grouped,
    job,
    last_words,
    onset,
    others,
    perhaps,
    restart,
    step,
    sureness,
    who,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.report.contract import Evidence, Finding, Report, Verdict
    from ncclforensics.report.details import Call, Excerpt

# entries and approximate characters of a collapsed section: tickets have a limit, and
# the JSON report is complete
MOST, ROOM = 50, 5000
NO_DETAILS = Details()
SIDES = {
    "waiting": "waiting",
    "absent": "not made by",
    "behind": "held up before it",
    "done": "done",
    "unseen": "no evidence of",
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&!])")
# mentions, issues and URLs, which GitHub links even if they are escaped
_LINKED = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)")
_BULLET = re.compile(r"(?m)^([ \t]*[0-9]*)([-+=#.)])")


def render_markdown(
    report: Report, details: Details = NO_DETAILS, *, quotes: bool = True
) -> str:
    """Return the report as Markdown that ends with a newline.

    Without `quotes`, it leaves out literal text of the evidence, and says so.
    """
    verdict = report.verdict
    first, second = opening(report)
    if verdict is None:
        blocks = [f"**{escape(first)}**", escape(second), *_suspects(report)]
        blocks += _clue(report)
        if not recognised(report):
            blocks.append(GIVE)
    else:
        blocks = _verdict(verdict, report, details, quotes=quotes)
    blocks += _chain(report)
    blocks += _table(details)
    if verdict is not None:
        blocks += _cited(verdict, quotes=quotes)
    if quotes:
        shown = around_last(report, details)
        blocks += _fold_excerpts([e for e in details.excerpts if e is not shown])
    elif verdict is not None or details.excerpts:
        blocks.append("The cited lines are left out here; the full report has them.")
    folds = [(f"{f.role}: {f.slug}", _brief(f)) for f in others(report)]
    blocks += _fold("Other findings", [f"{head} {text}" for head, text in folds])
    blocks += _fold("Other jobs", [escape(beside(o)) for o in report.others])
    ruled_out = grouped((r.slug, r.why) for r in report.ruled_out)
    blocks += _fold("Ruled out", [f"{s}: {escape(why)}" for s, why in ruled_out])
    unseen = grouped(
        (n.slug, f"{n.missing}; next time: {n.next_time}") for n in report.not_checked
    )
    blocks += _fold("Not checked", [f"{s}: {escape(why)}" for s, why in unseen])
    notes = [f"{n.source}: {n.text}" if n.source else n.text for n in report.notes]
    blocks += _fold("Notes", [escape(note) for note in notes])
    ran = job(report.job)
    made = f"{report.tool.name} {report.tool.version}"
    blocks.append(f"<sub>{' · '.join(escape(t) for t in (ran, made) if t)}</sub>")
    return "\n\n".join(blocks) + "\n"


def _verdict(
    verdict: Verdict, report: Report, details: Details, *, quotes: bool
) -> list[str]:
    """Return the blocks that name the failure."""
    named = who(verdict.culprits, 200) or "no rank accused"
    claim = f"**{perhaps(verdict)}`{verdict.slug}`: {escape(named)}**"
    blocks = [
        *_opening(report, f"{claim} ({sureness(verdict, report)})"),
        escape(verdict.headline),
        *(escape(told) for told in also(report)),
        *(_suspects(report) if suspect_phrases.comes_first(report) else ()),
        *_clue(report),
        escape(verdict.explanation),
    ]
    facts = []
    if verdict.collective is not None:
        facts.append(f"- call: {escape(call(verdict.collective))}")
    if report.onset is not None:
        facts.append(f"- {escape(onset(report.onset))}")
    elif verdict.first_seen is not None:
        facts.append(f"- first seen: {verdict.first_seen}")
    facts += [f"- {escape(earlier)}" for earlier in report.earlier]
    if facts:
        blocks.append("\n".join(facts))
    if quotes and (last := last_words(report, details)):
        blocks += ["**Its last line**", fence(last)]
    if verdict.remedy:
        blocks += ["**What to do**", fence(verdict.remedy)]
    if again := restart(verdict):
        blocks.append(f"Restart: {escape(again)}")
    if not suspect_phrases.comes_first(report):
        blocks += _suspects(report)
    return blocks


def _opening(report: Report, claim: str) -> list[str]:
    """Return the opening lines where a clue leads, before the class of the sign."""
    if report.clue is None or not report.clue.text:
        return [claim]
    first, second = opening(report)
    return [f"**{escape(first)}**", escape(second), claim]


def _clue(report: Report) -> list[str]:
    """Return who was heard, where each rank stood, and what is needed."""
    told = [f"- {label}: {escape(text)}" for label, text in clue(report)]
    return ["\n".join(told)] if told else []


def _suspects(report: Report) -> list[str]:
    """Return the heading and the list of suspects, in order."""
    found = suspect_phrases.suspects(report)
    if not found:
        return []
    listed = [f"{n}. {escape(suspect_phrases.told(s))}" for n, s in enumerate(found, 1)]
    return [f"**{suspect_phrases.title(report)}**", "\n".join(listed)]


def _chain(report: Report) -> list[str]:
    """Return the chain from the cause to the symptoms, one step per line."""
    if all(s.part == "cause" for s in report.chain):
        return []
    steps = [f"{n}. {escape(step(s))}" for n, s in enumerate(report.chain[:MOST], 1)]
    return ["**How it spread**", "\n".join(steps)]


def _cited(verdict: Verdict, *, quotes: bool) -> list[str]:
    """Return the citations and references of a verdict in collapsed sections."""
    cited = [_cite(cite) for cite in verdict.evidence] if quotes else []
    blocks = _fold("Evidence", cited, fenced=True)
    if verdict.references:
        blocks.append(
            _fold_text("References", "\n".join(f"- {r}" for r in verdict.references))
        )
    return blocks


def _table(details: Details) -> list[str]:
    """Return the hanging calls as a table of folded ranks, without empty columns."""
    if not details.calls:
        return []
    sides = [s for s in SIDES if any(getattr(call, s) for call in details.calls)]

    def row(call: Call) -> str:
        ranks = (some(getattr(call, side), 60) or "-" for side in sides)
        return f"| {escape(call.name)} | {' | '.join(ranks)} |"

    head = f"| call | {' | '.join(SIDES[side] for side in sides)} |"
    rows = [head, f"| --- |{' --- |' * len(sides)}", *map(row, details.calls)]
    told = []
    if details.more_calls:
        told.append(
            f"{details.more_calls:,} more calls that hang: in the exported frames"
        )
    if any(call.is_spread for call in details.calls):
        told.append(SPREAD)
    return ["\n".join(rows), *told]


def _fold_excerpts(excerpts: Sequence[Excerpt]) -> list[str]:
    """Return the excerpts in a collapsed section; > marks cited lines."""
    shown: list[str] = []
    for excerpt in excerpts:
        block = f"{escape(excerpt.source)}\n\n{fence(excerpt.numbered)}"
        if sum(map(len, shown)) + len(block) > ROOM:
            break
        shown.append(block)
    if not shown:
        return []
    hidden = len(excerpts) - len(shown)
    left = [f"{hidden:,} more in the zip report"] if hidden else []
    title = f"In the logs ({len(excerpts):,})"
    return [_fold_text(title, "\n\n".join(shown + left))]


def _cite(cite: Evidence) -> str:
    """Return a cited line as `path:line  text`."""
    return f"{cite.place}  {cite.text}".rstrip()


def _brief(finding: Finding) -> str:
    """Return the culprits of another finding, and its headline."""
    named = who(finding.culprits, 120)
    told = f"{named}: {finding.headline}" if named else finding.headline
    return escape(f"{perhaps(finding)}{told}")


def _fold(title: str, entries: Sequence[str], *, fenced: bool = False) -> list[str]:
    """Return a list in a collapsed section, if any; it says how much is left out."""
    if not entries:
        return []
    shown = list(entries[:MOST])
    while len(shown) > 1 and sum(map(len, shown)) > ROOM:
        shown.pop()
    body = fence(shown) if fenced else "\n".join(f"- {entry}" for entry in shown)
    if len(entries) > len(shown):
        body += f"\n\n{len(entries) - len(shown):,} more in the JSON report"
    return [_fold_text(f"{title} ({len(entries):,})", body)]


def _fold_text(title: str, body: str) -> str:
    """Return `body` in a collapsed section."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def escape(text: str) -> str:
    """Escape `text` as Markdown that shows it literally and links nothing."""
    escaped = _LINKED.sub("<!-- -->", _SPECIAL.sub(r"\\\1", text))
    return _BULLET.sub(r"\1\\\2", escaped)


def fence(lines: Iterable[str]) -> str:
    """Return `lines` in a fenced block that none of them can close."""
    body = "\n".join(lines)
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}text\n{body}\n{mark}"
