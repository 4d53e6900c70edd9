"""Numbers that are read as sizes: what is counted is what is there, never up to them.

Under a cap on memory, which ends a test that would take the machine's.
"""

from __future__ import annotations

import pickle

import pytest

from ncclforensics import analysis
from ncclforensics.parsers import limits
from ncclforensics.parsers.flight_recorder.memory import ceiling
from ncclforensics.report.timeline.build import build

START = (
    "gpu{n}:7{n}:7{n} [0] NCCL INFO ncclCommInitRank comm 0x5{n} rank {n} nranks {size} "
    "cudaDev 0 nvmlDev 0 busId 7000 commId 0x1 - Init {phase}\n"
)
READY = (
    "[0]<stderr>:One or more tensors were submitted to be reduced by subset of ranks "
    "Stalled ops: allreduce.a [ready ranks: 0, {size}]\n"
)
HUGE = [limits.MAX_RANK, 999_999_999, 2**63]


def analyzed(path):
    with ceiling(1 << 31):
        found = analysis.analyze([str(path)])
        build(found.frames, found.report)
    return found


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("phase", ["START", "COMPLETE"])
def test_a_communicator_of_a_size_that_no_job_has(tmp_path, size, phase):
    for n in range(4):
        told = START.format(n=n, size=size if n else 4, phase=phase)
        (tmp_path / f"rank_{n}.log").write_text(told)
    found = analyzed(tmp_path)
    assert found.report.verdict is None
    notes = " ".join(note.text for note in found.report.notes)
    assert ("nranks beyond" in notes) == (limits.MAX_RANK <= size < 2**63)


@pytest.mark.parametrize("size", HUGE)
def test_horovods_list_of_ranks_with_one_that_no_job_has(tmp_path, size):
    (tmp_path / "rank_0.log").write_text(READY.format(size=size) * 50)
    assert analyzed(tmp_path).report is not None


@pytest.mark.parametrize("number", [10**9, 2**40, 2**62])
def test_a_call_whose_number_lies_far_behind_the_others(tmp_path, number):
    ranks = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    for rank in range(2):
        entries = [
            {
                "record_id": seq,
                "pg_id": 0,
                "process_group": ("0", "default_pg"),
                "collective_seq_id": number if seq == 3 and rank else seq,
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1_758_610_505_592_849_034 + seq,
                "state": "completed" if seq < 3 else "scheduled",
            }
            for seq in range(4)
        ]
        told = {"version": "2.10", "pg_config": ranks, "entries": entries}
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(told))
    assert analyzed(tmp_path).frames["collectives"].height == 8


TIMEOUT = (
    "[rank{n}]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:1709] [PG ID 0 PG GUID 0"
    "(default_pg) Rank {n}] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)={ms}) ran for {ms} "
    "milliseconds before timing out.\n"
)
KERNEL = (
    "2025-06-02T18:30:00.000001+00:00 node1 kernel: NVRM: Xid (PCI:0000:55:00): 79\n"
)


@pytest.mark.parametrize("ms", [limits.MAX_MS, 2**63 - 1, 2**63])
def test_a_call_that_ran_for_longer_than_there_are_times(tmp_path, ms):
    for n in range(2):
        told = TIMEOUT.format(n=n, ms=ms if n else 600_000)
        (tmp_path / f"rank_{n}.log").write_text(told)
    (tmp_path / "kern.log").write_text(KERNEL)
    notes = [note.text for note in analyzed(tmp_path).report.notes]
    assert any("ran_ms beyond" in text for text in notes) == (ms < 2**63)


def test_a_process_of_which_there_are_many_lines(tmp_path):
    lines = [START.format(n=0, size=2, phase="COMPLETE") for _ in range(9000)]
    (tmp_path / "job.log").write_text("".join(lines))
    assert analyzed(tmp_path).frames["ranks"].height == 1
