"""Is what is called certain, certain? Claims by confidence, and how many are right.

    python benchmarks/confidence.py [FOLDER…] [--seeds N] [--only KIND] [--lost-times]

A claim is a verdict, or another root beside it, of a job whose truth is known: of the
simulator (`simulated`, and without a part of its dumps `lost`), of the lab's jobs and
incidents, or of folders of cases (`truth.toml`, `truth.json`), as they are (`whole`),
with any one source, sort of source or host taken away (`less`), with two sources taken
away (`two`), with a file cut in the middle (`cut`), and with another job in a folder
beside it (`beside`). `--lost-times` takes the times of all files away. It is right if
its class is one of the truth's, or a weaker word for what happened to the same rank,
and if everybody whom it names is to blame. `silent` counts failures of which nothing
was claimed. Wanted are 99 % of `certain` and 90 % of `likely`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "simulator"))

import polars as pl

import accuracy
import removal
import simulate_faults
import simulated
from ncclforensics.analysis import analyze
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames

JOBS = Path(__file__).parents[1] / "tests" / "fixtures"
SHARE = 0.2  # of the dumps of a simulated job, that are lost
WANTED = {"certain": 99.0, "likely": 90.0, "possible": 0.0}
# what is left to say of a rank where its own story is lost
WEAKER = {"missing-rank", "crashed-rank", "socket-error", "straggler"}


class Tally:
    """Claims and silences, by where they come from."""

    def __init__(self, verbose: bool) -> None:
        """Count nothing yet; `verbose` prints each claim that is wrong."""
        self.claims: defaultdict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
        self.silent: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.verbose = verbose

    def add(self, where: str, case: str, report, classes, ranks, hosts, failed):
        """Judge every root of a report."""
        self.runs[where] += 1
        roots = [f for f in report.findings if f.role == "root"]
        claimed = report.outcome == "failure"
        self.silent[where] += failed and not claimed
        for finding in roots if claimed else ():
            named = set(finding.culprits.ranks)
            known = classes | WEAKER if named else classes
            right = failed and finding.slug in known and named <= ranks
            if not ranks:
                right = right and set(finding.culprits.hosts) <= hosts
            if where == "whole" and finding is roots[0]:
                right = right and finding.slug in classes
            self.claims[where, finding.confidence][right] += 1
            if self.verbose and not right:
                who = finding.culprits.ranks_folded
                said = f"{finding.confidence} {finding.slug} {who}"
                print(f"  {where} {case}: {said}: {finding.headline[:90]}")

    def table(self) -> bool:
        """Print the table; whether everything is as it is wanted."""
        print(f"{'evidence':10} {'runs':>6} {'silent':>6}", end="")
        print("".join(f" {name:>22}" for name in WANTED))
        total: defaultdict[str, Counter[bool]] = defaultdict(Counter)
        for where in self.runs:
            row = f"{where:10} {self.runs[where]:6} {self.silent[where]:6}"
            for name in WANTED:
                row += f" {_share(self.claims[where, name]):>22}"
                total[name] += self.claims[where, name]
            print(row)
        row = f"{'all':10} {sum(self.runs.values()):6} {sum(self.silent.values()):6}"
        print(row + "".join(f" {_share(total[name]):>22}" for name in WANTED))
        return all(
            100 * total[name][True] >= share * sum(total[name].values())
            for name, share in WANTED.items()
        )


def _share(counts: Counter[bool]) -> str:
    made = sum(counts.values())
    if not made:
        return "-"
    return f"{counts[True]} of {made} = {100 * counts[True] / made:.1f} %"


def simulator(
    tally: Tally, seeds: int, sizes: list[int], lost: float, lost_times: bool
) -> None:
    """Play every fault, at every size and with every style of dumps."""
    for name in simulate_faults.FAULTS:
        for ranks in sizes:
            for style in simulated.STYLES:
                for seed in range(seeds):
                    run = simulated.one(name, ranks, style, seed, lost_times, lost)
                    if run is None:
                        continue
                    case, found, _ = run
                    tally.add(
                        "lost" if lost else "simulated",
                        f"{name} {ranks} {style} {seed}",
                        found.report,
                        set(case.classes),
                        set(case.ranks) | set(case.told.get("any_of") or ()),
                        set(),
                        case.outcome == "failure",
                    )


def lab(tally: Tally, folders: list[Path], only: str, lost_times: bool) -> None:
    """Analyze every job of the lab, and what is left of it."""
    dice = random.Random(1)
    jobs = accuracy.truths(folders)
    for job in jobs:
        case = removal.incident(job.evidence.parent, _truth(job))
        if lost_times:
            case = replace(case, frames=_timeless(case.frames))
        truth = _allowed(job)
        if only in ("", "whole"):
            tally.add("whole", job.slug, case.without(())[1], *truth)
        if only in ("", "less"):
            taken = removal.removals(case)
            for gone in dice.sample(taken, min(len(taken), 12)):
                name = f"{job.slug} without {gone[0]} and {len(gone) - 1} more"
                tally.add("less", name, case.without(gone)[1], *truth)
        if only in ("", "two") and len(case.names) > 2:
            for _ in range(6):
                gone = tuple(dice.sample(case.names, 2))
                name = f"{job.slug} without {' and '.join(gone)}"
                tally.add("two", name, case.without(gone)[1], *truth)
        if only in ("", "beside"):
            _beside(tally, job, dice.choice(jobs), lost_times)
        if only in ("", "cut"):
            files = [n for n in case.names if (job.evidence / n).is_file()]
            for name in dice.sample(files, min(len(files), 3)):
                report = _cut(job.evidence, name, dice.random(), lost_times)
                tally.add("cut", f"{job.slug} {name}", report, *truth)


def _truth(job: accuracy.Truth) -> dict[str, object]:
    """Return what `removal` asks of a truth."""
    hosts = list(job.hosts)
    return {"outcome": job.outcome, "ranks": list(job.ranks), "hosts": hosts}


def _allowed(job: accuracy.Truth) -> tuple[set[str], set[int], set[str], bool]:
    """Return whom a report may name: classes, ranks, hosts, and whether anybody."""
    ranks = {*job.ranks, *job.second_ranks}
    return (
        {*job.classes, *job.second_classes},
        ranks,
        {*job.hosts},
        job.outcome == "failure",
    )


def _timeless(part: Frames) -> Frames:
    """Take the time of its file from a parsed source."""
    never = pl.lit(None, tables.SCHEMAS["sources"]["modified"]).alias("modified")
    told = {n: f.with_columns(never) for n, f in part.tables.items() if n == "sources"}
    return Frames({**part.tables, **told}, part.messages)


def _beside(
    tally: Tally, one: accuracy.Truth, other: accuracy.Truth, lost_times: bool
) -> None:
    """Analyze two jobs in folders of their own; what is said has to be of either."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, job in (("alpha", one), ("beta", other)):
            _copy(job.evidence, Path(scratch) / name, lost_times)
        report = analyze([scratch]).report
    classes, ranks, hosts, failed = zip(_allowed(one), _allowed(other), strict=True)
    tally.add(
        "beside",
        f"{one.slug} and {other.slug}",
        report,
        set.union(*classes),
        set.union(*ranks),
        set.union(*hosts),
        any(failed),
    )


