"""When it stopped, how long nobody knew, and what everybody printed because of it."""

import json

import pytest

from ncclforensics.report.formats.as_json import decode, render_json
from ncclforensics.report.formats.by_name import render
from ncclforensics.report.formats.html import render_html
from ncclforensics.report.formats.markdown import render_markdown

TIMEOUT = (
    "[rank{rank}]:[E1120 10:30:0{second}.833621509 ProcessGroupNCCL.cpp:632] [Rank "
    "{rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, "
    "OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=1800000) ran for "
    "1800000 milliseconds before timing out.\n"
)
DATED = "2026-11-20 09:00:00,000 INFO start\n2026-11-20 09:00:01,000 step 1 loss 2.0\n"


@pytest.fixture
def hidden(analyzed):
    """Six of eight ranks time out in one call, half an hour after it began."""
    return analyzed(
        {
            f"rank_{rank}.log": DATED + TIMEOUT.format(rank=rank, second=rank % 3)
            for rank in (0, 1, 2, 5, 6, 7)
        }
    ).report


def test_the_job_stopped_when_the_first_call_began_to_wait(hidden):
    onset = hidden.onset
    assert onset.stopped.startswith("2026-11-20T10:00:00")
    assert onset.noticed.startswith("2026-11-20T10:30:00")
    assert onset.hidden_seconds == 1800


def test_an_open_call_of_dumps_that_are_too_old_is_no_beginning(analyzed):
    entry = {
        "record_id": 1,
        "collective_seq_id": 1,
        "process_group": ["0", "default_pg"],
        "profiling_name": "nccl:all_reduce",
        "state": "scheduled",
        "time_created_ns": 1_767_322_800 * 10**9,
    }
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    dump = json.dumps({"version": "2.9", "pg_config": config, "entries": [entry]})
    logs = {"rank_1.log": DATED + TIMEOUT.format(rank=1, second=0)}
    report = analyzed({"nccl_trace_rank_0.json": dump, **logs}).report
    assert report.onset.stopped.startswith("2026-11-20T10:00:00")
    assert any("days older" in note.text for note in report.notes)


def test_what_it_cost_is_said_in_hours_of_all_ranks(hidden):
    assert hidden.onset.ranks == hidden.job.ranks_seen == 6
    assert hidden.onset.gpu_hours == "3.00"
    assert "noticed 30 min later: 6 GPUs x 30 min = 3.00 GPU hours" in render(
        hidden, "text", width=100
    )


def test_echoes_are_counted_and_folded(hidden):
    (seen,) = [s for s in hidden.chain if s.text.startswith("c10d.watchdog.timeout")]
    assert (seen.part, seen.count, seen.ranks_folded) == ("seen", 6, "0-2,5-7")
    assert render(hidden, "text").count("6 x c10d.watchdog.timeout") == 1


def test_every_format_shows_the_chain_and_json_brings_it_back(hidden):
    assert decode(render_json(hidden).encode()) == hidden
    assert "6 x c10d.watchdog.timeout" in render_markdown(hidden)
    # the page tells the words of the first line
    assert "6 x Watchdog caught collective operation timeout" in render_html(hidden)


def test_a_report_without_chain_and_onset_is_still_read(hidden):
    import json

    old = json.loads(render_json(hidden))
    del old["chain"], old["onset"]
    for finding in old["findings"]:
        del finding["explained_by"]
    assert decode(json.dumps(old).encode()).chain == ()


def test_a_healthy_job_has_neither(analyzed):
    report = analyzed({"rank_0.log": DATED}).report
    assert (report.chain, report.onset) == ((), None)


def _dump(rank, times, *, states):
    entries = [
        {
            "record_id": n,
            "collective_seq_id": n,
            "process_group": ["0", "default_pg"],
            "profiling_name": "nccl:all_reduce",
            "state": state,
            "time_created_ns": time,
        }
        for n, (time, state) in enumerate(zip(times, states, strict=True), 1)
    ]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return json.dumps({"version": "2.9", "pg_config": config, "entries": entries})


STEPS = "".join(
    f"2026-11-20 10:00:{second:02d},000 INFO step {step} loss 2.0\n"
    for step, second in ((1, 1), (2, 5), (3, 9))
)
BEGAN = 1_795_168_800 * 10**9  # 2026-11-20 10:00:00


@pytest.mark.parametrize(
    ("steps", "stopped"),
    [(STEPS, "2026-11-20T10:00:09"), ("", "2026-11-20T10:00:00")],
)
def test_it_did_not_stop_before_a_later_step(analyzed, steps, stopped):
    waits = _dump(0, [BEGAN + 2 * 10**9], states=["scheduled"])
    timeout = TIMEOUT.format(rank=0, second=0)
    logs = {"rank_0.log": DATED + steps + timeout, "nccl_trace_rank_0.json": waits}
    onset = analyzed(logs).report.onset
    assert onset.stopped.startswith(stopped)
    assert onset.hidden_seconds is None or onset.hidden_seconds >= 0


def test_a_step_that_is_told_again_is_no_sign_of_life(analyzed):
    waits = _dump(0, [BEGAN + 10 * 10**9], states=["scheduled"])
    again = "2026-11-20 10:20:00,000 INFO step 3 loss 2.0\n"
    timeout = TIMEOUT.format(rank=0, second=0)
    logs = {
        "rank_0.log": DATED + STEPS + again + timeout,
        "nccl_trace_rank_0.json": waits,
    }
    onset = analyzed(logs).report.onset
    assert onset.stopped.startswith("2026-11-20T10:00")
