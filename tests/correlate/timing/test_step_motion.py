"""Steps that go on after a look at the stacks show that its waits ended."""

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
