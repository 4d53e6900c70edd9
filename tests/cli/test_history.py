"""`history`, and the options that keep and remember, as a person runs them."""

import json
import re

import pytest

from kept_incidents import incident
from ncclforensics.history import store


@pytest.fixture
def lost(jobs):
    return jobs / "slurm-node-lost" / "evidence"


@pytest.fixture
def fleet(tmp_path):
    """A store in which gpu0003 of eight hosts is bad."""
    nodes = tuple(f"gpu{n:04}" for n in range(1, 9))
    for n in range(30):
        host = "gpu0003" if n % 3 else nodes[n % 8]
        told = {"hosts": (host,), "nodes": nodes, "job": str(n), "user": "alice"}
        store.keep(tmp_path / "fleet", incident(2 * n, **told))
    return tmp_path / "fleet"


def test_what_is_kept_is_told_the_next_time(run, lost, tmp_path, monkeypatch):
    root = tmp_path / "store"
    args = ("analyze", lost, "--keep", root, "--no-cache")
    code, first, err = run(*args, "--tag", "job=7", "--tag", "image=24.07")
    assert (code, err) == (0, "")
    assert "\nbefore" not in first
    # the same again is no earlier one, and is no second incident
    assert run(*args)[1] == first
    assert run("history", root)[1].startswith("1 incident in 1 analysis kept\n")
    kept = store.load(root)
    assert kept.rows("class", "path").rows() == [("node-lost", str(lost))]
    (file,) = [f for f in (root / "new").iterdir() if b'"job":"7"' in f.read_bytes()]
    other = (
        file.read_bytes()
        .replace(b'"id":"', b'"id":"f')
        .replace(b'"evidence":"', b'"evidence":"f')
    )
    found = json.loads(other)
    found |= {"id": found["id"][:16], "evidence": found["evidence"][:16]}
    found["t"] -= 86_400 * 10**9
    (root / "new" / "0123456789abcdef.json").write_text(json.dumps(found))
    monkeypatch.setenv("NCCLFORENSICS_STORE", str(root))
    again = run("analyze", lost, "--no-cache")[1]
    lines = [line for line in again.splitlines() if line not in first.splitlines()]
    assert lines[:2] == [
        "before   second loss of gpu0002 in 30 days",
        "         the same failure 2 times since 2026-11-22, first in job 7 with 24.07",
    ]
    told = json.loads(run("analyze", lost, "-f", "json", "--no-cache")[1])
    assert told["earlier"][0] == "second loss of gpu0002 in 30 days"
    assert store.load(root).rows("id").height == 2  # --store keeps nothing


def test_redacted_at_the_door_and_found_by_its_real_name(run, lost, tmp_path):
    root = tmp_path / "store"
    run("analyze", lost, "--keep", root, "--redact", "all", "--no-cache", "-q")
    kept = b"".join(file.read_bytes() for file in root.rglob("*.json"))
    assert b"gpu0002" not in kept
    assert str(lost).encode() not in kept
    assert run("history", root, "--node", "gpu0002")[1].startswith(
        "gpu0002 is named by 1"
    )


def test_the_answer_is_given_even_where_nothing_can_be_kept(run, lost, tmp_path):
    (tmp_path / "mine.txt").write_text("")
    code, out, err = run("analyze", lost, "--keep", tmp_path, "--no-cache")
    assert (code, out[:10]) == (0, "node-lost:")
    assert "not kept: " in err
    assert run("analyze", lost, "--tag", "color=red")[::2] == (
        2,
        "ncclforensics: error: --tag: 'color=red' is none of job=, user=, image=\n",
    )


def test_who_stands_out_fits_a_screen(run, fleet):
    code, out, err = run("history", fleet, "--by", "host")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "30 incidents by host, 8 hosts"
    assert lines[2].split() == [
        *("!", "gpu0003", "21", "21", "3.75", "30", "700", "2026-02-28"),
        *("gpu-fault", "21"),
    ]
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "! stands out: 1 of 8" in out


def test_a_node_its_incidents_and_the_mark(run, fleet):
    out = run("history", fleet, "--node", "gpu0003")[1]
    assert "it stands out: 21 faults of a node, 3.75 expected, chance" in out
    assert len(out.splitlines()) <= 24
    assert re.search(r"^2026-02-28 00:00  gpu-fault  job 29$", out, re.MULTILINE)
    assert run("history", fleet, "--node", "x")[1] == "x: no incident names it\n"


def test_json_has_all_rows(run, fleet):
    for args, many in (((), 30), (("--by", "host"), 8), (("--node", "gpu0003"), 21)):
        told = json.loads(run("history", fleet, "-f", "json", *args)[1])
        assert len(told.get("rows") or told["shown"]) == many
    assert told["count"]["standing"]["stands_out"] is True
    assert told["shown"][0] == told["shown"][0] | {
        "t": "2026-02-28T00:00:00.000000Z",
        "class": "gpu-fault",
        "hosts": ["gpu0003"],
        "job": "29",
    }


def test_a_folder_of_saved_reports_is_a_store(run, lost, tmp_path):
    run("report", lost, "-o", tmp_path / "a.json", "--no-cache")
    (tmp_path / "notes.json").write_text("{}")
    out = run("history", tmp_path)[1]
    assert out.startswith("1 incident in 1 analysis kept\n2026-11-23 00:07  node-lost")


def test_metrics_of_a_store(run, fleet, tmp_path):
    out = run("history", fleet, "-f", "openmetrics")[1]
    assert 'ncclforensics_history_incidents{class="gpu-fault"} 30\n' in out
    assert 'ncclforensics_history_host_stands_out{host="gpu0003"} 1\n' in out
    assert out.endswith("# EOF\n")
    run("export", fleet, "-f", "openmetrics", "-o", tmp_path / "prom", "-q")
    assert (tmp_path / "prom" / "ncclforensics_history.prom").read_text() == out


def test_pruning_says_how_much(run, fleet):
    told = run("history", fleet, "--prune", "2026-01-15")[2]
    assert told.startswith("ncclforensics: Removed 7 records of before 2026-01-15")
    assert run("history", fleet)[1].startswith("23 incidents in 23 analyses kept")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((), "which store?"),
        (("{store}", "--by", "host", "--node", "x"), "different questions"),
        (("{store}/none",), "is no folder"),
        (("{store}", "--prune", "soon"), "is not a time"),
    ],
)
def test_mistakes_are_one_line(run, fleet, args, why):
    code, out, err = run("history", *(a.format(store=fleet) for a in args))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err
