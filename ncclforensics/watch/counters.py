"""Which numbers of a job's lines count its progress, and which lines come anyway.

A number counts progress if it rises again and again and hardly ever falls. A loss does
not, a step does. Lines without such a number that come as regularly as a clock, such as
a monitor's, say nothing about the job: if they go on while steps stand, the job stands.
A monitor that counts cannot be told from a job that does, and is believed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncclforensics.watch.signs import STEP

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ncclforensics.watch.signs import Seen

# rises until a number counts progress; a word such as step before it vouches for it
RISES, NAMED_RISES = 8, 3
FALLS = 0.1  # of its rises: a batch number begins anew in each epoch
MOST_OF_SPEAKER = 16  # patterns kept; the one that was not seen for longest goes
MOST_RHYTHMS = 4096
# a line comes anyway if it came after so many steps, and never paused for longer than
# so many times its mean pause, or than so many seconds, as looks may be apart: what
# belongs to steps pauses with every evaluation
MARKS, REGULAR, APART = 10, 2.0, 20.0
# a line is rare if it came after fewer than one in so many steps
RARE = 20


@dataclass(slots=True)
class Counter:
    """The numbers of one pattern of one speaker. `step` is the one that is named so."""

    step: int | None
    last: list[float] = field(default_factory=list)
    rises: list[int] = field(default_factory=list)
    falls: list[int] = field(default_factory=list)

    def feed(self, seen: Seen) -> bool:
        """Take new lines in; returns whether a number rose that counts progress."""
        rose = False
        is_known = bool(self.last)
        for number in seen.numbers:
            at = number.index
            while len(self.last) <= at:
                self.last.append(number.first)
                self.rises.append(0)
                self.falls.append(0)
            rises = number.rises + (is_known and number.first > self.last[at])
            self.rises[at] += rises
            self.falls[at] += number.falls + (is_known and number.first < self.last[at])
            self.last[at] = number.last
            rose = rose or bool(rises and self.counts(at))
        return rose

    def counts(self, at: int) -> bool:
        """Whether the number at an index counts progress."""
        needed = NAMED_RISES if at == self.step else RISES
        return self.rises[at] >= needed and self.falls[at] <= FALLS * self.rises[at]

    @property
    def reached(self) -> float | None:
        """The step that was reached, None if no number is known to count steps."""
        if self.step is None or self.step >= len(self.last):
            return None
        return self.last[self.step] if self.counts(self.step) else None


@dataclass(slots=True)
class Rhythm:
    """When the lines of one pattern came, whoever wrote them; in seconds."""

    first: float
    last: float
    times: int = 1
    longest: float = 0.0
    marks: int = 0  # steps after which the line came
    mark: int = -1

    @property
    def comes_anyway(self) -> bool:
        """Whether the line is as regular as a clock."""
        mean = (self.last - self.first) / max(self.times - 1, 1)
        return self.marks >= MARKS and self.longest <= max(REGULAR * mean, APART)


class Counters:
    """All counters of a job, and the rhythm of its other lines; of bounded size."""

    def __init__(self) -> None:
        """Begin without any line seen."""
        self.of: dict[int, dict[str, OrderedDict[int, Counter]]] = {}
        self.rhythms: OrderedDict[int, Rhythm] = OrderedDict()
        self.ranks: set[int] = set()
        self.marks = 0
        self.progress: set[int] = set()  # patterns with a number that counts
        # the last line of each file at which it moved, among the lines read last
        self.moved: dict[int, int] = {}
        self._rare: set[tuple[int, str]] = set()  # speakers whose last line is rare

    @property
    def is_in_phase(self) -> bool:
        """Whether somebody's last line is a rare one, such as of an evaluation."""
        return bool(self._rare)

    def feed(self, seen: Sequence[Seen], now: float) -> tuple[bool, bool]:
        """Take new lines in: whether the job moved, and whether it said anything.

        Lines that come anyway are neither, unless they count something.
        """
        moved = spoke = False
        self.moved.clear()
        last: dict[tuple[int, str], tuple[int, int]] = {}
        for some in seen:
            who = some.file, some.speaker
            if some.rank is not None:
                self.ranks.add(some.rank)
            counter = self._counter(some)
            rose = counter.feed(some)
            anyway = self._rhythm(some, now).comes_anyway
            if rose:
                self.progress.add(some.pattern)
                moved = True
                self.moved[some.file] = max(self.moved.get(some.file, 0), some.at)
            spoke = spoke or not anyway
            if rose or not anyway:
                last[who] = max(last.get(who, (0, 0)), (some.at, some.pattern))
        self.marks += moved
        for who, (_, pattern) in last.items():
            is_rare = self.rhythms[pattern].marks * RARE < self.marks
            (self._rare.add if is_rare else self._rare.discard)(who)
        return moved, spoke or moved

    def forget(self, files: Collection[int]) -> None:
        """Forget the files that are gone: all but `files`."""
        for gone in self.of.keys() - set(files):
            del self.of[gone]
        self._rare = {key for key in self._rare if key[0] in self.of}

    def steps(self) -> dict[tuple[int, str], float]:
        """Return the step that each speaker of each file reached."""
        return {
            (file, speaker): max(reached)
            for file, speakers in self.of.items()
            for speaker, counters in speakers.items()
            if (reached := [c.reached for c in counters.values() if c.reached])
        }

    def _counter(self, seen: Seen) -> Counter:
        own = self.of.setdefault(seen.file, {}).setdefault(seen.speaker, OrderedDict())
        counter = own.get(seen.pattern)
        if counter is None:
            counter = own[seen.pattern] = Counter(_named(seen.shape))
            if len(own) > MOST_OF_SPEAKER:
                own.popitem(last=False)
        own.move_to_end(seen.pattern)
        return counter

    def _rhythm(self, seen: Seen, now: float) -> Rhythm:
        rhythm = self.rhythms.get(seen.pattern)
        if rhythm is None:
            rhythm = self.rhythms[seen.pattern] = Rhythm(now, now)
            if len(self.rhythms) > MOST_RHYTHMS:
                self.rhythms.popitem(last=False)
        elif now > rhythm.last:
            rhythm.longest = max(rhythm.longest, now - rhythm.last)
            rhythm.last = now
            rhythm.times += 1
        if rhythm.mark != self.marks:
            rhythm.mark = self.marks
            rhythm.marks += 1
        self.rhythms.move_to_end(seen.pattern)
        return rhythm


def _named(shape: str) -> int | None:
    """Return which number of a line counts steps, by the word before it."""
    if "opCount" in shape:
        return 0
    before = shape.split("0")[:-1]
    return next((i for i, text in enumerate(before, 1) if STEP.search(text)), None)
