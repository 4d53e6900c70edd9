"""The loop: looks at the files, and returns once there is a word on the job.

It looks less often the longer a look takes, so that watching costs little wherever the
files lie. A line that reads as a failure, and the end of all writers, are first given
to the analysis: only what it calls a failure ends the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ncclforensics.model.folding import count
from ncclforensics.model.words import lasted
from ncclforensics.watch import signs
from ncclforensics.watch.job import Job, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ncclforensics.watch.positions import Positions
    from ncclforensics.watch.tails import New, Tails

LOOK_EVERY = 1.0  # seconds
SHARE = 0.2  # of the time that looks may take; one without news takes next to none
RAREST = 10.0  # seconds between looks, however long one takes
LOST = 30.0  # a look that comes so much too late: this process was stopped as well
WRITERS_EVERY = 10.0  # seconds between looks for writers, while the job is silent
ANALYSIS_SHARE = 20.0  # times its own duration until an analysis is made again
ANALYSIS_EVERY = 60.0  # seconds at least
# of silence, in seconds and in times the longest pause, until the processes are looked
# at; then again whenever it has doubled
LOOK_AFTER, LOOK_TIMES = 60.0, 2.0
# a silence is said once it is so many times the longest pause, and a part of the limit
UNUSUAL, PART = 1.5, 0.2


class Clock(Protocol):
    """What time it is, in seconds since the epoch, and waiting."""

    def now(self) -> float:
        """Return the time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait so long."""
        ...


class Answer(Protocol):
    """What an analysis answers, as far as it matters here."""

    @property
    def outcome(self) -> str:
        """One of `failure`, `no-failure` and `inconclusive`."""
        ...

    @property
    def is_sure(self) -> bool:
        """Whether the failure is more than a possibility."""
        ...


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class End(Generic[A]):
    """Why watching ended: a word, the sentence on it, and the analysis, if any."""

    word: Word
    text: str
    answer: A | None = None


@dataclass(slots=True)
class Follow(Generic[A]):
    """Watches a job until its end, or `until` a time.

    `analyze` analyzes all evidence as it is now. `say` gets each event, `show` the
    state after each look. `writers` returns the processes that write to files.
    `collect`, if given, looks twice at the processes of the job, and analyzes that
    together with the files: a silence need not get long where that proves a standstill.
    """

    tails: Tails
    job: Job
    clock: Clock
    analyze: Callable[[], A]
    say: Callable[[str], None]
    show: Callable[[str], None]
    writers: Callable[[Collection[str]], Collection[int] | None]
    positions: Positions
    until: float | None = None
    collect: Callable[[], A] | None = None
    _had_writers: bool = False
    _writers_at: float = 0.0
    _closed: bool = False
    _next_analysis: float = 0.0
    _said_at: float = 0.0  # the silence that was said last, in seconds
    _was_running: bool = False
    _collected_at: float = 0.0  # the silence at which processes were looked at last

    def run(self) -> End[A]:
        """Look again and again; returns once there is a word, or the time is over."""
        wait = 0.0
        last = self.clock.now()
        while True:
            began = self.clock.now()
            if (late := began - last - wait) > LOST:
                self.job.not_watched(late)
                self.say(f"did not look for {lasted(late)}: no silence of the job's")
            self.look(began)
            if end := self.end(self.clock.now()):
                return end
            last = self.clock.now()
            wait = min(max(LOOK_EVERY, (last - began) / SHARE), RAREST)
            if self.until is not None:
                if last >= self.until:
                    return End(Word.GOES_ON, f"still there: {self.job.told(last)}")
                wait = min(wait, self.until - last)
            self.show(self.told(last))
            self.clock.sleep(wait)

    def look(self, now: float) -> None:
        """Take in what is new."""
        news = list(self.tails.new())
        logs = [new for new in news if not new.tail.is_dump]
        for backlog in (True, False):
            if some := [new for new in logs if new.backlog is backlog]:
                self._read(some, now, backlog)
        for new in news:
            if new.tail.is_dump and self.positions.feed(new):
                self.job.moved(now)
        self.job.counters.forget([t.number for t in self.tails.tails.values()])
        self._look_for_writers(now)

    def end(self, now: float) -> End[A] | None:
        """Return the end if there is a word now; says what is unusual meanwhile."""
        word = self.job.word(now, self._closed)
        if word is Word.GOES_ON:
            self._tell(now)
            return self._proved(now)
        told = self.job.told(now)
        if word is Word.STOPPED:
            return End(word, f"stopped: {told}", (self.collect or self.analyze)())
        if now < self._next_analysis:
            return None
        answer = self.analyze()
        took = self.clock.now() - now
        self._next_analysis = now + max(ANALYSIS_EVERY, ANALYSIS_SHARE * took)
        line = self.job.failing
        if word is Word.FAILED and line is not None:
            # something stopped, by this answer; the silence has to agree
            is_open = answer.outcome == "inconclusive"
            if answer.outcome == "failure" or (is_open and self.job.is_long(now)):
                return End(word, f"failed: {line.name} says: {line.text}", answer)
            if not is_open:
                self.job.failing = None
                said = f"{line.name} says: {line.text}"
                self.say(f"{said}; the analysis finds no failure: going on")
            return None
        why = self.job.said_end or "nobody writes to its files any more"
        word = Word.FAILED if answer.outcome == "failure" else Word.ENDED
        return End(word, f"{word.value}: {why}; {told}", answer)

    def _proved(self, now: float) -> End[A] | None:
        """Return the end if two looks at the processes prove it before the limit."""
        job, silence = self.job, self.job.silence(now)
        if silence < self._collected_at:
            self._collected_at = 0.0
        unusual = max(LOOK_AFTER, LOOK_TIMES * job.pauses.longest)
        if self.collect is None or not job.is_running:
            return None
        if silence < max(unusual, 2 * self._collected_at):
            return None
        self._collected_at = silence
        answer = self.collect()
        if answer.outcome == "failure" and answer.is_sure:
            told = job.told(now)
            return End(Word.STOPPED, f"stopped: {told}; two looks prove it", answer)
        self.say(f"{job.told(now)}: two looks at its processes prove no failure")
        return None

    def told(self, now: float) -> str:
        """Say how the job stands, and when it would count as stopped."""
        if not self.tails.tails:
            return f"waits for {', '.join(self.tails.waited_for) or 'files'}"
        calls_at = self.job.calls_at
        left = "" if calls_at is None else f" · limit {lasted(self.job.limit)}"
        return self.job.told(now) + left

    def _read(self, news: list[New], now: float, backlog: bool) -> None:
        found = signs.read(news)
        for new in news:
            if new.tail.source.rank is not None:
                self.job.ranks.add(new.tail.source.rank)
        if backlog:
            now = min(max(new.written for new in news), now)
            patterns = self.job.old(found.seen, now)
            self.job.history(signs.rose_at(found, patterns))
            self.job.said_end = found.ended
        else:
            self.job.lines(found.seen, now, found.ended)
        self.job.failed(found.failing, now)

    def _look_for_writers(self, now: float) -> None:
        if self._had_writers and self.job.silence(now) < WRITERS_EVERY:
            return
        if now - self._writers_at >= WRITERS_EVERY or not self._writers_at:
            self._writers_at = now
            pids = self.writers(self.tails.followed)
            self._closed = self._had_writers and pids is not None and not pids
            self._had_writers = self._had_writers or bool(pids)

    def _tell(self, now: float) -> None:
        """Say a beginning, and silences that are longer than any before."""
        job, silence = self.job, self.job.silence(now)
        if job.is_running and not self._was_running:
            self._was_running = True
            files = count(len(self.tails.tails), "file")
            self.say(f"follows {files}: {job.told(now)}")
        if silence < self._said_at / 2:
            self.say(f"goes on after {lasted(self._said_at)} or more: {job.told(now)}")
            self._said_at = 0.0
        unusual = max(UNUSUAL * job.pauses.longest, PART * job.limit)
        if silence < max(unusual, 2 * self._said_at):
            return
        self._said_at = silence
        calls_at = job.calls_at
        if calls_at is None:
            self.say(
                f"{job.told(now)}: start-up may take long, so only a line that reads as"
                " a failure would end the wait"
            )
        else:
            rest = lasted(max(calls_at - now, 0))
            self.say(f"{job.told(now)}: would call it stopped in {rest}")
