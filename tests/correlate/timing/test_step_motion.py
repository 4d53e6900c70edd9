"""Steps that go on after a look at the stacks show that its waits ended."""

import json
import os
from datetime import UTC, datetime

import pytest

from ncclforensics.analysis import analyze

T0 = datetime(2026, 3, 19, 18, 0, tzinfo=UTC).timestamp()
PACE = 2  # seconds


def stack(rank):
    return (
        f"Process {70 + rank}: python train.py (RANK={rank} LOCAL_RANK={rank})\n"
        "Python v3.11.9 (/usr/bin/python3.11)\n\n"
        f'Thread {70 + rank} (idle): "MainThread"\n'
        "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n"
        "    step (train.py:20)\n    <module> (train.py:35)\n"
    )


def log(steps, ahead=0):
    """A line for each second of `steps`, by a clock that is `ahead`."""
    lines = []
    for number, at in steps:
        stamp = datetime.fromtimestamp(T0 + at + ahead, UTC)
        lines.append(f"{stamp:%Y-%m-%d %H:%M:%S},000 [0] step {number} loss 0.25\n")
    return "".join(lines)


def outcome(folder, looks, steps, ahead=0):
    """Analyze stacks of four ranks taken at the seconds `looks`, and one log."""
    files = {
        f"spy{n}/n0_rank{rank}_pid{70 + rank}.txt": (stack(rank), T0 + at)
        for n, at in enumerate(looks)
        for rank in range(4)
    }
    files["train.log"] = (log(steps, ahead), T0 + steps[-1][1])
    for name, (text, at) in files.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        os.utime(file, (at, at))
    return analyze([str(folder)]).report.outcome


def paced(first, last):
    return [(n, n * PACE) for n in range(first, last)]


def test_steps_after_the_only_look_prove_motion(tmp_path):
    assert outcome(tmp_path, [41], paced(0, 60)) == "no-failure"


def test_steps_between_two_looks_prove_motion(tmp_path):
    assert outcome(tmp_path, [41, 71.5], paced(0, 36)) == "no-failure"


@pytest.mark.parametrize(
    ("steps", "ahead"),
    [
        (paced(0, 20), 0),
        (paced(0, 60), 28_800),
        (paced(0, 20) + [(n, 900 + n * PACE) for n in range(20, 40)], 0),
        (paced(0, 20) + [(n, 44 + n * PACE) for n in range(10)], 0),
    ],
    ids=["no later step", "another zone", "a restart", "steps from the start"],
)
def test_other_steps_prove_nothing(tmp_path, steps, ahead):
    assert outcome(tmp_path, [41], steps, ahead) != "no-failure"


START = "NCCL version 2.21.5+cuda12.4\n"
PAUSED = paced(0, 20), [(n, 900 + n * PACE) for n in range(20, 40)]


@pytest.mark.parametrize(("again", "well"), [("", True), (START, False)])
def test_after_a_long_pause_the_start_of_the_program_tells_a_restart(
    tmp_path, again, well
):
    assert outcome(tmp_path, [41], [*PAUSED[0], *PAUSED[1]]) != "no-failure"
    file = tmp_path / "train.log"
    at = file.stat().st_mtime
    file.write_text(START + log(PAUSED[0]) + again + log(PAUSED[1]))
    os.utime(file, (at, at))
    assert (analyze([str(tmp_path)]).report.outcome == "no-failure") is well


def test_steps_without_a_time_were_made_after_the_last_line_that_has_one(tmp_path):
    """A checkpoint was saved 99 s after the look, and steps go on below that line."""
    assert outcome(tmp_path, [41], paced(0, 20)) != "no-failure"
    stamp = f"{datetime.fromtimestamp(T0 + 140, UTC):%Y-%m-%d %H:%M:%S},000"
    later = "".join(f"step {n} loss 0.25\n" for n in range(20, 24))
    saved = f"{stamp} INFO saved checkpoint to /ckpt/20\n"
    file = tmp_path / "train.log"
    file.write_text(START + log(paced(0, 20)) + saved + later)
    os.utime(file, (T0 + 150, T0 + 150))
    assert analyze([str(tmp_path)]).report.outcome == "no-failure"


def dump(rank, at, timeout_ms):
    """A dump of one rank: an all_reduce that is open since `at`."""
    entry = {
        "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"],
        "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
        "profiling_name": "gloo:all_reduce", "time_created_ns": int(at * 1e9),
        "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"],
        "output_dtypes": ["Float"], "state": "scheduled", "retired": False,
        "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0,
        "timeout_ms": timeout_ms, "is_p2p": False, "frames": [],
    }  # fmt: skip
    group = {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}
    told = {"version": "2.10", "pg_config": {"0": group}, "entries": [entry]}
    return json.dumps(told)


@pytest.mark.parametrize(
    ("last", "well"), [(12, True), (4, False), (7, False)], ids=["on", "no", "clock"]
)
def test_a_rank_that_logs_steps_after_its_open_call_did_not_stand(tmp_path, last, well):
    """Its file has the age of a timeout, but rank 0 went on for four more steps.

    Steps in the first half of that time are of a clock that is ahead.
    """
    for rank in range(2):
        file = tmp_path / f"fr_trace_{rank}.json"
        file.write_text(dump(rank, T0 + 8 + rank / 1e3, 10_000))
        os.utime(file, (T0 + 19, T0 + 19))
        text = log(paced(0, last))
        (tmp_path / f"rank{rank}.log").write_text(text)
        end = T0 + PACE * (last - 1)
        os.utime(tmp_path / f"rank{rank}.log", (end, end))
    assert (analyze([str(tmp_path)]).report.outcome == "no-failure") is well


@pytest.mark.parametrize(("last", "well"), [(30, True), (20, False)])
def test_steps_after_dumps_that_were_asked_for_prove_motion(tmp_path, last, well):
    """Whose steps they are is not said; rank 0 waits since a while, rank 1 does not."""
    for rank, since in enumerate((T0 + 2, T0 + 41)):
        told = json.loads(dump(rank, since, 600_000))
        told["entries"][0]["state"] = ("scheduled", "completed")[rank]
        file = tmp_path / f"fr_trace_{rank}.json"
        file.write_text(json.dumps(told))
        os.utime(file, (T0 + 41, T0 + 41))
    (tmp_path / "train.log").write_text(log(paced(0, last)).replace("[0] ", ""))
    end = T0 + PACE * (last - 1)
    os.utime(tmp_path / "train.log", (end, end))
    assert (analyze([str(tmp_path)]).report.outcome == "no-failure") is well


@pytest.mark.parametrize(
    ("after", "well"), [(1, "no-failure"), (30, "inconclusive"), (3, "inconclusive")]
)
def test_a_look_within_a_usual_pause_after_a_step_shows_no_stop(tmp_path, after, well):
    """Rank 0 saves at the look, as it does now and then, and the others wait for it."""
    steps = paced(0, 20)
    files = {f"spy/rank{r}.txt": stack(r) for r in range(1, 4)}
    files["spy/rank0.txt"] = stack(0).replace(
        "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step",
        "    save (torch/serialization.py:966)\n    save",
    )
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        os.utime(file, (T0 + steps[-1][1] + after,) * 2)
    (tmp_path / "train.log").write_text(log(steps))
    os.utime(tmp_path / "train.log", (T0 + steps[-1][1],) * 2)
    found = analyze([str(tmp_path)]).report
    assert (found.outcome == "no-failure") == (well == "no-failure")
