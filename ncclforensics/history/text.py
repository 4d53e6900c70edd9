"""Renders the answers of `history` for a terminal: a screen of 80 by 24.

What matters comes first: who stands out, then the newest. On a terminal, headlines are
cut to its width; in a pipe they stay whole, so that grep sees all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.history.limits import ALPHA
from ncclforensics.model.folding import count, fold_hosts
from ncclforensics.report.text_layout import Row, paint, shorten, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.history.results import (
        Count,
        Counts,
        Listing,
        Node,
        Seen,
        Standing,
    )

UNBOUNDED = 100_000  # cells, for a pipe
GAP = "  "
UNNAMED = {
    "inconclusive": "stopped, and its cause was not in the evidence",
    "no-failure": "nothing failed",
}
TESTED = {
    "node hours": "their node hours",
    "hosts of the jobs": "the jobs that they were in",
    "jobs": "how many of their jobs were kept",
}


def listing(found: Listing, width: int | None, *, colour: bool = False) -> str:
    """Return the newest incidents, one line each."""
    many = count(found.incidents, "incident")
    head = f"{many} in {count(found.analyses, 'analysis', 'analyses')} kept"
    rows = [Row("", head + _span(found.since, found.until), "bold")]
    rows += [Row("", line) for line in _table(_incidents(found.shown), width)]
    if found.incidents > len(found.shown) > 0:
        rows.append(Row("", f"{found.incidents - len(found.shown):,} older: --limit"))
    if found.shown:
        rows.append(Row("", "next: --by host · --by failure · --node HOST"))
    return paint(rows, colour=colour)


def node(found: Node, width: int | None, *, colour: bool = False) -> str:
    """Return what happened on a host: when, what, and how the job went on."""
    mine = found.count
    if mine is None:
        return f"{found.host}: no incident names it{_span(found.since, found.until)}\n"
    kinds = " · ".join(f"{slug} {n:,}" for slug, n in mine.classes.items())
    named = f"{found.host} is named by {count(mine.incidents, 'incident')}"
    rows = [Row("", f"{named}{_span(found.since, found.until)}: {kinds}", "bold")]
    if mine.standing is not None:
        style = "bold red" if mine.standing.stands_out else ""
        rows.append(Row("", _verdict(mine, mine.standing, found.compared), style))
    rows.append(Row("", ""))
    for seen in found.shown:
        who = f"rank{'' if seen.ranks.isdigit() else 's'} {seen.ranks}, " * bool(
            seen.ranks
        )
        where = [
            f"{who}GPU {','.join(seen.devices)}" if seen.devices else who.rstrip(", ")
        ]
        where += [f"job {seen.job}"] if seen.job else []
        told = GAP.join([_when(seen), seen.slug or seen.outcome, *filter(None, where)])
        rows.append(Row("", told))
        rows.append(Row("", _cut(f"    {_headline(seen)}", width)))
        # not cut: an address or a path is to be opened
        if more := [*filter(None, (_went_on(seen), seen.ticket or seen.path))]:
            rows.append(Row("", f"    {' · '.join(more)}"))
    if mine.incidents > len(found.shown):
        rows.append(Row("", f"{mine.incidents - len(found.shown):,} older: --limit"))
    return paint(rows, colour=colour)


def counts(found: Counts, width: int | None, *, colour: bool = False) -> str:
    """Return the table of counts, and how those who stand out were found."""
    names = f"{found.names:,} {found.by}{'' if found.names == 1 else _plural(found.by)}"
    head = f"{count(found.incidents, 'incident')} by {found.by}, {names}"
    rows = [Row("", head + _span(found.since, found.until), "bold")]
    marks = ["", *("bold red" if _out(c) else "" for c in found.rows)]
    lines = _table(_columns(found), width)
    rows += [Row("", line, s) for line, s in zip(lines, marks, strict=True)]
    if found.names > len(found.rows):
        rows.append(Row("", f"{found.names - len(found.rows):,} more: --limit"))
    if found.measure is not None and found.compared > 1:
        rows += [Row("", line) for line in wrap(_method(found), min(width or 80, 100))]
    return paint(rows, colour=colour)


def _columns(found: Counts) -> list[list[str]]:
    """Return the cells of a table, with its heading."""
    tested, hours = found.measure is not None, any(c.hours for c in found.rows)
    what = "jobs" if found.by in ("user", "image") else "faults"
    title = "what" if found.by == "failure" else found.by
    head = [title, ">seen", *([f">{what}", ">expected"] if tested else [])]
    head += [">hours", ">per 1,000 h"] if hours else []
    head += ["last", "classes" if found.by != "class" else ""]
    rows = [head]
    for row in found.rows:
        held = row.standing
        cells = [
            f"{'! ' if _out(row) else '  ' * tested}{row.name}",
            f"{row.incidents:,}",
        ]
        if tested:
            cells += [f"{row.events:,}", f"{held.expected:,.3g}" if held else "-"]
        if hours:
            rate = row.per_1000_hours
            cells += [f"{row.hours:,.0f}" if row.hours else "-"]
            cells += [f"{rate:,.3g}" if rate is not None else "-"]
        kinds = " · ".join(f"{slug} {n:,}" for slug, n in row.classes.items())
        if found.by == "failure":
            cells[0] = (row.first or "-")[:10]
            kinds = f"{next(iter(row.classes))}: {row.headline}"
        cells += [(row.last or "-")[:10], kinds if found.by != "class" else ""]
        rows.append(cells)
    if found.by == "failure":
        rows[0][0], rows[0][-1] = "since", "failure"
    return rows


def _incidents(shown: Sequence[Seen]) -> list[list[str]]:
    rows = []
    for seen in shown:
        where = fold_hosts(seen.hosts)
        rows.append([_when(seen), seen.slug or seen.outcome, where, _headline(seen)])
    return rows


def _table(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return aligned lines; a heading that begins with > is over numbers.

    The last column is cut to the width, the others stay whole.
    """
    if not rows:
        return []
    right = {i for i, cell in enumerate(rows[0]) if cell.startswith(">")}
    cells = [[cell.removeprefix(">") for cell in row] for row in rows]
    wide = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = []
    for row in cells:
        *fixed, last = row
        told = [
            c.rjust(wide[i]) if i in right else c.ljust(wide[i])
            for i, c in enumerate(fixed)
        ]
        lines.append(_cut(GAP.join([*told, last]).rstrip(), width))
    return lines


