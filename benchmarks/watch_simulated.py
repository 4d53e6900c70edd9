"""Healthy jobs on an accelerated clock, to count the false words of `watch`.

Each job is drawn at random: how long its steps take, how many of them it logs, who
prints, how it starts up, saves, evaluates and stalls, how its lines are delivered. The
distributions are those of jobs, and know nothing of the rule that is tested. With
`--stop`, each job stands still at some moment after its first step, and the time to the
word counts.

    python benchmarks/watch_simulated.py --jobs 40 --seed 1 [--stop]
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.analysis import analyze
from ncclforensics.watch.follow import Follow
from ncclforensics.watch.job import Job, Word
from ncclforensics.watch.positions import Positions
from ncclforensics.watch.tails import Tails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
LOOK = 10.0  # seconds of the accelerated clock between looks
MINUTE, HOUR = 60.0, 3600.0
Event = tuple[float, int, str]  # when it is printed, by which rank, and what


def duration(rng: random.Random, kind: str, median: float) -> float:
    """Draw a duration in seconds of about `median`, with the spread of its kind."""
    match kind:
        case "steady":
            return median * rng.uniform(0.95, 1.05)
        case "uniform":
            return median * rng.uniform(0.3, 1.7)
        case "log-normal":
            return median * rng.lognormvariate(0, 0.5)
        case "exponential":
            return rng.expovariate(0.7 / median)
        case _:  # a shared file system that is busy now and then
            return min(0.7 * median * rng.paretovariate(2.0), 12 * median)


KINDS = ("steady", "uniform", "log-normal", "exponential", "pareto")


@dataclass
class Life:
    """What is drawn for one job; durations in seconds."""

    rng: random.Random
    hours: float

    def __post_init__(self) -> None:
        """Draw everything, in a fixed order."""
        draw = self.rng
        self.ranks = draw.choice((1, 2, 4, 8))
        self.printing = draw.choice(("all", "all", "rank 0", "merged"))
        self.step = draw.choice((0.3, 1.0, 3.0, 10.0, 30.0))
        self.log_every = draw.choice((1, 1, 10, 50) if self.step < 5 else (1, 1, 5))
        self.form = draw.choice(("step", "iteration", "bar", "epoch", "nccl"))
        self.stamped = draw.random() < 0.7
        self.startup = draw.choice((0.5, 2, 10, 25, 50)) * MINUTE
        self.compile = draw.choice((0, 0, 1, 5, 12)) * MINUTE
        self.save_every = draw.choice((10, 30, 60, 150)) * MINUTE
        self.save = draw.choice((5, 20, 60, 180, 360))
        self.save_kind = draw.choice(KINDS)
        self.save_told = draw.random() < 0.6
        self.eval_every = draw.choice((0, 20, 60, 120, 240)) * MINUTE
        self.evaluation = draw.choice((0.5, 2, 5, 10, 15)) * MINUTE
        self.eval_kind = draw.choice(KINDS[:4])
        self.eval_told = draw.choice(("silent", "first line", "lines", "bar"))
        self.stalls_an_hour = draw.choice((0, 0, 0.5, 3))
        self.stall = draw.choice((10, 40, 90))
        self.burst = draw.choice((0, 0, 0, 20, 120, 420))
        self.heartbeat = draw.choice((0, 0, 15, 60))
        self.caught_every = draw.choice((0, 0, 2 * HOUR))
        self.rotate = draw.choice((0, 0, HOUR))
        self.late = draw.choice((0, 0, 0.5 * HOUR, 2 * HOUR))

    def line(self, step: int) -> str:
        """Return the line of a step."""
        loss = f"{2.5 / (1 + step / 900) + self.rng.gauss(0, 0.03):.4f}"
        match self.form:
            case "step":
                return f"step {step} loss {loss} lr 1.0e-04"
            case "iteration":
                return f" iteration {step:8d}/  500000 | loss: {loss} | grad norm: 0.9"
            case "bar":
                share = step * 100 // 500000
                drawn = "█" * (share // 10)
                return f"{share:3d}%|{drawn}| {step}/500000 [01:02<9:30, 1.1it/s]"
            case "epoch":
                return f"Epoch: [{step // 1000}][{step % 1000}/1000] Loss {loss}"
            case _:
                address = f"0x7f{self.rng.randrange(1 << 20):x}"
                told = f"opCount {step:x} sendbuff {address} count 1024"
                return f"gpu0001:412:498 [0] NCCL INFO AllReduce: {told}"

    def events(self, until: float) -> Iterator[Event]:
        """Yield all lines up to `until`, in the order of time."""
        yield from heapq.merge(self._training(until), self._beats(until + 5 * HOUR))

    def _beats(self, until: float) -> Iterator[Event]:
        now = START + 5
        while self.heartbeat and now < until:
            yield now, 0, f"monitor: gpu {self.rng.randrange(100)} % mem 61.2 GiB"
            now += self.heartbeat * self.rng.uniform(0.98, 1.02)

    def _training(self, until: float) -> Iterator[Event]:
        rng, now = self.rng, START
        for rank in range(self.ranks):
            yield now, rank, f"rank {rank} of {self.ranks} is ready"
        yield now + 3, 0, "building the index of 18 data files"
        now += self.startup * rng.uniform(0.7, 1.3)
        yield now, 0, "index is built"
        now += self.compile
        save = eval_ = caught = now
        step = rng.choice((0, 0, 41_000))
        while now < until:
            step += 1
            now += self.step * rng.lognormvariate(0, 0.15)
            if rng.random() < self.stalls_an_hour / HOUR * self.step:
                now += duration(rng, "pareto", self.stall)
            if step % self.log_every == 0:
                for rank in range(self.ranks):
                    yield now + rank * 0.01, rank, self.line(step)
            if now - save >= self.save_every:
                save = now
                if self.save_told:
                    yield now, 0, f"saving checkpoint to /ckpt/{step}"
                now += duration(rng, self.save_kind, self.save)
            if self.eval_every and now - eval_ >= self.eval_every:
                eval_ = now
                for event in self._evaluation(now):
                    now = event[0]
                    if event[2]:
                        yield event
            if self.caught_every and now - caught >= self.caught_every:
                caught = now
                yield now, 0, "Traceback (most recent call last):"
                yield now, 0, '  File "data.py", line 7, in get'
                yield now, 0, "OSError: [Errno 5] Input/output error: skipped a sample"

    def _evaluation(self, now: float) -> Iterator[Event]:
        long = duration(self.rng, self.eval_kind, self.evaluation)
        if self.eval_told != "silent":
            yield now, 0, "evaluating"
        if self.eval_told in ("lines", "bar"):
            batches = max(int(long / 4), 1)
            for batch in range(batches):
                text = f"eval batch {batch}/{batches}"
                if self.eval_told == "lines" and batch % 10 == 0:
                    text = "still evaluating the next shard"
                yield now + long * batch / batches, 0, text
        yield now + long, 0, "" if self.eval_told == "silent" else "accuracy 0.71"


class World:
    """A clock that writes the job's lines into files while it advances."""

    def __init__(self, life: Life, folder: Path, until: float) -> None:
        """Begin with the job, which prints nothing after `until`."""
        self.life, self.folder, self.time = life, folder, START
        self.pending: list[Event] = []
        self.events = life.events(until)
        self.rotated, self.files = START, 0
        self.next = next(self.events, None)

    def now(self) -> float:
        """Return the accelerated time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Advance, by LOOK at least."""
        self.advance(self.time + max(seconds, LOOK))

    def advance(self, to: float) -> None:
        """Write what is printed and delivered until then."""
        while self.next is not None and self.next[0] <= to:
            self.pending.append(self.next)
            self.next = next(self.events, None)
        burst = self.life.burst
        if not burst or int(to / burst) > int(self.time / burst):
            self._deliver(to)
        self.time = to

    def _deliver(self, now: float) -> None:
        texts: dict[str, list[str]] = {}
        for at, rank, line in self.pending:
            if self.life.printing == "rank 0" and rank:
                continue
            name = "job" if self.life.printing == "merged" else f"rank_{rank}"
            stamp = datetime.fromtimestamp(at, UTC).isoformat(" ", "milliseconds")
            who = f"[rank{rank}]: " if name == "job" else ""
            head = f"{stamp.split('+')[0].replace('.', ',')} " * self.life.stamped
            texts.setdefault(name, []).append(f"{who}{head}{line}\n")
        if self.life.rotate and now - self.rotated > self.life.rotate:
            self.rotated = now
            for file in self.folder.glob("*.log"):
                file.rename(file.with_suffix(f".log.{self.files}"))
            self.files += 1
        for name, lines in texts.items():
            file = self.folder / f"{name}.log"
            with file.open("a") as stream:
                stream.writelines(lines)
            os.utime(file, (now, now))
        self.pending.clear()


