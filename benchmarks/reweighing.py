"""Jobs that are read once and weighed many times: what the verdict hangs on.

A job is parsed and correlated once. Each variant of the weights then weighs the same
stories again, and only where another one is told than before the diagnosers and the
ranking are asked as well.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent / "simulator"))

import accuracy
import simulate_faults
import simulated
from ncclforensics import analysis
from ncclforensics.model.frames import Frames
from ncclforensics.theory import explanations, weigh, weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    Variant = AbstractContextManager[Any]
    Verdict = tuple[str, tuple[int, ...], str]
JOBS = Path(__file__).parents[1] / "tests" / "fixtures"


@dataclass(frozen=True, slots=True)
class Known:
    """A job whose truth is known: its correlated frames, and who judges a ranking."""

    name: str
    frames: Frames
    judge: Callable[[Any], bool]


def jobs(
    folders: list[Path], sizes: list[int], styles: list[str], seeds: int
) -> Iterator[Callable[[], Known | None]]:
    """Yield how to read each job: those below folders, and those of the simulator."""
    for truth in accuracy.truths(folders):
        yield lambda truth=truth: _read(truth)
    for fault in simulate_faults.FAULTS:
        for ranks in sizes:
            for style in styles:
                for seed in range(seeds):
                    key = (fault, ranks, style, seed)
                    yield lambda key=key: _simulated(*key)


def _read(truth: accuracy.Truth) -> Known:
    frames = analysis.analyze([str(truth.evidence)]).frames
    return Known(
        truth.slug,
        frames,
        lambda ranked: (
            accuracy.judged(truth, SimpleNamespace(ranked=ranked))[0] == "right"
        ),
    )


def _simulated(fault: str, ranks: int, style: str, seed: int) -> Known | None:
    run = simulated.one(fault, ranks, style, seed)
    if run is None:
        return None
    case, found, _ = run
    return Known(
        f"{fault} {ranks} {style} {seed}",
        found.frames,
        lambda ranked: simulated.judged(case, ranked)[0],
    )


def verdicts(
    known: Known, variants: Iterable[tuple[str, Callable[[], Variant], bool]]
) -> tuple[dict[str, Verdict], dict[str, bool]]:
    """Return the verdict of a job, and whether it is right, by variant; "" is none.

    Variants are a name, what makes its context, and whether it only changes weights, so
    that the stories stay as they are.
    """
    case = weigh.case_of(known.frames)
    found: dict[str, Verdict] = {}
    right: dict[str, bool] = {}
    with mock.patch.object(explanations, "propose", _once(case)):
        told = _told(known.frames)
    for name, context, only_weights in [("", nullcontext, False), *variants]:
        with context():
            if only_weights:
                with mock.patch.object(explanations, "propose", _once(case)):
                    same = _told(known.frames) == told
                if same:
                    found[name], right[name] = found[""], right[""]
                    continue
            fresh = Frames(known.frames.tables, known.frames.messages)
            ranked, _ = analysis.conclude(fresh)
        verdict = ranked.verdict
        slug, ranks = (verdict.slug, verdict.ranks) if verdict else ("", ())
        found[name], right[name] = (slug, ranks, ranked.outcome), known.judge(ranked)
    return found, right


_STORIES: dict[object, tuple[object, tuple[Any, ...]]] = {}


def _once(case: Any) -> Callable[[Any, Any], Iterator[Any]]:
    """Return what proposes the stories of one case once, and of others as ever."""
    real = REAL

    def propose(asked: Any, end: Any) -> Iterator[Any]:
        if asked is not case:
            return real(asked, end)
        held = _STORIES.get(end)
        if held is None or held[0] is not case:
            if any(of is not case for of, _ in _STORIES.values()):
                _STORIES.clear()
            held = _STORIES[end] = (case, tuple(real(case, end)))
        return iter(held[1])

    return propose


REAL = explanations.propose


def _told(frames: Frames) -> list[tuple[object, ...]]:
    """Return which stories are told of some frames, weighed again."""
    return [
        (t.story.slug, t.story.ranks, t.story.what, t.confidence, _number(t.story))
        for t in weigh.weighed.__wrapped__(frames).ends
    ]


def _number(story: Any) -> int | None:
    return None if story.call is None else story.call["call"]


@contextmanager
def changed(name: str, times: float) -> Iterator[None]:
    """Multiply one weight, or one limit of their table."""
    if name in weights.WEIGHTS:
        bits, why = weights.WEIGHTS[name]
        with mock.patch.dict(weights.WEIGHTS, {name: (bits * times, why)}):
            yield
    else:
        with mock.patch.object(weights, name, getattr(weights, name) * times):
            yield


def limits() -> list[str]:
    """Return the numbers beside the table of weights, by name."""
    return [
        name
        for name, value in vars(weights).items()
        if name.isupper() and isinstance(value, float)
    ]


# limits that stories are proposed by; the others only compare them
PROPOSED_BY = ("CAP", "LAGS", "EXPECTED")
