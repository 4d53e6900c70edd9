"""What does each observation earn? Each left out in turn, and what becomes of verdicts.

    python benchmarks/ablation.py [FOLDER…] [--ranks N…] [--style NAME…] [-v]
                                  [--only kinds|weights]

Reads the fixtures, or folders of cases (`truth.toml`, `truth.json` or `case.json`
beside `evidence/`), and simulates each fault. Left out is each weight of
`theory/weights.py` (its bits are 0), and each kind of observation as a whole. `lost`
are verdicts that are right with it and wrong or none without, `won` the reverse. What
earns nothing here is to be doubted; the last line counts those.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import reweighing
from ncclforensics.correlate.timing import dump_mtime, late_arrivals, late_ranks
from ncclforensics.theory import call_sites, p2p_balance, standstill, weights
from ncclforensics.theory.case import Case
from ncclforensics.theory.standstill import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN = Fact("", "unknown", "left out")


def _nothing(*_: object) -> None:
    return None


def _unknown(*_: object) -> Fact:
    return UNKNOWN


def _no(*_: object) -> bool:
    return False


def _no_rows(ask: Any) -> Any:
    return lambda *told: ask(*told).clear()


def _none(*_: object) -> dict[object, object]:
    return {}


def _nowhere(*_: object) -> call_sites.Place:
    return call_sites.Place()


# what is put in the place of what, by kind of observation
KINDS: dict[str, list[tuple[object, str, Any]]] = {
    "the program model": [(Case, "deviation", _nothing)],
    "ranks that lag": [(Case, "laggards", property(lambda _: frozenset()))],
    # one stands in for the other
    "both of these": [
        (Case, "deviation", _nothing),
        (Case, "laggards", property(lambda _: frozenset())),
    ],
    "signatures": [(Case, "signatures", property(_none))],
    "sums of exchanges": [(Case, "unbalanced", property(_none))],
    "counts of halves": [(p2p_balance, "is_short", _nothing)],
    "places in the code": [(call_sites, "of", _nowhere)],
    "late arrivals": [(late_ranks, "latecomers", _no_rows(late_ranks.latecomers))],
    "times of files": [
        (dump_mtime, "timed_out", _no_rows(dump_mtime.timed_out)),
        (dump_mtime, "are_early", _no),
    ],
    "time in a call": [(late_arrivals, "overdue", _no_rows(late_arrivals.overdue))],
    "proof of standing": [(standstill, "standing", _unknown)],
    "proof of motion": [(standstill, "motion", _unknown)],
}


@contextmanager
def without(kind: str) -> Iterator[None]:
    """Leave a kind of observation out."""
    with ExitStack() as stack:
        for of, name, stand_in in KINDS[kind]:
            stack.enter_context(mock.patch.object(of, name, stand_in))
        yield


def main() -> int:
    """Print a row per observation, what earns most first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[reweighing.JOBS])
    parser.add_argument("--ranks", nargs="*", type=int, default=[8, 16])
    parser.add_argument("--style", nargs="*", default=["full", "active"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", choices=["kinds", "weights"])
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    variants = []
    if options.only != "weights":
        variants += [(kind, partial(without, kind), False) for kind in KINDS]
    if options.only != "kinds":
        variants += [
            (name, partial(reweighing.changed, name, 0.0), True)
            for name in weights.WEIGHTS
        ]
    lost: Counter[str] = Counter()
    won: Counter[str] = Counter()
    other: Counter[str] = Counter()
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
            other[name] += found[name] != found[""]
            lost[name] += ok[""] and not ok[name]
            won[name] += ok[name] and not ok[""]
            if options.verbose and ok[""] != ok[name]:
                print(f"   {known.name}: without {name} {found[name]}")
    print(f"{'left out':30} {'other':>6} {'lost':>6} {'won':>6} {'it earns':>9}")
    names = sorted((name for name, _, _ in variants), key=lambda n: won[n] - lost[n])
    for name in names:
        print(
            f"{name:30} {other[name]:6} {lost[name]:6} {won[name]:6} "
            f"{lost[name] - won[name]:9}"
        )
    idle = sum(not other[name] for name in names)
    print(
        f"{right} of {many} right; {idle} of {len(names)} observations change nothing, "
        f"{sum(won[name] > lost[name] for name in names)} cost more than they earn"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
