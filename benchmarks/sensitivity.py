"""Does the verdict hang on a number? Each weight halved and doubled, weighed again.

    python benchmarks/sensitivity.py [FOLDER…] [--ranks N…] [--style NAME…] [-v]

Reads the fixtures, or folders of cases (`truth.toml`, `truth.json` or `case.json`
beside `evidence/`), and simulates each fault. A row is a weight, or a limit, of
`theory/weights.py`: how many verdicts (class, ranks, outcome) are others when it is
half or twice as much, and how many right ones that cost or won. Wanted is less than one
in a hundred each; the last line is the worst.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import reweighing
import simulated
from ncclforensics.theory import weights

WANTED = 1.0  # per cent


def main() -> int:
    """Print a row per weight; 1 where one decides more than it should."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[reweighing.JOBS])
    parser.add_argument("--ranks", nargs="*", type=int, default=[8, 16])
    parser.add_argument("--style", nargs="*", default=["full", "ring", "active"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    unknown = {*options.style} - {*simulated.STYLES}
    if unknown:
        parser.error(f"no such style: {', '.join(sorted(unknown))}")
    names = [*weights.WEIGHTS, *reweighing.limits()]
    changes = [(name, times) for name in names for times in (0.5, 2.0)]
    variants = [
        (
            f"{name} {times}",
            partial(reweighing.changed, name, times),
            name not in reweighing.PROPOSED_BY,
        )
        for name, times in changes
    ]
    other: Counter[str] = Counter()
    won: Counter[str] = Counter()
    right = many = 0
    sizes = (options.folders, options.ranks, options.style, options.seeds)
    for read in reweighing.jobs(*sizes):
        known = read()
        if known is None:
            continue
        found, ok = reweighing.verdicts(known, variants)
        many += 1
        right += ok[""]
        for name, _, _ in variants:
            if found[name] == found[""]:
                continue
            other[name] += 1
            won[name] += ok[name] - ok[""]
            if options.verbose:
                print(f"   {known.name}: {name}: {found['']} to {found[name]}")
    print(f"{'weight':30} {'bits':>6} {'halved':>14} {'doubled':>14}   (right ones)")
    for name in names:
        own = weights.WEIGHTS.get(name, (getattr(weights, name, 0.0),))[0]
        row = f"{name:30} {own:6.2f}"
        for times in (0.5, 2.0):
            key = f"{name} {times}"
            row += f" {_percent(other[key], many):>8} {won[key]:+5}"
        print(row)
    worst = max((f"{n} {t}" for n, t in changes), key=lambda key: other[key])
    print(
        f"{right} of {many} right; worst: {worst} times changes {other[worst]} of "
        f"{many} = {_percent(other[worst], many)}"
    )
    return 0 if 100 * other[worst] < WANTED * many else 1


def _percent(some: int, many: int) -> str:
    return f"{100 * some / max(many, 1):.2f} %"


if __name__ == "__main__":
    sys.exit(main())
