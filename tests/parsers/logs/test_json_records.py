"""Lines that a log shipper wrapped in JSON count as if they stood there bare."""

import json

import polars as pl
import pytest

from log_lines import timeout, traceback, verdict
from nccl_lines import found
from ncclforensics.parsers.logs import json_records

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
AT = "2026-11-20T10:00:00.250000000Z"
# as each shipper lays out a record; rendered from their documentation
SHIPPERS = {
    "docker": {"log": XID + "\n", "stream": "stderr", "time": AT},
    "journald": {
        "__REALTIME_TIMESTAMP": "1763632800250000",
        "_HOSTNAME": "gpu0007",
        "MESSAGE": XID,
    },
    "fluent-bit": {
        "date": 1763632800.25,
        "log": XID,
        "kubernetes": {"host": "gpu0007", "pod_name": "trainer-worker-1"},
    },
    "loki": {"labels": {"node": "gpu0007"}, "line": XID, "timestamp": AT},
    "stackdriver": {"textPayload": XID, "timestamp": AT},
    "datadog": {"message": XID, "host": "gpu0007", "timestamp": 1763632800250},
}


def frame(*raw):
    return pl.DataFrame({"line": range(1, len(raw) + 1), "raw": raw})


@pytest.mark.parametrize("shipper", SHIPPERS)
def test_the_line_the_host_and_the_time_are_taken_out(analyzed, shipper):
    record = SHIPPERS[shipper]
    found = analyzed({"kernel.jsonl": json.dumps(record) + "\n"}).ranked.verdict
    assert found.slug == "gpu-fault"
    told = "gpu0007" in json.dumps(record)
    assert found.hosts == (("gpu0007",) if told else ())
    assert found.first_seen is not None
    assert XID in found.explanation


def test_a_whole_job_reads_the_same_in_records(analyzed):
    files = {
        "rank_0.log": traceback(0, "ValueError: bad batch"),
        "rank_1.log": timeout(1),
    }
    bare = verdict(analyzed(files))
    shipped = {
        name: "".join(
            json.dumps({"log": f"{line}\n", "stream": "stderr", "time": AT}) + "\n"
            for line in text.splitlines()
        )
        for name, text in files.items()
    }
    assert verdict(analyzed(shipped)) == bare
    assert bare[0] == "crashed-rank"


@pytest.mark.parametrize(
    "raw",
    [
        '{"log": "cut off in the mid',
        '{"loss": 2.5, "step": 10}',
        '{"message": {"message": "of an error file"}}',
        '{"message": ["a", "b"]}',
        "{'loss': 2.5}",
    ],
)
def test_what_holds_no_line_stays_as_it_is(raw):
    told = json_records.unwrapped(frame(raw, "bare"))
    assert told["raw"].to_list() == [raw, "bare"]


def test_a_time_in_nanoseconds_keeps_all_of_them():
    told = json_records.unwrapped(frame('{"line": "x", "ts": "1763632800250000001"}'))
    assert told["raw"][0] == "x"
    assert told["told_t"][0] == "2025-11-20T10:00:00.250000001Z"
    others = [c for c in json_records.COLUMNS if c != "told_t"]
    assert told.select(others).row(0) == (None,) * len(others)


def test_a_line_with_colours_is_bytes_in_the_journal():
    spelled = list(f"\x1b[31m{XID}".encode())
    record = {"_HOSTNAME": "gpu0007", "MESSAGE": spelled}
    told = json_records.unwrapped(frame(json.dumps(record), '{"MESSAGE":[1,2,3000]}'))
    assert told["raw"].to_list() == [f"\x1b[31m{XID}", '{"MESSAGE":[1,2,3000]}']


def test_a_health_event_has_its_message_and_its_node(analyzed):
    """NVSentinel's: `msg` tells only what its own module does."""
    event = {
        "message": "GPU had an uncontained error (XID 95) Drain the GPU",
        "nodeName": "gpu0007",
    }
    told = {"msg": "Handling event", "event": {"HealthEvent": event}}
    (fault,) = found(analyzed({"events.log": json.dumps(told) + "\n"}), "gpu-fault")
    assert fault.hosts == ("gpu0007",)
