"""The trace: balanced, in order, named tracks, arrows that Perfetto can bind.

The rules are those of Perfetto's importer for JSON: an asynchronous event needs a
process and an id of that process, one track's slices nest, an end has the name of its
begin, an arrow starts once, before it ends, and process 0 is not a program's.
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from known_jobs import known
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.report.formats.trace import render_trace


def track(event):
    """Return the track of an event, which no other process has."""
    assert "id" not in event
    return event["pid"], event["id2"]["local"]


def accepted(data):
    """Check a trace by the importer's rules; return its events."""
    events = json.loads(data)["traceEvents"]
    open_slices, begun, ended = defaultdict(list), {}, set()
    for event in sorted(events, key=lambda e: e.get("ts", -1)):
        assert event["pid"] > 0
        if event["ph"] == "M":
            continue
        assert event["cat"]
        assert event["ts"] >= 0
        stack = open_slices[track(event)]
        if event["ph"] == "b":
            stack.append(event["name"])
        elif event["ph"] == "e":
            assert stack.pop() == event["name"]
        else:
            assert event["ph"] == "n"
        if event.get("flow_out"):
            assert event["bind_id"] not in begun
            begun[event["bind_id"]] = event
        if event.get("flow_in"):
            assert event["bind_id"] in begun
            ended.add(event["bind_id"])
    assert not any(open_slices.values())
    assert ended == begun.keys()
    return events


@pytest.mark.parametrize(
    "slug",
    [
        "torch-missing-rank-two-hosts",
        "torch-chain",
        "torch-call-order-deadlock",
        "torch-unmatched-p2p",
        "torch-healthy-pipeline",
        "torch-missing-rank-logs-only",
        "nccl-docker0",
    ],
)
def test_every_trace_is_accepted(slug):
    found = known(slug)
    data, _ = render_trace(found.frames)
    accepted(data)
    assert data == render_trace(found.frames)[0]


def test_ranks_are_processes_and_groups_are_tracks():
    found = known("torch-chain")
    events = accepted(render_trace(found.frames)[0])
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {f"rank {rank} on gpu0001" for rank in range(4)}
    first = {}
    for event in events:
        if event["ph"] != "M":
            first.setdefault(track(event), event["name"])
    assert set(first.values()) == {
        "process group 0 (default_pg)",
        "process group 1 (TP)",
        "process group 2 (PP)",
        "process group 3 (DP)",
        "not there: all_reduce SeqNum=3",
    }


def test_arrows_lead_to_the_rank_that_is_waited_for():
    found = known("torch-missing-rank-two-hosts")
    events = accepted(render_trace(found.frames)[0])
    heads = [e for e in events if e.get("flow_in")]
    assert {e["pid"] for e in heads} == {7}
    assert {e["pid"] - 1 for e in events if e.get("flow_out")} == {0, 1, 2, 3, 4, 5, 7}
    (begin,) = [e for e in events if e["name"].startswith("not there")][:1]
    assert begin["name"] == "not there: all_reduce SeqNum=5"


def calls(*rows):
    return Frames({"collectives": tables.rows("collectives", rows)})


def call(seq, start, end, **more):
    return {
        "rank": 0,
        "pg": "0",
        "seq": seq,
        "op": "all_reduce",
        "is_p2p": False,
        "state": "completed",
        "retired": True,
        "t": start,
        "t_completed": end,
        "source": "dump",
        "line": seq,
        **more,
    }


def test_overlapping_calls_take_tracks_of_their_own():
    ms = 1_000_000
    frames = calls(call(1, 0, 9 * ms), call(2, 1 * ms, 5 * ms), call(3, 9 * ms, 9 * ms))
    events = accepted(render_trace(frames)[0])
    ids = {e["name"]: track(e) for e in events if e["ph"] == "b"}
    one, two, three = (ids[f"all_reduce SeqNum={i}"] for i in (1, 2, 3))
    assert one != two
    assert three == one


def test_a_call_that_never_ended_lasts_to_the_end():
    frames = calls(call(1, 0, None, retired=False, state="scheduled"))
    events = accepted(render_trace(frames)[0])
    (begin,) = [e for e in events if e["ph"] == "b"]
    (end,) = [e for e in events if e["ph"] == "e"]
    assert begin["args"]["end"] == "never finished"
    assert end["ts"] == 1_000_000


def test_what_is_cut_is_said_and_the_last_calls_stay():
    frames = calls(*(call(i, i, i + 1) for i in range(100)), call(5, None, None))
    data, left = render_trace(frames, most=10)
    assert left == ("1 call without a time", "90 earlier calls of 100")
    assert json.loads(data)["otherData"]["left out"] == list(left)
    events = accepted(data)
    assert [e["name"] for e in events if e["ph"] == "b"][-1] == "all_reduce SeqNum=99"


def test_evidence_without_calls_is_a_trace_without_events():
    data, left = render_trace(Frames())
    assert accepted(data) == []
    assert left == ()
