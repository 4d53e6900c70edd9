"""JSON records that a program logs itself: rank, level, step and traceback are keys."""

import json

import pytest

from log_lines import verdict

TIMED_OUT = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 10, in <module>\n'
    "    dist.all_reduce(x)\n"
    '  File "/x/torch/distributed/distributed_c10d.py", line 2800, in all_reduce\n'
    "    work.wait()\n"
    "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
    "600000ms for recv operation to complete"
)


def at(minute, second):
    return f"2026-11-20T10:{minute:02}:{second:02}Z"


def structlog(rank, t, text, level="info", **more):
    return {"rank": rank, "timestamp": t, "level": level, "event": text, **more}


def plain(rank, t, text, level="info", **more):
    told = {"asctime": t, "levelname": level.upper(), "message": text}
    return {**told, "global_rank": rank, **more}


def loguru(rank, t, text, level="info", **more):
    extra = {"rank": rank, **{k: v for k, v in more.items() if k != "exc_info"}}
    text = text + "\n" + more["exc_info"] if "exc_info" in more else text
    told = {"message": text, "extra": extra, "level": {"name": level.upper()}}
    return {"text": f"{t} | {text}", "record": {**told, "time": {"repr": t}}}


def hung(record, last="saving the shard", level="info"):
    """A job in which rank 2 says a last word of its own and the others time out."""
    lines = [record(r, at(0, s), "trained", step=s) for s in range(3) for r in range(4)]
    lines.append(record(2, at(0, 4), last, level))
    said = [
        record(r, at(10, 5), "step failed", "error", exc_info=TIMED_OUT)
        for r in (0, 1, 3)
    ]
    return "".join(json.dumps(one) + "\n" for one in [*lines, *said])


@pytest.mark.parametrize("record", [structlog, plain, loguru])
def test_the_missing_rank_and_its_last_line_are_named(analyzed, record):
    found = analyzed({"train.jsonl": hung(record)})
    assert verdict(found)[:2] == ("missing-rank", (2,))
    last = found.report.last_line
    assert (last.line, last.text) == (13, "saving the shard")


def test_steps_are_counted_from_their_key(analyzed):
    events = analyzed({"train.jsonl": hung(structlog)}).frames.message(
        "python.step.equals"
    )
    assert sorted(events["step"]) == sorted([0, 1, 2] * 4)
    assert {*events["rank"]} == {0, 1, 2, 3}


def test_an_error_of_a_record_forbids_that_all_is_well(analyzed):
    well = [structlog(r, at(0, s), "trained", step=s) for s in range(3) for r in (0, 1)]
    bad = structlog(1, at(1, 0), "the bucket says no", "error")
    for lines, outcome in ((well, "no-failure"), ([*well, bad], "inconclusive")):
        text = "".join(json.dumps(one) + "\n" for one in lines)
        assert analyzed({"a.jsonl": text}).report.outcome == outcome
    after = structlog(1, at(1, 9), "trained", step=3)
    text = "".join(json.dumps(one) + "\n" for one in [*well, bad, after])
    assert analyzed({"a.jsonl": text}).report.outcome == "no-failure"


def test_the_level_of_a_shipper_is_not_the_programs(analyzed):
    lines = [{"severity": "ERROR", "textPayload": f"step {s}"} for s in range(3)]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    events = analyzed({"a.jsonl": text}).frames["events"]
    assert events["message"].to_list() == ["python.step"] * 3
    assert events["level"].drop_nulls().is_empty()


def test_a_rank_in_a_list_of_results_is_no_process(analyzed):
    lines = [{"query": "x", "results": [{"rank": 1}]}, {"ranks": 8, "message": "up"}]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    assert analyzed({"a.jsonl": text}).frames["ranks"].is_empty()


@pytest.mark.parametrize("key", ["exc", "error_stack", "exc_info"])
def test_a_traceback_counts_under_any_key_of_a_record(analyzed, key):
    def record(rank, t, text, level="info", **more):
        raised = {key: more["exc_info"]} if "exc_info" in more else {}
        return {"rank": rank, "ts": t, "level": level, "msg": text, **raised}

    raised = analyzed({"train.log": hung(record)}).frames.message("python.traceback")
    assert sorted(raised["rank"]) == [0, 1, 3]


def test_what_only_tells_of_a_traceback_is_none(analyzed):
    told = {"rank": 0, "msg": "see Traceback below", "note": "no Traceback here"}
    found = analyzed({"train.log": json.dumps(told) + "\n"})
    assert found.frames.message("python.traceback").is_empty()
