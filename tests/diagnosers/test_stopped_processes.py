"""Ranks whose processes a signal stopped, by a list of `ps` that somebody kept."""

import pytest

from log_lines import timeout, verdict

HEAD = "    PID STAT WCHAN                        ELAPSED     TIME COMMAND\n"
ROW = "{:7} {:4} {:24}       00:43 00:00:08 /opt/venv/bin/python3 -u train.py\n"


def job(*states, names=True):
    """Two of four ranks time out; the list shows the states of all, by pid."""
    logs = {
        f"rank_{rank}.log": (
            f"rank {rank} pid {9750 + rank} started\n" if names else ""
        )
        + (timeout(rank) if rank in (0, 1) else "step 4 loss 1.5\n")
        for rank in range(4)
    }
    rows = (
        ROW.format(9750 + rank, state, "do_signal_stop" if "T" in state else "futex")
        for rank, state in enumerate(states)
    )
    return {**logs, "ps.txt": HEAD + "".join(rows)}


def test_the_rank_whose_process_is_stopped_is_missing(analyzed):
    found = analyzed(job("Ssl", "Ssl", "Tsl", "Ssl"))
    assert verdict(found)[:2] == ("missing-rank", (2,))
    assert "kill -CONT" in found.ranked.verdict.explanation


@pytest.mark.parametrize(
    "files",
    [
        job("Ssl", "Ssl", "Ssl", "Ssl"),
        job("Tsl", "Tsl", "Tsl", "Tsl"),
        job("Ssl", "Ssl", "Tsl", "Ssl", names=False),
    ],
    ids=["none", "all", "of an unknown rank"],
)
def test_else_nobody_is_named_for_it(analyzed, files):
    found = analyzed(files).ranked.verdict
    assert found is None or "stopped" not in found.headline
