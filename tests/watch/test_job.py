"""The word on a job, by an injected clock."""

import pytest

from ncclforensics.watch.job import ARRIVALS, Job, Word
from ncclforensics.watch.pauses import MOST_UNSEEN
from new_lines import read

TRACEBACK = "Traceback (most recent call last):"
RESET = "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:3970"


def lines(job, now, *texts):
    found = read(*texts)
    job.lines(found.seen, now, found.ended)
    job.failed(found.failing, now)


def trained(steps=40, every=1.0, **more):
    """A job that made so many steps from the time 0 on, and the time of the last."""
    job = Job(0.0, **more)
    for step in range(steps):
        lines(job, step * every, f"step {step} loss 0.5")
    return job, (steps - 1) * every


def test_a_job_has_stopped_once_its_pauses_do_not_explain_the_silence():
    job, last = trained()
    limit = job.limit
    assert limit == MOST_UNSEEN
    assert job.word(last + limit - 1) is Word.GOES_ON
    assert job.word(last + limit) is Word.STOPPED


def test_long_pauses_that_it_had_before_are_waited_for():
    job, last = trained()
    for step in range(40, 44):
        last += 900  # an evaluation each time
        lines(job, last, f"step {step} loss 0.5")
    assert job.word(last + 1800) is Word.GOES_ON
    assert job.word(last + job.limit) is Word.STOPPED
    assert job.limit < 5 * 900


def test_start_up_is_never_too_long_and_is_no_usual_pause():
    job = Job(0.0)
    lines(job, 1.0, "building the index")
    assert job.word(1e6) is Word.GOES_ON
    for step in range(20):
        lines(job, 1e6 + step, f"step {step} loss 0.5")
    assert job.pauses.longest < 10


def test_patience_is_what_somebody_knows_and_begins_with_the_first_step():
    job, last = trained(patience=30.0)
    assert job.word(last + 29) is Word.GOES_ON
    assert job.word(last + 30) is Word.STOPPED
    starting = Job(0.0, patience=30.0)
    lines(starting, 1.0, "building the index")
    assert starting.word(1000.0) is Word.GOES_ON


def test_a_monitor_that_goes_on_does_not_hide_that_steps_stand():
    job = Job(0.0)
    for now in range(0, 1200, 60):
        lines(job, now, f"step {now} loss 0.5", "monitor: gpu 97 %")
    for now in range(1200, 1140 + int(MOST_UNSEEN), 60):
        lines(job, now, "monitor: gpu 96 %")
        assert job.word(now) is Word.GOES_ON
    assert job.word(1140 + MOST_UNSEEN) is Word.STOPPED


def test_lines_of_an_evaluation_keep_a_job_alive():
    job, last = trained()
    for now in range(int(last), int(last + 3 * MOST_UNSEEN), 120):
        lines(job, now, f"eval batch {now}")
        assert job.word(now) is Word.GOES_ON


def test_what_is_announced_may_be_silent_for_longer():
    job, last = trained()
    lines(job, last + 1, "evaluating")
    assert job.word(last + 1 + MOST_UNSEEN) is Word.GOES_ON
    assert job.word(last + 1 + 2 * MOST_UNSEEN) is Word.STOPPED


def test_until_deliveries_were_seen_their_bursts_are_not_known():
    job = Job(0.0)
    seen = read(*(f"step {n}" for n in range(9))).seen
    job.old(seen, -1.0)
    job.history([float(n) for n in range(0, 900_000, 60)])
    assert job.limit == MOST_UNSEEN
    job.arrivals = ARRIVALS
    assert job.limit < MOST_UNSEEN


def test_a_gap_between_two_old_jobs_is_no_pause():
    job = Job(0.0)
    job.history([1.0, 2.0, 3.0, 90_000.0, 90_001.0])
    assert job.pauses.longest == 1.0


def test_a_failing_line_ends_the_wait_once_no_step_follows():
    job, last = trained()
    lines(job, last + 1, RESET)
    assert job.word(last + 2) is Word.GOES_ON
    assert job.word(last + 10) is Word.FAILED


def test_a_failing_line_after_which_steps_go_on_is_none():
    job, last = trained()
    lines(job, last + 1, RESET)
    for step in range(40, 60):
        lines(job, last + step - 38, f"step {step} loss 0.5")
    assert job.failing is None
    assert job.word(last + 60) is Word.GOES_ON


def test_a_last_step_of_a_peer_does_not_excuse_a_failing_line():
    job, last = trained()
    lines(job, last + 1, RESET)
    lines(job, last + 2, "step 40 loss 0.5")
    assert job.word(last + 12) is Word.FAILED


@pytest.mark.parametrize("at_once", [True, False])
def test_an_exception_below_which_its_file_goes_on_was_caught(at_once):
    job, last = trained()
    if at_once:
        lines(job, last + 1, TRACEBACK, "step 40 loss 0.5")
    else:
        lines(job, last + 1, TRACEBACK)
        lines(job, last + 2, "step 40 loss 0.5")
    assert job.failing is None


def test_an_exception_that_stays_the_last_line_counts_beyond_the_known_pauses():
    job, last = trained()
    lines(job, last + 1, "step 40 loss 0.5", TRACEBACK)
    assert job.word(last + 20) is Word.GOES_ON
    assert job.word(last + 40) is Word.FAILED


def test_the_end_of_all_writers_is_the_end():
    job, last = trained()
    assert job.word(last + 1, closed=True) is Word.GOES_ON
    assert job.word(last + 6, closed=True) is Word.ENDED


def test_a_job_that_says_that_it_ended_has_ended_unless_it_goes_on():
    job, last = trained()
    lines(job, last + 1, "Training finished")
    assert job.word(last + 10) is Word.GOES_ON
    assert job.word(last + 100) is Word.ENDED
    for step in range(40, 50):
        lines(job, last + 60 + step, f"step {step} loss 0.5")
    assert job.word(last + 200) is Word.GOES_ON


def test_a_time_in_which_nobody_looked_is_no_silence():
    job, last = trained()
    job.not_watched(10 * MOST_UNSEEN)
    assert job.word(last + 10 * MOST_UNSEEN + 5) is Word.GOES_ON


def test_how_it_stands_is_one_line():
    job, last = trained()
    told = job.told(last + 840)
    assert "step 39" in told
    assert "silent for 14 min" in told
    assert "longest 1 s" in told
