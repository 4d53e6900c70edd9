"""Watching files to their word, on a clock that only the test advances."""

import os
from collections import deque
from dataclasses import dataclass

import pytest

from ncclforensics.watch import follow as module
from ncclforensics.watch.follow import Follow
from ncclforensics.watch.job import Job, Word
from ncclforensics.watch.pauses import MOST_UNSEEN
from ncclforensics.watch.positions import Positions
from ncclforensics.watch.tails import Tails

BEGAN = 1_700_000_000.0
RESET = "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:3970\n"


@dataclass
class Answered:
    outcome: str
    is_sure: bool = True


class World:
    """A clock, and a job that writes a step each second of it until `stops`."""

    def __init__(self, folder, stops):
        self.time, self.stops, self.file = BEGAN, BEGAN + stops, folder / "rank_0.log"
        self.then = deque()
        self.file.write_text("rank 0 of 1 is ready\n")
        self.stamp()
        self.said, self.shown, self.asked = [], [], []
        self.outcome, self.writers = "failure", [1]

    def stamp(self):
        os.utime(self.file, (self.time, self.time))

    def now(self):
        return self.time

    def sleep(self, seconds):
        with self.file.open("a") as stream:
            for _ in range(max(int(seconds), 1)):
                self.time += 1
                if self.time < self.stops:
                    stream.write(f"step {self.time - BEGAN:.0f} loss 0.5\n")
            if self.time >= self.stops and self.then:
                stream.write(self.then.popleft())
        self.stamp()

    def analyze(self):
        self.asked.append(self.time)
        return Answered(self.outcome)

    def follow(self, **more):
        return Follow(
            *(Tails([str(self.file.parent)]), Job(self.time), self, self.analyze),
            *(self.said.append, self.shown.append, lambda _: self.writers),
            Positions(),
            **more,
        )


@pytest.fixture
def world(tmp_path, monkeypatch):
    # how fast this machine looks is not the test's affair
    monkeypatch.setattr(module, "SHARE", 1e9)
    return lambda stops: World(tmp_path, stops)


def test_a_job_that_stands_is_analyzed_once_and_its_silence_was_told_before(world):
    job = world(60)
    end = job.follow().run()
    assert end.word is Word.STOPPED
    assert end.text.startswith("stopped: 1 rank · step 59 · silent for 20 min")
    assert job.asked == [job.time]
    assert job.time - BEGAN == pytest.approx(60 + MOST_UNSEEN, abs=15)
    unusual = [told for told in job.said if "would call it stopped in" in told]
    assert len(unusual) == 3  # at a fifth of the limit, and each time it doubled


def test_a_healthy_job_is_followed_to_the_end_of_the_time(world):
    job = world(1e9)
    end = job.follow(until=BEGAN + 90).run()
    assert (end.word, end.answer, job.asked) == (Word.GOES_ON, None, [])
    assert len(job.said) == 1
    assert "silent for" in job.shown[-1]


def test_a_failing_line_is_given_to_the_analysis_at_once(world):
    job = world(60)
    job.then.append(RESET)
    end = job.follow().run()
    assert end.word is Word.FAILED
    assert "Connection closed by peer" in end.text
    assert job.time - job.stops < 15


def test_a_failing_line_in_which_the_analysis_finds_nothing_ends_nothing(world):
    job = world(60)
    job.then.append(RESET)
    job.outcome = "no-failure"
    end = job.follow().run()
    assert end.word is Word.STOPPED
    assert any("going on" in told for told in job.said)
    assert len(job.asked) == 2


def test_an_open_answer_counts_once_the_silence_is_long_too(world):
    job = world(60)
    job.then.append(RESET)
    job.outcome = "inconclusive"
    end = job.follow().run()
    assert end.word is Word.FAILED
    assert 30 <= job.time - job.stops < 120


def test_a_job_whose_files_are_closed_has_ended(world):
    job = world(60)
    job.outcome = "no-failure"
    follow = job.follow(until=BEGAN + 60)
    assert follow.run().word is Word.GOES_ON
    job.writers, follow.until = [], None
    end = follow.run()
    assert (end.word, end.text.split(";")[0]) == (
        Word.ENDED,
        "ended: nobody writes to its files any more",
    )
    assert job.time - job.stops < 40


def test_files_that_nobody_was_seen_to_write_do_not_count_as_closed(world):
    job = world(60)
    job.writers = []
    assert job.follow().run().word is Word.STOPPED


def test_a_host_that_slept_makes_no_silence(world):
    job = world(1e9)
    follow = job.follow(until=BEGAN + 10_100)
    slept = job.sleep

    def sleep(seconds):
        slept(seconds)
        if 40 < job.time - BEGAN < 50:
            job.time += 10_000

    job.sleep = sleep
    assert follow.run().word is Word.GOES_ON
    assert any("did not look for" in told for told in job.said)


def test_files_that_are_not_there_yet_are_waited_for(world, tmp_path):
    job = world(1e9)
    job.file.unlink()
    job.file = tmp_path / "late" / "rank_0.log"
    follow = job.follow(until=BEGAN)
    assert follow.run().word is Word.GOES_ON
    assert follow.told(job.time).startswith("waits for")


def test_a_look_without_news_reads_no_file(world, monkeypatch):
    job = world(60)
    follow = job.follow(until=BEGAN + 70)
    follow.run()
    monkeypatch.setattr(
        "pathlib.Path.open", lambda *_, **__: pytest.fail("a file was opened")
    )
    assert list(follow.tails.new()) == []


def collecting(job, outcome, is_sure=True):
    """Follow a job whose processes can be looked at, and count the looks."""
    looks = []

    def collect():
        looks.append(job.time)
        return Answered(outcome, is_sure)

    return job.follow(collect=collect), looks


def test_two_looks_that_prove_a_standstill_end_the_wait_of_a_young_job(world):
    job = world(60)
    follow, looks = collecting(job, "failure")
    end = follow.run()
    assert (end.word, len(looks)) == (Word.STOPPED, 1)
    assert "two looks prove it" in end.text
    assert job.time - job.stops < 2 * module.LOOK_AFTER < MOST_UNSEEN


@pytest.mark.parametrize(
    ("outcome", "is_sure"), [("inconclusive", True), ("failure", False)]
)
def test_looks_that_prove_nothing_leave_it_to_the_silence(world, outcome, is_sure):
    job = world(60)
    follow, looks = collecting(job, outcome, is_sure)
    end = follow.run()
    assert end.word is Word.STOPPED
    assert job.time - job.stops >= MOST_UNSEEN - 1
    # at each doubling of the silence, and at the end
    assert 4 <= len(looks) <= 7


def test_a_job_that_makes_steps_is_not_looked_at(world):
    job = world(1e9)
    follow, looks = collecting(job, "failure")
    follow.until = BEGAN + 300
    assert (follow.run().word, looks) == (Word.GOES_ON, [])
