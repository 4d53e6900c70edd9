"""Analyzes a simulated job and says in short what came of it."""

from __future__ import annotations

import simulate
import simulate_dumps
import simulate_faults
from ncclforensics.analysis import analyze


def played(fault, seed=0, tp=2, pp=2, dp=4, ep=2, steps=3, **more):
    """Return a case of a job of `tp * pp * dp` ranks."""
    job, places = simulate.job(tp, pp, dp, ep, steps=steps)
    return simulate_faults.FAULTS[fault](job, places, seed, **more)


def analysis(case, folder, **style):
    """Write a case's dumps into a folder and analyze them."""
    simulate_dumps.write(case, folder, simulate_dumps.Style(**style))
    return analyze([str(folder)])


def named(found):
    """Return the class and the ranks that a report accuses; (None, ()) if nobody."""
    verdict = found.ranked.verdict
    if found.ranked.outcome != "failure" or verdict is None:
        return None, ()
    return verdict.slug, verdict.ranks


def sure(found):
    """Return the ranks that a report accuses, unless it is no more than possible."""
    verdict = found.ranked.verdict
    if verdict is None or verdict.confidence == "possible":
        return ()
    return named(found)[1]


def verdict(fault, folder, seed=0, style=None, **layout):
    """Play, write, analyze, and return the case with what is named."""
    case = played(fault, seed, **layout)
    return case, named(analysis(case, folder, **(style or {})))
