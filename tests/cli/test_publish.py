"""The commands that write something to hand out: report, export, attach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ncclforensics.report.formats.as_json import decode

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = str(JOBS / "torch-missing-rank-two-hosts" / "evidence")


def test_report_writes_by_suffix_and_says_so(run, tmp_path):
    for suffix, head in ((".md", b"**`missing-rank`"), (".html", b"<!doctype html>")):
        file = tmp_path / f"incident{suffix}"
        code, out, err = run("report", HUNG, "-o", file)
        size = file.stat().st_size
        assert (code, out) == (0, "")
        assert err == f"ncclforensics: Wrote {file} ({size:,} bytes)\n"
        assert file.read_bytes().startswith(head)


def test_report_overwrites_only_when_asked(run, tmp_path):
    file = tmp_path / "a.json"
    file.write_text("mine")
    code, _, err = run("report", HUNG, "-o", file)
    assert code == 2
    assert err == f"ncclforensics: error: {file} exists; --force overwrites it\n"
    assert file.read_text() == "mine"
    assert run("report", HUNG, "-o", file, "--force", "-q") == (0, "", "")
    assert decode(file.read_bytes()).verdict.culprits.ranks == (6,)


def test_a_saved_report_becomes_a_page(run, tmp_path):
    saved, page = tmp_path / "a.json", tmp_path / "a.html"
    run("report", HUNG, "-o", saved)
    assert run("report", saved, "-o", page)[0] == 0
    assert "What missing-rank means" in page.read_text()


def test_nothing_recognised_still_writes_a_report(run, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff" * 40)
    code, _, _ = run("report", tmp_path / "photo.jpg", "-o", tmp_path / "a.html")
    assert code == 3
    assert "nothing here was recognised" in (tmp_path / "a.html").read_text()


def test_redaction_reaches_every_command(run, tmp_path, monkeypatch):
    asked = ("--redact", "hosts,paths", "-q")
    run("report", HUNG, "-o", tmp_path / "a.json", *asked)
    shown = run("analyze", HUNG, "-f", "json", *asked)[1]
    assert shown == (tmp_path / "a.json").read_text()
    run("export", HUNG, "-o", tmp_path / "frames", *asked)
    run("export", HUNG, "-o", tmp_path, "-f", "trace", *asked)
    run("export", HUNG, "-o", tmp_path, "-f", "openmetrics", *asked)
    plan = run("attach", "acme/train#1", HUNG, "--dry-run", *asked)[1]
    host = json.loads((tmp_path / "a.json").read_text())["verdict"]["culprits"]["hosts"]
    assert host == ["host2"]
    ranks = pl.read_parquet(tmp_path / "frames" / "ranks.parquet").sort("rank")
    assert ranks["host"].to_list() == ["host1"] * 4 + ["host2"] * 4
    assert "rank 6 on host2" in plan
    assert json.loads(plan)["redacted"] == "hosts, paths"
    assert '{host="host2"}' in (tmp_path / "ncclforensics.prom").read_text()
    trace = (tmp_path / "trace.json").read_text()
    assert "rank 6 on host2" in trace
    for text in (plan, trace):
        assert "gpu000" not in text


def test_export_writes_a_file_per_frame(run, tmp_path):
    code, out, err = run("export", HUNG, "-o", tmp_path / "new" / "csv", "-f", "csv")
    assert (code, out) == (0, "")
    files = sorted((tmp_path / "new" / "csv").iterdir())
    assert err.count("Wrote ") == len(files) > 10
    assert run("export", HUNG, "-o", tmp_path / "new" / "csv", "-f", "csv")[0] == 2
    assert run("export", HUNG, "-o", files[0])[0] == 2


def test_export_of_a_saved_report_says_what_it_lacks(run, tmp_path):
    run("report", HUNG, "-o", tmp_path / "a.json")
    code, _, err = run("export", tmp_path / "a.json", "-o", tmp_path / "x")
    assert code == 2
    assert "a saved report has no frames; give the evidence itself" in err
    assert not (tmp_path / "x").exists()


def test_attach_sends_nothing_unasked(run):
    code, out, err = run("attach", "acme/train#1", HUNG)
    assert (code, err) == (0, "")
    assert out.startswith("would post  to GitHub, acme/train#1 (https://github.com/")
    assert out.endswith("Send it with --yes.\n")


def test_attach_without_a_token_is_code_4(run, monkeypatch):
    monkeypatch.setenv("PATH", "")
    code, out, err = run("attach", "acme/train#1", HUNG, "--yes")
    assert (code, out) == (4, "")
    assert err.startswith("ncclforensics: error: no token for GitHub: set GH_TOKEN")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("what", HUNG), "is not a ticket"),
        (("acme/train#1", HUNG, "--yes", "--dry-run"), "give one of them"),
        (("acme/train#1", HUNG, "--redact", "all,names"), "no 'names'; it takes"),
        (("acme/train#1", "nowhere"), "nowhere"),
    ],
)
def test_mistakes_are_usage(run, args, told):
    code, out, err = run("attach", *args)
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize(
    "args",
    [
        ["report", HUNG, "-o", "/dev/null/x.md"],
        ["attach", "acme/train#1", HUNG, "--dry-run"],
        ["attach", "--help"],
    ],
)
def test_only_sending_imports_an_http_library(args):
    code = (
        "import sys; from ncclforensics.cli.commands import main\n"
        f"main({args})\n"
        "sys.exit(' '.join({'httpx2', 'torch'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
