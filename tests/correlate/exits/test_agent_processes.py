"""Which processes an agent ran, failed and ended, also where agents share a console."""

import pytest

from log_lines import table
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
