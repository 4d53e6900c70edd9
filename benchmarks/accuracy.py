"""Is the verdict right? Each job with a known truth, analyzed and compared.

    python benchmarks/accuracy.py [--verbose] [FOLDER…]

Reads the fixtures (`truth.toml`) or, where they are given, folders of cases
(`truth.json` or `case.json` beside `evidence/`). A row is one job; `innocent` counts
ranks and hosts that were named and are not among the culprits. The last lines sum up.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
import traceback
from dataclasses import dataclass
from pathlib import Path

from ncclforensics.analysis import Analysis, analyze

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "jobs"

NAMES = ("truth.toml", "truth.json", "case.json")


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happened in one job."""

    slug: str
    evidence: Path
    outcome: str
    classes: frozenset[str]
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    seq: int | None
    group: str | None
    second_classes: tuple[str, ...] = ()
    second_ranks: tuple[int, ...] = ()


def truths(folders: list[Path]) -> list[Truth]:
    """Find all jobs below some folders."""
    found = []
    for folder in folders:
        for file in sorted(f for name in NAMES for f in folder.rglob(name)):
            text = file.read_text("utf-8")
            told = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
            told = told.get("truth", told)
            # in the other form `ranks` counts them
            prefix = "" if file.suffix == ".toml" else "culprit_"
            ranks, hosts = (told.get(f"{prefix}{of}") for of in ("ranks", "hosts"))
            classes = {told.get("class"), *told.get("also_acceptable", ())} - {None}
            second = [(told.get(f"second_{of}"),) for of in ("class", "rank")]
            found.append(
                Truth(
                    file.parent.name,
                    file.parent / "evidence",
                    told["outcome"],
                    frozenset(classes),
                    tuple(ranks or ()),
                    tuple(hosts or ()),
                    told.get("seq"),
                    told.get("process_group"),
                    *(() if None in of else of for of in second),
                )
            )
    return found


def judged(truth: Truth, found: Analysis) -> tuple[str, int]:
    """Return what is wrong with an analysis (or "right") and how many are innocent."""
    ranked = found.ranked
    verdict = ranked.verdict
    named = verdict is not None and ranked.outcome == "failure"
    ranks = set(verdict.ranks) if verdict and named else set()
    hosts = set(verdict.hosts) if verdict and named else set()
    innocent = len(ranks - set(truth.ranks)) if truth.ranks else 0
    innocent += len(hosts - set(truth.hosts)) if truth.hosts else 0
    if truth.outcome != "failure" and named:
        return f"accuses ({verdict.slug if verdict else ''})", len(ranks | hosts)
    if truth.outcome == "failure" and not named:
        slug = verdict.slug if verdict else None
        if slug in truth.classes and ranked.outcome == truth.outcome:
            return "right", 0
        return f"silent: {ranked.outcome} {slug or ''}", 0
    if truth.outcome != ranked.outcome:
        return f"outcome {ranked.outcome}", innocent
    if verdict is None or not named:
        return "right", 0
    if verdict.slug not in truth.classes:
        return f"class {verdict.slug}", innocent
    if truth.ranks and ranks != set(truth.ranks):
        return f"ranks {sorted(ranks)} not {sorted(truth.ranks)}", innocent
    call = verdict.collective
    if truth.seq is not None and (call is None or call.seq != truth.seq):
        return f"seq {call and call.seq} not {truth.seq}", innocent
    if truth.group is not None and (
        call is None or truth.group not in (call.process_group, call.process_group_desc)
    ):
        return f"group {call and call.process_group} not {truth.group}", innocent
    return "right", innocent


def main() -> int:
    """Print a row per job and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[FIXTURES])
    parser.add_argument("--verbose", action="store_true", help="print right rows too")
    options = parser.parse_args()
    right = innocent = broken = 0
    jobs = truths(options.folders)
    for truth in jobs:
        start = time.perf_counter()
        try:
            found = analyze([str(truth.evidence)])
        except Exception:
            broken += 1
            print(f"{truth.slug:48} TRACEBACK")
            traceback.print_exc(limit=-3, file=sys.stdout)
            continue
        verdict, accused = judged(truth, found)
        right += verdict == "right"
        innocent += accused
        if verdict != "right" or options.verbose:
            said = found.ranked.verdict.headline if found.ranked.verdict else ""
            seconds = time.perf_counter() - start
            wanted = ",".join(sorted(truth.classes)) or truth.outcome
            print(f"{truth.slug:48} {seconds:5.2f}s {verdict}")
            print(f"{'':10} wanted {wanted} {truth.ranks or ''} {truth.hosts or ''}")
            print(f"{'':10} said   {found.ranked.outcome}: {said[:110]}")
    print(
        f"{len(jobs)} jobs: {right} right, {len(jobs) - right - broken} not, "
        f"{broken} broken, {innocent} innocents named"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
