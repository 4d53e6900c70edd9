"""Monitored barriers: whom rank 0 names, and who came according to it."""

import pytest

from ncclforensics.analysis import analyze

FAILED = "RuntimeError: [Rank 0]: {} failed to pass monitoredBarrier in 2000000 ms\n"
RAISED = (
    "Traceback (most recent call last):\n"
    '  File "main.py", line 96, in main\n'
    "    dist.monitored_barrier(timeout=wait, wait_all_ranks=True)\n"
    '  File "/opt/torch/distributed/distributed_c10d.py", line 2793, '
    "in monitored_barrier\n"
    "    return group_to_use.monitored_barrier(timeout, wait_all_ranks)\n"
)


@pytest.mark.parametrize(
    ("named", "ranks"),
    [
        ("Ranks 4, 5, 6, 7", (4, 5, 6, 7)),
        ("Ranks 1, 3", (1, 3)),
        ("Rank 1", (1,)),
    ],
)
def test_who_is_named_is_missing_and_not_the_rank_that_asks(tmp_path, named, ranks):
    (tmp_path / "out.log").write_text(RAISED + FAILED.format(named))
    told = analyze([str(tmp_path)])
    verdict = told.ranked.verdict
    assert (verdict.slug, verdict.ranks) == ("missing-rank", ranks)


@pytest.mark.parametrize(
    ("named", "came"), [("Ranks 2, 5", [[0, 1, 3, 4]]), ("Rank 5", [])]
)
def test_of_several_that_are_named_the_others_came(tmp_path, named, came):
    (tmp_path / "out.log").write_text(RAISED + FAILED.format(named))
    assert analyze([str(tmp_path)]).frames["calls"]["waiting"].to_list() == came
