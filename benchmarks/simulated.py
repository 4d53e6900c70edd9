"""How often is the verdict right on simulated jobs? By fault, size and kind of dump.

    python benchmarks/simulated.py [--seeds N] [--fault NAME…] [--ranks N…] [--verbose]
                                   [--lost-times]

Jobs are those of simulator/. `right` is the class and exactly the culprits,
`innocent` counts ranks that were named and are not to blame, over all runs of a row. In
a job that runs whoever is no more than possible is not accused. Files have the times at
which torch would have written them, without `--lost-times`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "simulator"))

import simulate
import simulate_dumps
import simulate_faults
import simulate_logs
from ncclforensics.analysis import analyze

# ranks -> tensor, pipeline, data, expert parallel
LAYOUTS = {
    4: (1, 1, 4, 1),
    8: (2, 2, 2, 1),
    16: (2, 2, 4, 2),
    64: (4, 4, 4, 2),
    256: (8, 4, 8, 4),
    1024: (8, 8, 16, 8),
    4096: (8, 16, 32, 8),
}
SURE = ("certain", "likely")
STYLES = {
    "full": {},
    "ring": {"ring": 60},
    "active": {"only_active": True, "frames": False},
    "json": {"json": True, "version": "2.9"},
    "skewed": {"skew_seconds": 2.0},
    "2.4": {"version": "2.4"},
}
# logs without any dump
LOGS = {
    "logs": {},
    "logs-sites": {"stacks": True, "steps": "all"},
    "logs-2.4": {"version": "2.4"},
    "logs-2.1": {"version": "2.1", "steps": "all"},
    "stream": {"one_stream": True},
}


def judge(case, found):
    """Return whether an analysis is right, and how many innocents it names."""
    return judged(case, found.ranked)


def judged(case, ranked):
    """Return whether findings in order are right, and how many innocents they name."""
    verdict = ranked.verdict
    named = set(verdict.ranks) if verdict and ranked.outcome == "failure" else set()
    if case.outcome == "no-failure" and verdict and verdict.confidence not in SURE:
        named = set()
    innocent = len(named - case.ranks)
    if case.outcome != "failure":
        return not named, innocent
    right = ranked.outcome == "failure" and verdict.slug in case.classes
    wanted = case.told.get("any_of")
    if wanted:
        return right and wanted <= named and not innocent, innocent
    if case.told.get("some"):  # nobody may come as far as to wait for one of them
        return right and bool(named) and not innocent, innocent
    return right and named == case.ranks, innocent


def play(name, ranks, seed):
    """Simulate one job; None where its layout has no call that the fault strikes."""
    dice = random.Random(seed)
    job, places = simulate.job(*LAYOUTS[ranks], steps=dice.choice([3, 4, 6]))
    try:
        return simulate_faults.FAULTS[name](job, places, seed)
    except (IndexError, KeyError) as error:
        if "Cannot choose" in str(error):
            return None
        raise


def one(name, ranks, style, seed, lost_times=False, lost=0):
    """Simulate and analyze one job of which some dumps are lost, by a share.

    None where it cannot be struck so.
    """
    case = play(name, ranks, seed)
    if case is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        if style in LOGS:
            said = simulate_logs.LogStyle(**LOGS[style])
            simulate_logs.write(case, Path(folder), said, seed)
        else:
            gone = random.Random(seed).sample(range(ranks), int(lost * ranks))
            told = simulate_dumps.Style(
                **STYLES[style], lost=frozenset(gone), lost_times=lost_times
            )
            simulate_dumps.write(case, Path(folder), told, seed)
        start = time.perf_counter()
        found = analyze([folder])
        return case, found, time.perf_counter() - start


def main() -> int:
    """Print a row per fault, size and kind of dump."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--fault", nargs="*", default=list(simulate_faults.FAULTS))
    parser.add_argument("--ranks", nargs="*", type=int, default=[16, 64])
    parser.add_argument("--style", nargs="*", default=list(STYLES))
    parser.add_argument(
        "--lost-times", action="store_true", help="as if all files had been copied"
    )
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print(
        f"{'fault':12} {'ranks':>5} {'dumps':7} {'right':>9} {'innocent':>8} {'s':>6}"
    )
    total = good = blamed = 0
    for name in options.fault:
        for ranks in options.ranks:
            for style in options.style:
                right = innocent = 0
                seconds = 0.0
                for seed in range(options.first, options.first + options.seeds):
                    run = one(name, ranks, style, seed, options.lost_times)
                    if run is None:
                        continue
                    case, found, spent = run
                    ok, accused = judge(case, found)
                    right += ok
                    innocent += accused
                    seconds += spent
                    total += 1
                    if options.verbose and not ok:
                        verdict = found.ranked.verdict
                        print(
                            f"   seed {seed}: {found.ranked.outcome}"
                            f" {verdict and (verdict.slug, verdict.ranks[:9])}"
                            f" wanted {sorted(case.classes)} {sorted(case.ranks)[:9]}"
                        )
                good += right
                blamed += innocent
                print(
                    f"{name:12} {ranks:5} {style:7} {right:4}/{options.seeds:<4}"
                    f" {innocent:8} {seconds / options.seeds:6.2f}",
                    flush=True,
                )
    print(f"{good} of {total} right, {blamed} innocents named")
    return 0


if __name__ == "__main__":
    sys.exit(main())
