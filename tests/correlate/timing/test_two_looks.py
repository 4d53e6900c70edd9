"""Two looks at one rank: what moved is at work, what stands in both has stopped."""

import json
import os
import pickle
import shutil

import polars as pl
import pytest

from ncclforensics.analysis import analyze
from ncclforensics.correlate.timing import two_looks
from ncclforensics.correlate.traces import call_summary
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames

pytestmark = pytest.mark.usefixtures("trusted")

T0 = 1_800_000_000_000_000_000
STEP = 100_000_000  # a call each tenth of a second


def call(number, done, start=T0, is_p2p=False):
    """Return an entry as torch 2.13 writes it for NCCL."""
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": start + number * STEP,
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": is_p2p,
        "frames": [],
    }


def dump(made, ended=None, ring=2000, only_active=False, start=T0):
    """Return the dump of a rank that made so many calls, of which so many ended."""
    ended = made if ended is None else ended
    entries = [call(n, n < ended, start) for n in range(max(0, made - ring), made)]
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": made,
                "last_started_collective": -1,
                "last_completed_collective": ended,
            }
        },
        "entries": [e for e in entries if not only_active or e["state"] == "scheduled"],
    }


def as_json(told):
    status = told["pg_status"]["0"]
    status.update({key: str(value) for key, value in status.items()})
    return json.dumps(told)


def written(folder, dumps, seconds=None):
    """Write dumps, given as name -> dump, and the times of their files."""
    for name, told in dumps.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        is_json = name.endswith(".json")
        file.write_bytes(
            as_json(told).encode() if is_json else pickle.dumps(told, protocol=2)
        )
        time = (seconds or {}).get(name.split("/")[0], 1_800_000_100)
        os.utime(file, (time, time))
    return analyze([str(folder)])


def told(found):
    columns = ("rank", "moved", "what")
    return {
        rank: (moved, what)
        for rank, moved, what in found.frames["looks"].select(columns).rows()
    }


def both(first, second, ending=""):
    return {
        f"{look}/nccl_trace_rank_{rank}{ending}": made
        for look, dumps in (("first", first), ("second", second))
        for rank, made in enumerate(dumps)
    }


APART = {"first": 1_800_000_100, "second": 1_800_000_103}


@pytest.mark.parametrize("ending", ["", ".json"])
def test_who_made_calls_or_ended_one_has_moved(tmp_path, ending):
    first, second = [dump(20), dump(20, 19)], [dump(234), dump(20)]
    found = written(tmp_path, both(first, second, ending))
    assert told(found) == {
        0: (True, "made 214 more calls"),
        1: (True, "finished 1 call"),
    }
    assert found.frames["looks"]["earlier_source"].to_list() == [
        f"first/nccl_trace_rank_{rank}{ending}" for rank in (0, 1)
    ]


@pytest.mark.parametrize("ending", ["", ".json"])
def test_who_is_in_the_same_call_both_times_stands(tmp_path, ending):
    dumps = [dump(20, 19), dump(19)]
    found = written(tmp_path, both(dumps, dumps, ending), APART)
    assert told(found) == {
        0: (False, "in all_reduce SeqNum=20 both times"),
        1: (False, "made no call after all_reduce SeqNum=19"),
    }
    assert found.frames["looks"]["apart_ms"].to_list() == [3000, 3000]


def test_without_time_between_them_two_looks_prove_nothing(tmp_path):
    dumps = [dump(20, 19), dump(19)]
    found = written(tmp_path, both(dumps, dumps), {"second": 1_800_000_100.5})
    assert {moved for moved, _ in told(found).values()} == {None}


def test_the_same_file_collected_twice_is_one_look(tmp_path):
    times = ("2026-11-20T10-15-00", "2026-11-20T10-15-30")
    dumps = {f"{t}/rank_{r}": dump(20, 19) for t in times for r in (0, 1)}
    found = written(tmp_path, dumps)
    assert found.frames["looks"].is_empty()
    assert outline_kinds(found) == {"2"}


