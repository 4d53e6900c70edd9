"""An outline says of a job what all its calls say."""

import random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import simulate
import simulate_dumps
import simulate_faults
from ncclforensics.correlate import correlate
from ncclforensics.correlate.traces.call_summary import outlined
from ncclforensics.engine import reading
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.sources import discover

JOBS = (
    *("torch-chain", "torch-uneven-inputs", "torch-unmatched-p2p", "torch-straggler"),
    *("torch-missing-rank-json", "torch-healthy-pipeline", "torch-truncated-dump"),
    *("torch-call-order-deadlock", "torch-rank-conditional"),
)
CORRELATED = (
    *("standings", "held", "calls", "roots", "positions", "ranks", "collectives"),
)


def in_full(frames):
    """Return frames whose calls are not kept in parts."""
    kept = {n: f for n, f in frames.tables.items() if n not in tables.INNER}
    return Frames({**kept, "collectives": frames["collectives"]}, frames.messages)


@pytest.mark.parametrize("slug", JOBS)
def test_a_job_is_the_same_by_its_outline(jobs, slug, tmp_path):
    read = reading.read(discover([str(jobs / slug / "evidence")], tmp_path).sources)
    assert read.has("entries")
    found, expected = correlate(read), correlate(in_full(read))
    for name in CORRELATED:
        assert_frame_equal(found[name], expected[name])


@pytest.mark.parametrize("style", [{}, {"only_active": True}, {"ring": 40}])
@pytest.mark.parametrize("fault", ["absent", "unmatched"])
def test_so_is_a_job_with_batches_of_messages(fault, style, tmp_path):
    job, places = simulate.job(2, 2, 2, 1, steps=3)
    case = simulate_faults.FAULTS[fault](job, places, 5)
    simulate_dumps.write(case, tmp_path, simulate_dumps.Style(**style), 5)
    read = reading.read(discover([str(tmp_path)], tmp_path).sources)
    assert read["templates"]["is_p2p"].any()
    found, expected = correlate(read), correlate(in_full(read))
    for name in CORRELATED:
        assert_frame_equal(found[name], expected[name])


def dump(rows, **template):
    """Return the frames of a dump whose calls are all of one kind."""
    names = {"template": 7, "rank": 3, "pg": "0", "op": "all_reduce", "source": "a"}
    return Frames(
        {
            "templates": tables.rows("templates", [{**names, **template}]),
            "entries": tables.rows("entries", [{"template": 7, **r} for r in rows]),
        }
    )


def test_calls_that_did_not_finish_stand_for_themselves():
    rows = [{"seq": n, "line": n} for n in range(1, 9)]
    made = outlined(dump(rows, state="scheduled"))["outline"]
    assert made["seq"].to_list() == list(range(1, 9))
    assert made["times"].to_list() == [1] * 8


def test_the_extremes_of_finished_calls_stand_for_all():
    seqs = random.Random(3).sample(range(1, 100), 50)
    rows = [{"seq": n, "line": line} for line, n in enumerate(seqs, 1)]
    made = outlined(dump(rows, state="completed"))["outline"]
    assert set(made["seq"]) == {min(seqs), max(seqs), seqs[0], seqs[-1]}
    assert made["line"].is_sorted()
    assert made["times"].sum() == 50


def test_a_filter_puts_together_what_it_asks_for():
    rows = [{"seq": n, "line": n} for n in range(1, 9)]
    frames = dump(rows, state="completed")
    assert frames.has("collectives")
    assert frames["collectives"].schema == pl.Schema(tables.SCHEMAS["collectives"])
    wanted = (pl.col("rank") == 3) & (pl.col("seq") == 5)
    found = frames.scan("collectives").filter(wanted).collect()
    assert_frame_equal(found, frames["collectives"].filter(wanted))
    assert found.select("op", "source", "line").rows() == [("all_reduce", "a", 5)]
