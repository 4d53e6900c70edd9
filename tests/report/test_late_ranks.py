"""The heat map is there where a rank is slow, folds hosts, and has its slowest on top."""

import msgspec
import pytest

from ncclforensics.analysis import analyze
from ncclforensics.model.frames import Frames
from ncclforensics.model.tables import rows
from ncclforensics.report.contract import Gain
from ncclforensics.report.formats.svg import late_ranks as drawn
from ncclforensics.report.late_ranks import LEVELS, MOST_ROWS, late_ranks, legend


@pytest.fixture
def report(tmp_path):
    (tmp_path / "job.log").write_text("step 1 loss 2.0\n")
    report = analyze([str(tmp_path)]).report
    gain = Gain((1,), "1", ("gpu0001",), 0.2, "rank 1 costs 20 % of each step")
    return msgspec.structs.replace(report, fastest_gain=gain)


def frames(ranks, slow):
    told = [
        {"rank": rank, "slice": at, "share": 0.2 if rank == slow else 0.0}
        for rank in range(ranks)
        for at in range(4)
    ]
    hosts = [{"rank": rank, "host": f"gpu{rank // 8:04d}"} for rank in range(ranks)]
    tables = {"lateness": rows("lateness", told), "ranks": rows("ranks", hosts)}
    return Frames(tables)


def test_few_ranks_have_a_row_each_and_the_slowest_is_on_top(report):
    told = late_ranks(report, frames(8, 5))
    assert told.rows[0] == ("rank 5 gpu0000", (3,) * 4)
    assert len(told.rows) == 8
    assert {levels for _, levels in told.rows[1:]} == {(0,) * 4}


def test_many_ranks_are_folded_by_host(report):
    told = late_ranks(report, frames(8 * (MOST_ROWS + 2), 9))
    assert told.rows[0] == ("gpu0001", (3,) * 4)
    assert (len(told.rows), told.more_rows) == (MOST_ROWS, 2)


def test_nothing_is_drawn_where_nobody_is_slow(report):
    healthy = msgspec.structs.replace(report, fastest_gain=None)
    assert late_ranks(healthy, frames(8, 5)) is None


def test_the_picture_names_its_rows_and_its_levels(report):
    svg = str(drawn.late_ranks(late_ranks(report, frames(8, 5))))
    assert "rank 5 gpu0000: level 3 at most" in svg
    assert [digit for digit, _, _ in legend()] == [
        str(n) for n in range(1, len(LEVELS) + 1)
    ]
