"""Is what is called certain, certain? Claims by confidence, and how many are right.

    python benchmarks/confidence.py [--seeds N] [--only KIND] [-v]

A claim is a verdict, or another root beside it, of a job whose truth is known: of the
simulator, of the lab's jobs and incidents as they are (`whole`), with any one source,
sort of source or host taken away (`less`), with two sources taken away (`two`), with a
file cut in the middle (`cut`), and with another job in a folder beside it (`beside`).
It is right if its class is one of the truth's, or a weaker word for what happened to
the same rank, and if everybody whom it names is to blame. `silent` counts failures of
which nothing was claimed. Wanted are 99 % of `certain` and 90 % of `likely`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "simulator"))

import removal
import simulate_faults
import simulated
from ncclforensics.analysis import analyze

JOBS = Path(__file__).parents[1] / "tests" / "fixtures" / "jobs"
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


def simulator(tally: Tally, seeds: int, sizes: list[int]) -> None:
    """Play every fault, at every size and with every style of dumps."""
    for name in simulate_faults.FAULTS:
        for ranks in sizes:
            for style in simulated.STYLES:
                for seed in range(seeds):
                    try:
                        case, found, _ = simulated.one(name, ranks, style, seed)
                    except (IndexError, KeyError):
                        continue
                    tally.add(
                        "simulated",
                        f"{name} {ranks} {style} {seed}",
                        found.report,
                        set(case.classes),
                        set(case.ranks) | set(case.told.get("any_of") or ()),
                        set(),
                        case.outcome == "failure",
                    )


def lab(tally: Tally, only: str) -> None:
    """Analyze every job of the lab, and what is left of it."""
    folders = [file.parent for file in sorted(JOBS.glob("*/truth.toml"))]
    folders += [file.parent for file in sorted(removal.INCIDENTS.glob("*/truth.toml"))]
    dice = random.Random(1)
    for folder in folders:
        case = removal.incident(folder)
        classes, ranks = removal.allowed(case.truth)
        hosts = set(case.truth.get("hosts", ()))
        failed = case.truth["outcome"] == "failure"
        truth = (classes - {None}, ranks, hosts, failed)
        if only in ("", "whole"):
            tally.add("whole", folder.name, case.without(())[1], *truth)
        if only in ("", "less"):
            taken = removal.removals(case)
            for gone in dice.sample(taken, min(len(taken), 12)):
                name = f"{folder.name} without {gone[0]} and {len(gone) - 1} more"
                tally.add("less", name, case.without(gone)[1], *truth)
        if only in ("", "two") and len(case.names) > 2:
            for _ in range(6):
                gone = tuple(dice.sample(case.names, 2))
                name = f"{folder.name} without {' and '.join(gone)}"
                tally.add("two", name, case.without(gone)[1], *truth)
        if only in ("", "beside"):
            _beside(tally, folder, dice.choice(folders))
        if only in ("", "cut"):
            for name in dice.sample(case.names, min(len(case.names), 3)):
                report = _cut(folder / "evidence", name, dice.random())
                tally.add("cut", f"{folder.name} {name}", report, *truth)


def _beside(tally: Tally, one: Path, other: Path) -> None:
    """Analyze two jobs in folders of their own; what is said has to be of either."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, folder in (("alpha", one), ("beta", other)):
            shutil.copytree(folder / "evidence", Path(scratch) / name)
        report = analyze([scratch]).report
    truths = [
        tomllib.loads((f / "truth.toml").read_text("utf-8")) for f in (one, other)
    ]
    allowed = [removal.allowed(truth) for truth in truths]
    tally.add(
        "beside",
        f"{one.name} and {other.name}",
        report,
        set.union(*(classes for classes, _ in allowed)) - {None},
        set.union(*(ranks for _, ranks in allowed)),
        {host for truth in truths for host in truth.get("hosts", ())},
        any(truth["outcome"] == "failure" for truth in truths),
    )


def _cut(evidence: Path, name: str, share: float):
    """Analyze a copy of which one file is cut."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "evidence"
        shutil.copytree(evidence, copy)
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(whole[: int(len(whole) * share)])
        return analyze([str(copy)]).report


def main() -> int:
    """Print the table; 1 where a confidence is not what it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--ranks", nargs="*", type=int, default=[16, 64])
    parser.add_argument(
        "--only", default="", help="simulated, whole, less, two, cut or beside"
    )
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    tally = Tally(options.verbose)
    if options.only in ("", "simulated"):
        simulator(tally, options.seeds, options.ranks)
    if options.only != "simulated":
        lab(tally, options.only)
    return 0 if tally.table() else 1


if __name__ == "__main__":
    sys.exit(main())