def run(seed: int, stop: bool, say: Callable[[str], None]) -> tuple[float, str, float]:
    """Run one job; returns hours watched, what was wrong, and time to the word."""
    rng = random.Random(seed)
    life = Life(rng, rng.uniform(2, 10))
    stops = START + life.startup * 1.3 + life.compile
    stops += rng.uniform(0.1, 1) * life.hours * HOUR
    until = START + life.startup + life.hours * HOUR
    with tempfile.TemporaryDirectory() as folder:
        world = World(life, Path(folder), stops if stop else until)
        if life.late:
            while world.time < START + life.startup + life.late:
                world.advance(world.time + LOOK)
        began = world.time
        said: list[str] = []
        follow = Follow(
            *(Tails([folder]), Job(began), world),
            lambda: analyze([folder]).report,
            said.append,
            lambda _: None,
            lambda _: None,
            Positions(),
            stops + 4 * HOUR if stop else until,
        )
        end = follow.run()
    hours = (min(world.time, until) - began) / HOUR
    wrong, took = "", world.time - stops
    if stop:
        wrong = "no word" if end.word is Word.GOES_ON else "early" * (took < 0)
    elif end.word is not Word.GOES_ON:
        wrong = end.word.value
    told = {k: v for k, v in vars(life).items() if k != "rng"}
    right = f"seed {seed}: {hours:.1f} h, {wrong or 'right'}, {took:.0f} s"
    say(f"{right}: {end.text[:150]}")
    if wrong:
        say(f"   {told}\n   {said[-3:]}")
    return hours, wrong, took


def main() -> None:
    """Run the jobs that are asked for, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop", action="store_true", help="jobs that stand still")
    args = parser.parse_args()
    found = [
        run(args.seed * 100_000 + number, args.stop, print)
        for number in range(args.jobs)
    ]
    hours = sum(told[0] for told in found)
    print(f"{len(found)} jobs, {hours:.0f} h, {dict(Counter(t[1] for t in found))}")
    if args.stop:
        took = sorted(t[2] / MINUTE for t in found if not t[1])
        if len(took) > 1:
            tenths = [f"{x:.1f}" for x in statistics.quantiles(took, n=10)]
            print(f"minutes to the word, tenths: {', '.join(tenths)}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
