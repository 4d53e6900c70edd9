"""The verdict of a preflight as text and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from ncclforensics.model.folding import are, count, name_hosts
from ncclforensics.preflight.results import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.preflight.flight import Flight
    from ncclforensics.preflight.results import Result


def as_json(flight: Flight) -> str:
    """Return the whole flight as one JSON document."""
    document = {
        "preflight": 1,
        "verdict": "good" if flight.is_good else "failed",
        "nodes": [
            {"node": name, "checks": [asdict(result) for result in results]}
            for name, results in flight.results.items()
        ],
        "differences": [asdict(difference) for difference in flight.differences],
        "missing": [
            {"node": a.node, "kind": a.kind, "why": a.why} for a in flight.missing
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def as_text(flight: Flight, *, verbose: bool = False) -> str:
    """Return the verdict in a line, what failed and what to do, and the rest in short.

    Checks with one result on several nodes are one row. `verbose` lists good ones too.
    """
    rows: defaultdict[Result, list[str]] = defaultdict(list)
    for name, results in flight.results.items():
        for result in results:
            rows[result].append(name)
    lines = [_headline(flight)]
    for answer in flight.missing:
        what = "no answer" if answer.kind == "silent" else "no facts"
        lines.append(f"{what:9}  {answer.node}  {answer.why}")
    for difference in flight.differences:
        word = "odd" if difference.nodes else "differs"
        word = word if difference.status == "failed" else "warning"
        who = f"{name_hosts(difference.nodes)}  " if difference.nodes else ""
        lines.append(f"{word:9}  {who}{difference.what}: {difference.text}")
        lines += (
            [f"{'':9}  do  {difference.do}"] if difference.status == "failed" else []
        )
    lone = len(flight.results) == 1
    for status in STATUSES:
        for result, names in rows.items():
            if result.status == status and (verbose or status in ("failed", "warning")):
                who = "" if lone else f"{name_hosts(names)}  "
                lines.append(f"{status:9}  {who}{result.check}: {result.text}")
                if result.do:
                    lines.append(f"{'':9}  do  {result.do}")
    if not verbose:
        lines += _rest(rows)
    return "\n".join(lines) + "\n"


def _headline(flight: Flight) -> str:
    verdict = "good" if flight.is_good else "failed"
    if not flight.results and not flight.missing:
        return f"preflight {verdict}: no node was asked"
    asked = len(flight.results) + len(flight.missing)
    if asked == 1 and flight.results:
        ((name, results),) = flight.results.items()
        failed = sum(r.status == "failed" for r in results)
        known = sum(r.status != "unknown" for r in results)
        return (
            f"preflight {verdict}: {failed} of {count(known, 'check')} failed on {name}"
        )
    bad = {
        name
        for name, results in flight.results.items()
        if any(r.status == "failed" for r in results)
    }
    odd = {n for d in flight.differences if d.status == "failed" for n in d.nodes}
    parts = [f"{len(flight.results):,} of {count(asked, 'node')} answered"]
    if bad:
        parts.append(f"checks failed on {name_hosts(sorted(bad))}")
    if odd:
        parts.append(f"{name_hosts(sorted(odd))} {are(len(odd))} odd")
    return f"preflight {verdict}: {', '.join(parts)}"


def _rest(rows: dict[Result, list[str]]) -> Iterator[str]:
    """Yield one line of the checks that are good, and one of those not known."""
    bad = {r.check for r in rows if r.status in ("failed", "warning")}
    for status in ("good", "unknown"):
        checks = dict.fromkeys(r.check for r in rows if r.status == status)
        if names := [name for name in checks if name not in bad]:
            yield f"{status:9}  {', '.join(names)}"
            bad.update(names)
