"""Which lines show that a job moves."""

from ncclforensics.watch.counters import MOST_OF_SPEAKER, Counters
from new_lines import read


def fed(counters, line, now, number=1):
    return counters.feed(read(line, number=number).seen, now)


def trained(steps, every=1.0, more=()):
    counters = Counters()
    for step in range(steps):
        fed(counters, f"step {step} loss {(step * 7919 % 100) / 100}", step * every)
        for line in more:
            fed(counters, line, step * every + 0.1)
    return counters


def test_a_rising_step_moves_a_job_and_the_same_step_again_does_not():
    counters = trained(6)
    assert fed(counters, "step 6 loss 0.1", 6.0) == (True, True)
    assert fed(counters, "step 6 loss 0.9", 7.0) == (False, True)
    assert max(counters.steps().values()) == 6


def test_a_loss_that_goes_up_and_down_counts_nothing():
    counters = Counters()
    moved = [fed(counters, f"loss {(n * 7919 % 100) / 100}", n)[0] for n in range(40)]
    assert not any(moved)


def test_a_number_without_a_name_counts_once_it_rose_often():
    counters = Counters()
    moved = [fed(counters, f"[{n}/500] lr 0.1", n)[0] for n in range(12)]
    assert moved == [False] * 8 + [True] * 4


def test_batches_that_begin_anew_in_each_epoch_go_on_counting():
    counters = Counters()
    moved = [fed(counters, f"Epoch {n // 20}: [{n % 20}/20]", n)[0] for n in range(200)]
    assert sum(moved[20:]) >= 160


def test_what_comes_like_a_clock_and_counts_nothing_says_nothing():
    counters = trained(40, more=["monitor: gpu 97 %"])
    for n in range(40, 60):
        told = fed(counters, f"monitor: gpu {n * 7919 % 100} %", float(n))
        assert told == (False, False)


def test_what_counts_is_believed_also_if_it_is_as_regular_as_a_clock():
    counters = trained(40)
    told = [fed(counters, f"[{n}/500]", 420.0 * n) for n in range(40)]
    assert [moved for moved, _ in told[8:]] == [True] * 32


def test_an_evaluation_speaks_and_its_batches_move_the_job():
    counters = trained(40)
    told = [fed(counters, f"eval {n}/100", 40 + n) for n in range(20)]
    assert all(spoke for _, spoke in told)
    assert [moved for moved, _ in told[10:]] == [True] * 10


def test_what_pauses_with_the_steps_is_no_clock():
    counters = Counters()
    now = 0.0
    for step in range(60):
        now += 120 if step % 20 == 19 else 1
        fed(counters, f"step {step}", now)
        fed(counters, "throughput is good", now)
    assert fed(counters, "throughput is good", now + 1) == (False, True)


def test_a_rare_last_line_is_a_phase_and_the_next_step_ends_it():
    counters = trained(60)
    assert not counters.is_in_phase
    fed(counters, "saving checkpoint", 60)
    assert counters.is_in_phase
    # though the steps are as regular as a clock
    fed(counters, "step 60 loss 0.5", 61)
    assert not counters.is_in_phase


def test_what_is_kept_is_bounded_and_goes_with_its_file():
    counters = Counters()
    for n in range(200):
        fed(counters, f"{'x' * n} text of its own", n)
    (speakers,) = counters.of.values()
    assert len(speakers[""]) == MOST_OF_SPEAKER
    counters.forget([])
    assert counters.of == {}