def test_the_calls_of_others_tell_how_long_a_rank_stood(tmp_path):
    found = written(tmp_path, both([dump(20), dump(20, 19)], [dump(60), dump(20, 19)]))
    assert told(found)[1] == (False, "in all_reduce SeqNum=20 both times")
    assert found.frames["looks"]["apart_ms"].to_list() == [3900, 3900]


def test_equal_bytes_without_a_sign_of_two_moments_are_a_copy(tmp_path):
    names = [f"{f}/rank_{rank}" for f in ("fr", "fr_copy") for rank in (0, 1)]
    dumps = dict(zip(names, [dump(20, 19), dump(19)] * 2, strict=True))
    found = written(tmp_path, dumps, {"fr_copy": 1_800_000_500})
    assert found.frames["looks"].is_empty()
    kinds = found.frames["sources"]["kind"].to_list()
    assert sorted(kinds)[:2] == ["a copy, flight_recorder_pickle"] * 2


def test_names_tell_when_looks_were_taken(tmp_path):
    times = ("2026-11-20T10-15-00", "2026-11-20T10-15-30")
    dumps = {f"{t}/rank_{r}": dump(20, 19) for t in times for r in (0, 1)}
    found = written(tmp_path, dumps, {times[1]: 1_800_000_100.5})
    assert found.frames["looks"]["apart_ms"].to_list() == [30_000, 30_000]
    assert found.frames["looks"]["moved"].to_list() == [False, False]


def test_the_newest_calls_come_last_whatever_names_and_files_say(tmp_path):
    dumps = both([dump(60), dump(60)], [dump(20), dump(20)])
    found = written(tmp_path, dumps, APART)
    assert set(found.frames["looks"]["earlier_source"].str.head(6)) == {"second"}
    assert set(found.frames["collectives"]["source"].str.head(5)) == {"first"}


@pytest.mark.parametrize("ring", [20, 2000])
def test_rings_that_share_no_call_any_more_are_looks_if_they_go_on(tmp_path, ring):
    first, second = [dump(500, ring=ring)] * 2, [dump(900, ring=ring)] * 2
    found = written(tmp_path, both(first, second))
    assert told(found) == dict.fromkeys((0, 1), (True, "made 400 more calls"))


@pytest.mark.parametrize(("pause_s", "looks"), [(120, 2), (86_400, 0)])
def test_a_job_may_pause_between_them_but_not_for_long(tmp_path, pause_s, looks):
    """As for a checkpoint; a day later it is another job's."""
    later = T0 + pause_s * 10**9
    first, second = [dump(500, ring=20)] * 2, [dump(540, ring=20, start=later)] * 2
    found = written(tmp_path, both(first, second))
    assert found.frames["looks"].height == looks


def test_an_earlier_jobs_ring_is_no_look(tmp_path):
    a_day = 86_400 * 10**9
    first, second = [dump(50)] * 2, [dump(900, ring=100, start=T0 + a_day)] * 2
    found = written(tmp_path, both(first, second))
    assert found.frames["looks"].is_empty()


def test_dumps_of_active_calls_say_by_leaving_one_out_that_it_ended(tmp_path):
    first = [dump(20, 18, only_active=True), dump(20, 18, only_active=True)]
    second = [dump(20, 19, only_active=True), dump(40, only_active=True)]
    found = written(tmp_path, both(first, second))
    assert told(found) == {
        0: (True, "finished 1 call"),
        1: (True, "counted more calls in pg_status"),
    }


def test_who_dumped_nothing_stands_by_what_pg_status_counts(tmp_path):
    blank = dump(20, only_active=True)
    dumps = [dump(21, 20, only_active=True), blank]
    found = written(tmp_path, both(dumps, dumps), APART)
    assert told(found)[1] == (False, "no call in either dump")