def _method(found: Counts) -> str:
    out = sum(map(_out, found.rows))
    named = f"! stands out: {out:,}" if out else "Nobody stands out"
    more = {
        "hosts of the jobs": " --hours FILE, node hours by host, is a better measure.",
        "jobs": " Jobs that ran well count where they were kept.",
    }.get(found.measure or "", "")
    return (
        f"{named} of {found.compared:,}, by {TESTED[found.measure or '']}: exact "
        f"binomial tail below {ALPHA:.0%} for all of them together (Holm).{more}"
    )


def _verdict(mine: Count, held: Standing, compared: int) -> str:
    much = f"{count(mine.events, 'fault')} of a node, {held.expected:.3g} expected"
    chance = f"chance {held.corrected:.1g} among {count(compared, 'host')}"
    if held.stands_out:
        return f"it stands out: {much}, {chance}"
    return f"it does not stand out: {much}"


def _out(row: Count) -> bool:
    return row.standing is not None and row.standing.stands_out


def _headline(seen: Seen) -> str:
    return seen.headline or UNNAMED.get(seen.outcome, "")


def _went_on(seen: Seen) -> str:
    """Return how the job was restarted; else what the report advised, if anything."""
    if seen.restarted:
        return f"restarted {seen.restarted}"
    known = seen.advice not in (None, "", "unknown")
    return f"advice: restart {seen.advice}" if known else ""


def _when(seen: Seen) -> str:
    return (seen.t or "no time known   ")[:16].replace("T", " ")


def _span(since: str | None, until: str | None) -> str:
    told = f" since {since[:10]}" if since else ""
    return f"{told} until {until[:10]}" if until else told


def _plural(by: str) -> str:
    return "es" if by == "class" else "s"


def _cut(text: str, width: int | None) -> str:
    return shorten(text, width or UNBOUNDED)
