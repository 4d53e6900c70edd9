"""Which processes an agent ran, failed and ended, also where agents share a console."""

import pytest

from log_lines import table, timeout
from ncclforensics.correlate.exits import agent_processes

CLOSING = (
    "W0820 10:00:01.000000 77 torch/distributed/elastic/multiprocessing/api.py:897] "
    "Sending process {} closing signal SIGTERM\n"
)


def entry(rank, first):
    """A rank of a node with four, the first of which is `first`."""
    return (rank, -6, 400 + rank, rank - first)


ONE = table(*(entry(r, 0) for r in range(4)))


@pytest.mark.parametrize(
    ("ended", "lived"), [([406], {6}), ([406, 407], {6, 7}), ([], set())]
)
def test_of_agents_with_one_console_who_was_ended_was_alive(analyzed, ended, lived):
    """Rank 6 is in no table; rank 7 is, though it was told to end."""
    other = table(*(entry(r, 4) for r in (4, 5, 7)), host="gpu0002")
    closing = "".join(CLOSING.format(pid) for pid in ended)
    frames = analyzed({"console.log": closing + ONE + other}).frames
    assert agent_processes.lived(frames) == lived


@pytest.mark.parametrize(
    ("ended", "told"), [([406], [(6, 406, "gpu0002")]), ([406, 999], []), ([], [])]
)
def test_the_process_that_an_agent_ended_is_the_rank_that_its_table_leaves_out(
    analyzed, ended, told
):
    rows = table(*(entry(r, 4) for r in (4, 5, 7)), host="gpu0002")
    closing = "".join(CLOSING.format(pid) for pid in ended)
    frames = analyzed({"node1.log": closing + rows}).frames
    known = agent_processes.left_out(frames)
    assert known.select("rank", "pid", "host").rows() == told


@pytest.mark.parametrize(("first", "ranks"), [(6, {6, 7, 8}), (7, {7, 8})])
def test_agents_of_one_size_start_at_a_multiple_of_it(analyzed, first, ranks):
    """Else signals and tables are not of one attempt, and only the table counts."""
    rows = table(*(entry(r, first) for r in (first, first + 1)), host="gpu0002")
    frames = analyzed({"node2.log": CLOSING.format(900) + rows}).frames
    assert [crew.ranks for crew in agent_processes.crews(frames)] == [ranks]


HELD = (
    "W0820 10:00:31.000000 77 torch/distributed/elastic/multiprocessing/api.py:1047] "
    "Unable to shutdown process 402 via 15, forcefully exiting via 9\n"
)


@pytest.mark.parametrize(("code", "held"), [(-9, {2}), (-15, set())])
def test_a_process_that_only_sigkill_ended_had_not_given_up(analyzed, code, held):
    closing = "".join(CLOSING.format(pid) for pid in (400, 401, 402))
    rows = ((3, 1, 403, 3), (0, -15, 400, 0), (1, -15, 401, 1), (2, code, 402, 2))
    log = closing + HELD * (code == -9) + table(*rows)
    found = analyzed(
        {"agent.log": log} | {f"rank{r}.log": timeout(r) for r in (0, 1, 3)}
    )
    assert agent_processes.unmoved(found.frames) == held
    if held:
        verdict = found.ranked.verdict
        assert (verdict.slug, verdict.ranks) == ("missing-rank", (2,))


def test_where_all_had_to_be_killed_none_is_the_odd_one(analyzed):
    closing = "".join(CLOSING.format(pid) for pid in (400, 401, 402))
    rows = ((3, 1, 403, 3), *((r, -9, 400 + r, r) for r in range(3)))
    found = analyzed({"agent.log": closing + table(*rows), "rank3.log": timeout(3)})
    assert agent_processes.unmoved(found.frames) == set()
