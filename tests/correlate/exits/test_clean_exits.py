"""A listing of Slurm's tasks tells the host of a rank, where a task is one rank."""

import polars as pl
import pytest

from log_lines import timeout, traceback
from ncclforensics.analysis import analyze
from ncclforensics.correlate.exits import clean_exits

LISTED = "SLURM_PROCID={} SLURM_LOCALID={} SLURMD_NODENAME=gpu000{}\n"
FOUR = "".join(LISTED.format(r, r % 2, r // 2 + 1) for r in range(4))
ONE_EACH = "".join(LISTED.format(r, 0, r + 1) for r in range(4))


@pytest.mark.parametrize(("listing", "host"), [(FOUR, "gpu0002"), (ONE_EACH, None)])
def test_a_task_is_a_rank_where_a_host_holds_several(tmp_path, listing, host):
    (tmp_path / "job.log").write_text(listing + timeout(2))
    ranks = analyze([str(tmp_path)]).frames["ranks"]
    assert ranks.filter(pl.col("rank") == 2)["host"].to_list() == [host]


LOST = traceback(
    0,
    "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4731.",
)
EXITS = "gpu0001 rank 0 exit 1\ngpu0001 rank 1 exit {}\n"


@pytest.mark.parametrize(
    ("code", "words", "left"),
    [(0, "step 8\n", {1}), (1, "step 8\n", set()), (0, timeout(1), set())],
)
def test_who_exits_with_0_and_reports_nothing_left_in_peace(
    analyzed, code, words, left
):
    files = {"exits.txt": EXITS.format(code), "r0.log": LOST, "rank1.log": words}
    assert clean_exits.in_peace(analyzed(files).frames) == left
