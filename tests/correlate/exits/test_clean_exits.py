"""A listing of Slurm's tasks tells the host of a rank, where a task is one rank."""

import polars as pl
import pytest

from log_lines import timeout
from ncclforensics.analysis import analyze

LISTED = "SLURM_PROCID={} SLURM_LOCALID={} SLURMD_NODENAME=gpu000{}\n"
FOUR = "".join(LISTED.format(r, r % 2, r // 2 + 1) for r in range(4))
ONE_EACH = "".join(LISTED.format(r, 0, r + 1) for r in range(4))


@pytest.mark.parametrize(("listing", "host"), [(FOUR, "gpu0002"), (ONE_EACH, None)])
def test_a_task_is_a_rank_where_a_host_holds_several(tmp_path, listing, host):
    (tmp_path / "job.log").write_text(listing + timeout(2))
    ranks = analyze([str(tmp_path)]).frames["ranks"]
    assert ranks.filter(pl.col("rank") == 2)["host"].to_list() == [host]
