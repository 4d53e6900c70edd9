"""Is the verdict the same on the text as it arrives? Each log spoiled in each way.

    python benchmarks/reflow.py [--every N] [--only NAME…] [--jobs SLUG…] [-v] [FOLDER…]

Every log of every job is broken, quoted, shipped or condensed (`spoiling.py`); dumps
stay as they are. The verdict is compared with that on the unspoiled evidence: `class`
and `culprits` are shares of jobs that keep theirs, the outcome included; `innocent`
counts ranks and hosts accused that are not among the true culprits, `no-failure` those
jobs that then have none. A row is one way of spoiling; the last sums up.

Condensed logs by which nobody could decide are left out, and counted: those of a
healthy job, as key lines do not show that it went on, and those whose kept lines do not
tell a true culprit from the others: by its rank, or by its host where the truth has no
rank; whose a line is, its file may tell. A line that all print alike tells nobody from
the others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from accuracy import FIXTURES, Truth, truths
from ncclforensics.analysis import analyze
from ncclforensics.sources import discover
from spoiling import ELIDED, SPOILINGS, Place, last_time, pod

COUNTED = ("class", "culprits", "innocent", "no-failure", "traceback", "left out")
DECIDED = ("condensed",)  # ways after which it is asked whether one could decide
_RANK = re.compile(r"(?i)ranks?[^\w\n]{0,3}(\d{1,6})")
_HOST = re.compile(r"\b[a-z][a-z-]*\d{3,}\b")  # as all fixtures name theirs


class Verdict(NamedTuple):
    """What one analysis says."""

    outcome: str
    slug: str | None
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    confidence: str
    headline: str = ""


def verdict(evidence: Path) -> Verdict:
    """Analyze a folder."""
    ranked = analyze([str(evidence)]).ranked
    best = ranked.verdict
    if best is None or ranked.outcome != "failure":
        return Verdict(ranked.outcome, best.slug if best else None, (), (), "")
    told = best.slug, best.ranks, best.hosts, best.confidence, best.headline
    return Verdict("failure", *told)


def spoil(evidence: Path, name: str, into: Path) -> None:
    """Copy a folder, with its logs spoiled."""
    shutil.copytree(evidence, into)
    logs, last = {}, defaultdict(str)
    for source in discover([str(evidence)], into.parent).sources:
        if source.kind == "log":
            path = into / Path(source.path).relative_to(evidence)
            lines = path.read_text("utf-8", "replace").rstrip("\n").split("\n")
            # two streams of a process stand side by side
            process = path.parent if source.stream else path
            logs[path] = source, lines, process
            last[process] = max(last[process], last_time(lines))
    for path, (source, lines, process) in logs.items():
        times = path.stat()
        place = Place(source.name, source.rank, source.host, last[process])
        text = "\n".join(SPOILINGS[name](lines, place)) + "\n"
        path.write_text(text, "utf-8")
        os.utime(path, (times.st_atime, times.st_mtime))


def could_decide(evidence: Path, truth: Truth) -> bool:
    """Whether somebody could name the true culprits by what is left of the evidence."""
    sources = discover([str(evidence)], evidence.parent).sources
    culprits = {*map(str, truth.ranks or truth.hosts)}
    if truth.outcome == "no-failure":
        return False
    if any(source.kind != "log" for source in sources):
        return True  # dumps stay whole
    named: dict[str, set[str]] = {}
    form = _RANK if truth.ranks else _HOST
    for source in sources:
        whose = source.rank if truth.ranks else source.host
        path = evidence / Path(source.path).relative_to(evidence)
        for line in path.read_text("utf-8", "replace").splitlines():
            if line == ELIDED:
                continue
            kind = re.sub(r"[0-9]+", "#", line)
            found = form.findall(line) or ([] if whose is None else [str(whose)])
            named.setdefault(kind, set()).update(found)
    everybody = set().union(*named.values())
    apart = set().union(*(names for names in named.values() if names != everybody))
    return culprits <= apart or culprits == everybody


def _pods(evidence: Path, ranks: set[int], hosts: set[str]) -> set[str]:
    """Return the pods of the culprits: of their logs, or the one that has all logs."""
    found = discover([str(evidence)], evidence.parent).sources
    logs = [Place(s.name, s.rank, s.host) for s in found if s.kind == "log"]
    pods = {pod(place) for place in logs}
    if len(pods) == 1 and (ranks or hosts):
        return pods
    return {pod(p) for p in logs if p.rank in ranks or p.host in hosts}


def compared(names: list[str], truth: Truth) -> list[tuple[str, Counter[str], str]]:
    """Return for each way of spoiling what is counted, and what was said instead."""
    before = verdict(truth.evidence)
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            spoiled = Path(scratch) / "evidence"
            spoil(truth.evidence, name, spoiled)
            if name in DECIDED and not could_decide(spoiled, truth):
                rows.append((name, Counter({"left out": 1}), ""))
                continue
            try:
                now = verdict(spoiled)
            except Exception:
                rows.append(
                    (name, Counter(jobs=1, traceback=1), traceback.format_exc())
                )
                continue
        same = (now.outcome, now.slug) == (before.outcome, before.slug)
        # a culprit's headline tells its address, by which others know it
        named = {word.strip(",.:;()") for word in before.headline.split()}
        ranks = {*truth.ranks, *before.ranks}
        hosts = {*truth.hosts, *before.hosts, *named}
        # and a shipper the pod in which it runs, the only one or its own
        guilty = ranks, {*hosts, *_pods(truth.evidence, ranks, hosts)}
        innocent = {*now.ranks} - guilty[0], {*now.hosts} - guilty[1]
        counts = Counter(
            {
                "jobs": 1,
                "class": same,
                "culprits": same and set(now.ranks) == set(before.ranks),
                "innocent": sum(map(len, innocent)),
                "no-failure": now.outcome == "no-failure" != before.outcome,
            }
        )
        changed = now[:3] != before[:3] or counts["innocent"]
        then, after = (" ".join(map(str, one[:5])) for one in (before, now))
        said = f"{truth.slug}: {then} -> {after}"
        rows.append((name, counts, said if changed else ""))
    return rows


def main() -> int:
    """Print a row per way of spoiling, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[FIXTURES])
    parser.add_argument("--every", type=int, default=1, help="take each N-th job only")
    parser.add_argument("--only", nargs="*", default=[""], help="names begin like this")
    parser.add_argument("--jobs", nargs="*", default=[""], help="slugs begin like this")
    parser.add_argument("-v", "--verbose", action="store_true", help="print changes")
    options = parser.parse_args()
    names = [name for name in SPOILINGS if name.startswith(tuple(options.only))]
    jobs = [
        t for t in truths(options.folders) if t.slug.startswith(tuple(options.jobs))
    ]
    counts = {name: Counter[str]() for name in names}
    changes: dict[str, list[str]] = {name: [] for name in names}
    with ProcessPoolExecutor(2) as pool:
        for rows in pool.map(partial(compared, names), jobs[:: options.every]):
            for name, counted, said in rows:
                counts[name] += counted
                changes[name] += [said] if said else []
    counts["all"] = sum(counts.values(), Counter[str]())
    print(f"{'':20} {'jobs':>6}" + "".join(f"{title:>11}" for title in COUNTED))
    for name, row in counts.items():
        shares = [f"{row[of] / max(row['jobs'], 1):10.1%}" for of in COUNTED[:2]]
        others = [f"{row[of]:10}" for of in COUNTED[2:]]
        print(f"{name:20} {row['jobs']:6} " + " ".join([*shares, *others]))
        if options.verbose:
            print(*(f"    {said}" for said in changes.get(name, ())), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