def _cut(evidence: Path, name: str, share: float, lost_times: bool):
    """Analyze a copy of which one file is cut."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "evidence"
        _copy(evidence, copy, lost_times)
        whole, told = (copy / name).read_bytes(), (copy / name).stat()
        (copy / name).write_bytes(whole[: int(len(whole) * share)])
        os.utime(copy / name, ns=(told.st_atime_ns, told.st_mtime_ns))
        return analyze([str(copy)]).report


def _copy(folder: Path, to: Path, lost_times: bool) -> None:
    """Copy files with their times, or as if they were of today."""
    copy = shutil.copy if lost_times else shutil.copy2
    shutil.copytree(folder, to, copy_function=copy)


def main() -> int:
    """Print the table; 1 where a confidence is not what it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[JOBS])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--ranks", nargs="*", type=int, default=[16, 64])
    parser.add_argument(
        "--only", default="", help="simulated, lost, whole, less, two, cut or beside"
    )
    parser.add_argument("--lost-times", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    tally = Tally(options.verbose)
    for only, lost in (("simulated", 0.0), ("lost", SHARE)):
        if options.only in ("", only):
            sizes = (options.seeds, options.ranks)
            simulator(tally, *sizes, lost, options.lost_times)
    if options.only not in ("simulated", "lost"):
        lab(tally, options.folders, options.only, options.lost_times)
    return 0 if tally.table() else 1


if __name__ == "__main__":
    sys.exit(main())