def test_a_rank_that_is_in_the_first_look_only_keeps_it(tmp_path):
    dumps = both([dump(20), dump(20)], [dump(60)])
    found = written(tmp_path, dumps)
    assert told(found)[1] == (None, "in the earlier look only")
    assert sorted(found.frames["collectives"]["rank"].unique()) == [0, 1]
    assert any(
        "no later snapshot of rank 1" in note.text for note in found.report.notes
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("nccl_trace_rank_{}.old", "nccl_trace_rank_{}"),
        ("rank_{}_20261120T101500", "rank_{}_20261120T101530"),
        ("rank_{}", "rank_{}.json"),
    ],
)
def test_both_looks_may_lie_in_one_directory(tmp_path, first, second):
    dumps = {first.format(rank): dump(20) for rank in (0, 1)}
    dumps |= {second.format(rank): dump(25) for rank in (0, 1)}
    found = written(tmp_path, dumps)
    assert told(found) == dict.fromkeys((0, 1), (True, "made 5 more calls"))
    assert found.frames["collectives"]["seq"].max() == 25
    assert not found.report.others


def test_what_a_cut_dump_has_lost_was_not_made_after_it(jobs, tmp_path):
    folder = shutil.copytree(jobs / "torch-healthy-two-looks/evidence", tmp_path / "e")
    later = folder / "second" / "nccl_trace_rank_1"
    later.write_bytes(later.read_bytes()[:4000])
    made = told(analyze([str(folder)]))
    assert made.pop(1) == (None, "the other dump is cut")
    assert {moved for moved, _ in made.values()} == {True}


def test_of_three_looks_the_last_two_count(tmp_path):
    names = {"1": dump(20, 19), "2": dump(40, 39), "3": dump(40, 39)}
    dumps = {f"{n}/rank_{r}": made for n, made in names.items() for r in (0, 1)}
    found = written(
        tmp_path, dumps, {"1": 1_800_000_100, "2": 1_800_000_110, "3": 1_800_000_120}
    )
    assert found.frames["looks"]["moved"].to_list() == [False, False]
    assert outline_kinds(found) == {"3"}


def outline_kinds(found):
    dumps = call_summary.dumps(found.frames)
    return set(dumps["source"].str.head(1))


def test_two_jobs_in_two_folders_are_no_looks(tmp_path):
    later = T0 + 10**9
    dumps = both(
        [dump(20, 19), dump(19)], [dump(20, 19, start=later), dump(19, start=later)]
    )
    found = written(tmp_path, dumps)
    assert found.frames["looks"].is_empty()
    assert len(found.report.others) == 1


def test_two_jobs_that_were_looked_at_twice_are_two_jobs(tmp_path):
    later = T0 + 10**9
    dumps = {}
    for job, start in (("a", T0), ("b", later)):
        for name, made in both(
            [dump(20, 19, start=start)] * 2, [dump(30, 29, start=start)] * 2
        ).items():
            dumps[f"{job}/{name}"] = made
    found = written(tmp_path, dumps)
    assert len(found.report.others) == 1
    assert set(found.frames["looks"]["earlier_source"].str.head(7)) == {"b/first"}


def test_looks_at_a_pipeline_are_one_job(tmp_path):
    def talk(made):
        told = dump(made)
        for number in (5, 6, 7):  # messages have the number of the collective before
            told["entries"][number] |= {
                "is_p2p": True,
                "profiling_name": "nccl:send 0->1",
                "collective_seq_id": 5,
                "p2p_seq_id": number,
            }
        return told

    found = written(tmp_path, both([talk(10)] * 2, [talk(20)] * 2))
    assert told(found)[0] == (True, "made 10 more calls")
    assert not found.report.others


def test_one_look_costs_nothing_and_changes_nothing():
    frames = Frames(
        {"sources": tables.rows("sources", [{"kind": "log", "source": "a"}])}
    )
    assert two_looks.last(frames) is frames


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_a_real_job_at_work_has_moved(jobs, order):
    folder = jobs / "torch-healthy-two-looks" / "evidence"
    found = analyze([str(folder / look) for look in order])
    assert found.ranked.outcome == "no-failure"
    assert found.frames["looks"]["moved"].to_list() == [True] * 4
    assert found.frames["entries"].height == found.frames["collectives"].height
    assert set(found.frames["collectives"]["source"].str.head(6)) == {"second"}


