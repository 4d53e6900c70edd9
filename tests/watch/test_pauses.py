"""How long is long."""

import pytest

from ncclforensics.watch.pauses import MOST_UNSEEN, Pauses


def of(*pauses):
    made = Pauses()
    for seconds, times in pauses:
        made.add(seconds, times)
    return made


def test_without_history_everything_is_unseen():
    assert Pauses().unseen == MOST_UNSEEN
    assert Pauses().known == 0


def test_the_longer_a_job_was_watched_the_less_a_new_kind_of_pause_is_expected():
    limits = [of((1, hours * 3600)).unseen for hours in (1, 30, 100, 1000)]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] == MOST_UNSEEN
    assert limits[2] < MOST_UNSEEN
    assert limits[-1] >= 60  # never below the median of an unseen pause


def test_a_kind_that_was_seen_once_may_last_much_longer_and_often_only_a_little():
    once, often = of((1, 1000), (60, 1)), of((1, 1000), (60, 200))
    assert once.known > 4 * 60
    assert 2 * 60 <= often.known < once.known


def test_thousands_of_short_pauses_do_not_vouch_for_the_one_long():
    alone = of((60, 1))
    assert of((1, 100_000), (60, 1)).known == pytest.approx(alone.known)


def test_the_usual_pause_is_where_the_time_goes_not_where_most_lines_are():
    bursts = of((0.001, 1000), (30, 20))
    assert bursts.usual == pytest.approx(30, rel=0.1)
    assert Pauses().usual == 0


def test_a_week_of_pauses_takes_no_more_room_than_one():
    week = of(*((0.5 + (n % 7), 1) for n in range(50_000)))
    assert len(week.counts) == len(of((1, 1)).counts)
    assert week.longest == 6.5


@pytest.mark.parametrize("seconds", [-3.0, 0.0, 1e-9, 1e12])
def test_no_clock_makes_a_pause_that_cannot_be_counted(seconds):
    assert sum(of((seconds, 1)).counts) == 1
