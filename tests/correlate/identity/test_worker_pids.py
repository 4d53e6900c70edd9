"""Workers that tell their pids are ranks where nothing else tells ranks."""

import pytest

from log_lines import timeout

WORKER = "1795878179.96 worker {} pid {} ready\n"


def pids(analyzed, workers, **more):
    log = "".join(WORKER.format(n, 12430 + n) for n in workers)
    frames = analyzed({"out.txt": log, **more}).frames
    return dict(frames["ranks"].select("rank", "pid").drop_nulls().rows())


def test_workers_from_0_on_are_the_ranks_of_their_pids(analyzed):
    assert pids(analyzed, range(3)) == {0: 12430, 1: 12431, 2: 12432}


@pytest.mark.parametrize(
    ("workers", "more"),
    [([1, 2], {}), ([0], {}), (range(2), {"rank5.log": timeout(5)})],
    ids=["without the first", "one", "beside ranks"],
)
def test_other_workers_may_be_a_data_loaders(analyzed, workers, more):
    assert pids(analyzed, workers, **more) == {}


PS = (
    "  PID  PPID STAT %CPU     ELAPSED WCHAN                  COMMAND\n"
    "12430 12427 Sl    1.3       00:38 futex_do_wait          python\n"
    "12431 12427 {}    1.3       00:38 do_signal_stop         python\n"
)


@pytest.mark.parametrize(("state", "outcome"), [("Tl", "inconclusive"), ("Sl", "no-")])
def test_a_stopped_process_of_an_unknown_rank_is_no_clean_bill(
    analyzed, state, outcome
):
    found = analyzed({"ps.txt": PS.format(state), "out.txt": "step 1 loss 2\n" * 3})
    assert found.ranked.outcome.startswith(outcome)