def test_in_a_real_hang_all_stand_and_dumps_are_byte_for_byte_the_same(jobs):
    found = analyze([str(jobs / "torch-missing-rank-two-looks" / "evidence")])
    assert found.frames["sources"]["sha256"].n_unique() == 4
    made = found.frames["looks"]
    assert made["moved"].to_list() == [False] * 4
    assert made["what"][0] == "in all_reduce SeqNum=5 both times"
    assert made["what"][2] == "made no call after all_reduce SeqNum=4"


def test_a_real_hang_copied_without_its_times_proves_nothing(jobs, tmp_path):
    folder = jobs / "torch-missing-rank-two-looks" / "evidence"
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    for number, file in enumerate((tmp_path / "copy").rglob("nccl*")):
        os.utime(file, ns=(10**18, 19 * 10**17 + number * 10**6))
    found = analyze([str(tmp_path / "copy")])
    assert found.frames["looks"]["moved"].to_list() == [None] * 4


SPIED = """Process 410{rank:02}: python3 -u train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 410{rank:02} (idle): "MainThread"
    {where}
    main (train.py:110)
"""


def test_py_spy_shows_who_moved(jobs, tmp_path):
    where = {
        "first": [
            "all_reduce (torch/distributed/distributed_c10d.py:3)",
            "save (train.py:7)",
        ],
        "second": ["step (train.py:20)", "save (train.py:7)"],
    }
    for look, places in where.items():
        for rank, place in enumerate(places):
            file = tmp_path / look / "gpu0001" / f"rank_{rank}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(SPIED.format(rank=rank, where=place))
            os.utime(file, (APART[look], APART[look]))
    found = analyze([str(tmp_path)])
    made = found.frames["looks"].filter(pl.col("kind") == "stack")
    assert made["what"].to_list() == [
        "now in step (train.py:20)",
        "in save (train.py:7) both times",
    ]
    assert made["moved"].to_list() == [True, False]
    assert set(found.frames.message("stacks.pyspy")["source"].str.head(6)) == {"second"}


def position(seconds, enqueued, completed):
    return {
        "rank": 3,
        "pg_id": "0",
        "last_enqueued": enqueued,
        "last_completed": completed,
        "t": T0 + seconds * 10**9,
        "source": "log",
        "line": seconds + 1,
    }


@pytest.mark.parametrize(
    ("lines", "moved"),
    [
        ([(0, 10, 9), (5, 30, 29)], [True]),
        ([(0, 10, 9), (5, 10, 9)], []),
        ([(0, 10, 9), (5, 12, 9)], []),  # the host runs ahead of its GPU
        ([(0, 10, None), (5, 12, None)], [True]),
    ],
)
def test_a_watchdog_that_counts_more_calls_has_moved(lines, moved):
    told = tables.rows("positions", [position(*line) for line in lines])
    made = two_looks.last(Frames({"positions": told}))["looks"]
    assert made["moved"].to_list() == moved


def reported(behind, most=6):
    """Return what ncclras says of four ranks, of which rank 1 is behind."""
    return (
        "  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n"
        "      2          2            1          4        4\n"
        "#0-0 (726018ea639731a2) MISMATCH\n"
        "  Communicator ranks have different AllReduce operation counts\n"
        f"  3 ranks have launched up to operation {most}\n"
        f"  Rank 1 has launched up to operation {behind} -- GPU 1 managed by process 26 "
        "on node 10.0.0.1\n"
    )


@pytest.mark.parametrize(
    ("later", "seconds", "expected"),
    [
        (reported(8, 9), 0, (True, "launched 4 more AllReduce")),
        (reported(4), 60, (False, "launched 4 AllReduce both times")),
        (reported(4) + "\n", 0.5, (None, "launched 4 AllReduce both times")),
    ],
)
def test_a_rank_that_ras_counts_twice(tmp_path, later, seconds, expected):
    for name, text, time in (("1.txt", reported(4), 0), ("2.txt", later, seconds)):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1_800_000_000 + time, 1_800_000_000 + time))
    found = analyze([str(tmp_path)])
    assert told(found) == {1: expected}
    # both reports stay: who reads them compares them
    assert found.frames.message("ncclras.mismatch")["source"].n_unique() == 2
