"""What is known of a running job at any moment, and the word on it.

Silence counts from the last sign of progress, and is long once it exceeds what the
job's own pauses explain (`pauses`). Before the first step nothing is called long: to
compile, or to index data, takes as long as it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from ncclforensics.model.folding import count
from ncclforensics.model.words import lasted
from ncclforensics.watch.counters import Counters
from ncclforensics.watch.pauses import MOST_UNSEEN, Pauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.watch.signs import Failing, Seen

# until new lines came so often, it is not known in which bursts a log shipper delivers
ARRIVALS = 10
# a gap between old stamps that is longer is the time between two jobs
BETWEEN_JOBS = 3600.0
# times the limit if the silence began with a rare line: what is announced, such as the
# first evaluation, may take its time
PHASE = 2.0
# other lines than steps go on: a phase of its own, or a job that stands and complains
BESIDES = 3.0
# seconds without a new line, until what is printed together has been printed
QUIET = 5.0
# seconds until a failure counts, though other lines go on
LATE = 60.0
AGAIN = 3.0  # times the usual pause without progress, and a failure was fatal
# exceptions are caught and logged by programs that go on
SURVIVED = ("python.", "uncaught.")
PATIENT = 30.0  # seconds, for these


class Word(Enum):
    """What there is to say about a job now."""

    GOES_ON = "goes on"
    STOPPED = "stopped"
    FAILED = "failed"  # a line says so; the analysis has to confirm it
    ENDED = "ended"


@dataclass(slots=True)
class Job:
    """The state of a job. All times are seconds since the epoch.

    `patience`, in seconds, replaces what the pauses say.
    """

    began: float
    patience: float | None = None
    pauses: Pauses = field(default_factory=Pauses)
    steps: Pauses = field(default_factory=Pauses)
    counters: Counters = field(default_factory=Counters)
    failing: Failing | None = None
    failing_at: float = 0.0
    said_end: str | None = None
    arrivals: int = 0
    ranks: set[int] = field(default_factory=set)
    _sign: float = 0.0
    _step: float | None = None
    _line: float = 0.0

    def __post_init__(self) -> None:
        """Begin with the moment at which somebody began to watch."""
        self._sign = self._line = self.began

    @property
    def is_running(self) -> bool:
        """Whether the job was seen to make steps."""
        return self._step is not None

    @property
    def limit(self) -> float:
        """The silence in seconds that ends the wait."""
        if self.patience is not None:
            return self.patience
        unseen = self.pauses.unseen if self.arrivals >= ARRIVALS else MOST_UNSEEN
        if self.counters.is_in_phase:
            unseen *= PHASE
        return max(self.pauses.known, unseen)

    @property
    def calls_at(self) -> float | None:
        """When the job counts as stopped if it stays silent; None if it never does."""
        if not self.is_running:
            return None
        return self._sign + self.limit

    def silence(self, now: float) -> float:
        """Return for how many seconds there was no sign of progress."""
        return max(now - self._sign, 0.0)

    def is_long(self, now: float) -> bool:
        """Whether no pause of a kind that was seen explains the silence."""
        return self.silence(now) >= max(PATIENT, self.pauses.known)

    def old(self, seen: Sequence[Seen], written: float) -> set[int]:
        """Take in what was there before; returns the patterns that count progress."""
        self.counters.feed(seen, written)
        self._sign = self._line = written
        return self.counters.progress

    def history(self, times: Sequence[float]) -> None:
        """Learn the pauses between old signs of progress, from their stamps."""
        if times or self.counters.progress:
            self._step = self._sign
        for earlier, later in pairwise(times):
            if later - earlier > BETWEEN_JOBS:
                self.pauses, self.steps = Pauses(), Pauses()
                continue
            self.pauses.add(later - earlier)
            self.steps.add(later - earlier)

    def lines(self, seen: Sequence[Seen], now: float, ended: str | None = None) -> None:
        """Take new lines in; `ended` is one that says that the job has ended."""
        self._line = now
        self.arrivals += 1
        moved, spoke = self.counters.feed(seen, now)
        self.said_end = ended or (None if moved else self.said_end)
        self._survived()
        if moved:
            self.moved(now)
        elif spoke:
            self._signed(now)

    def moved(self, now: float) -> None:
        """Take in that the job made progress."""
        if self._step is None:
            # what came before the first step is no pause of the job's usual life
            self._sign = now
        else:
            self.steps.add(now - self._step)
        self._step = now
        self._signed(now)
        late = max(2 * QUIET, 2 * self.pauses.usual)
        if self.failing and now - self.failing_at > late:
            self.failing = None  # the job went on after it

    def _signed(self, now: float) -> None:
        if self.is_running:
            self.pauses.add(now - self._sign)
        self._sign = now

    def failed(self, failing: Sequence[Failing], now: float) -> None:
        """Take in lines that tell of a failure: the first that no program survives."""
        for line in failing:
            if self.failing is None or (
                _is_survivable(self.failing) and not _is_survivable(line)
            ):
                self.failing, self.failing_at = line, now
        self._survived(begins=True)

    def _survived(self, begins: bool = False) -> None:
        """Drop an exception if its own file shows a step below it.

        Where it `begins`, it is among the lines that were read last.
        """
        line = self.failing
        if line is not None and _is_survivable(line):
            step = self.counters.moved.get(line.file, 0)
            if step > (line.at if begins else 0):
                self.failing = None

    def not_watched(self, seconds: float) -> None:
        """Leave out a time in which nobody looked: it was no silence."""
        self._sign += seconds
        self._line += seconds
        self.failing_at += seconds
        if self._step is not None:
            self._step += seconds

    def word(self, now: float, closed: bool = False) -> Word:
        """Return what there is to say; `closed` if nobody writes to its files now."""
        quiet = now - self._line
        if self.failing and self._is_due(now, quiet):
            return Word.FAILED
        said = self.said_end and quiet >= max(LATE, self.pauses.known)
        if (closed and quiet >= QUIET) or said:
            return Word.ENDED
        calls_at = self.calls_at
        if calls_at is None:
            return Word.GOES_ON
        if now >= calls_at:
            return Word.STOPPED
        if self.patience is None and self._step is not None:
            limit = max(self.steps.known, self.limit) * BESIDES
            if now - self._step >= limit:
                return Word.STOPPED
        return Word.GOES_ON

    def _is_due(self, now: float, quiet: float) -> bool:
        assert self.failing is not None
        since = now - max(self.failing_at, self._step or 0.0)
        if _is_survivable(self.failing):
            return quiet >= QUIET and self.is_long(now)
        wait = max(QUIET, AGAIN * self.pauses.usual)
        return since >= (wait if quiet >= QUIET else max(LATE, wait))

    def told(self, now: float) -> str:
        """Say in one line how the job stands."""
        steps = self.counters.steps()
        ranks = self.ranks | self.counters.ranks
        parts = [count(len(ranks), "rank")] if ranks else []
        if steps:
            parts.append(f"step {max(steps.values()):,.0f}")
        parts.append(f"silent for {lasted(self.silence(now))}")
        if self.pauses.longest:
            usual, longest = lasted(self.pauses.usual), lasted(self.pauses.longest)
            parts.append(f"usual pause {usual}, longest {longest}")
        if not self.is_running:
            parts.append("no step yet")
        return " · ".join(parts)


def _is_survivable(line: Failing) -> bool:
    return line.message.startswith(SURVIVED)
