"""Who wrote a line that names no global rank, and what no host is called."""

import json

import pytest

from log_lines import traceback, verdict

FAILED = (
    "{prefix}Process group watchdog thread terminated with exception: CUDA error: an "
    "illegal memory access was encountered\n"
)
HEAD = "[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:2000] "


@pytest.mark.parametrize("before", [HEAD, "  what():  ", "RuntimeError: ", ""])
def test_the_rank_of_the_default_group_is_the_global_one(analyzed, before):
    line = FAILED.format(prefix=f"{before}[PG ID 0 PG GUID 0(default_pg) Rank 2] ")
    assert verdict(analyzed({"job.log": line})) == ("crashed-rank", (2,), ())


@pytest.mark.parametrize("before", [HEAD, "  what():  "])
def test_a_rank_within_another_group_is_called_so(analyzed, before):
    line = FAILED.format(prefix=f"{before}[PG ID 2 PG GUID 5(tp) Rank 1] ")
    found = analyzed({"job.log": line}).ranked.verdict
    assert found.ranks == ()
    assert found.headline.startswith("group rank 1 of tp ended")


@pytest.mark.parametrize("name", ["localhost", "localhost.localdomain", "127.0.0.1"])
def test_localhost_is_nowhere(analyzed, name):
    header = f"{name}:4121:4302 [3] NCCL INFO Using network Socket\n"
    text = header + traceback(3, "ValueError: bad batch")
    analysis = analyzed({"rank_3.log": text})
    assert verdict(analysis) == ("crashed-rank", (3,), ())
    assert name not in analysis.ranked.verdict.explanation


def test_a_host_with_a_name_of_its_own_is_told(analyzed):
    header = "localhost-7:4121:4302 [3] NCCL INFO Using network Socket\n"
    told = analyzed({"rank_3.log": header + traceback(3, "ValueError: bad batch")})
    assert verdict(told) == ("crashed-rank", (3,), ("localhost-7",))


def test_the_host_of_a_process_without_a_rank_is_told(analyzed):
    line = "gpu0007:4121:4302 [3] include/alloc.h:103 NCCL WARN Cuda failure 'out of "
    found = analyzed({"job.log": f"{line}memory'\n"}).ranked.verdict
    assert found.hosts == ("gpu0007",)
    assert "(" not in found.headline


def test_a_rank_within_a_group_that_a_dump_lists_is_a_global_one(analyzed):
    line = FAILED.format(prefix=f"{HEAD}[PG ID 2 PG GUID 5(tp) Rank 1] ")
    group = {"name": "5", "desc": "tp", "ranks": "[4, 6]"}
    dump = {"version": "2.9", "pg_config": {"5": group}, "entries": []}
    files = {"job.log": line, "dump/nccl_trace_rank_4.json": json.dumps(dump)}
    assert verdict(analyzed(files))[:2] == ("crashed-rank", (6,))


def test_a_task_of_a_launcher_is_called_so(analyzed):
    """It is a rank only where each task starts one."""
    raised = traceback(0, "KeyError: 'a'").replace("[rank0]: ", "")
    lines = [f"{task}: step 4\n" for task in range(4)]
    lines += [f"2: {line}\n" for line in raised.splitlines()]
    found = analyzed({"job.log": "".join(lines)}).ranked.verdict
    assert found.ranks == ()
    assert found.headline == "task 2 ended: KeyError: 'a'"
