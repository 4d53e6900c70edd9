"""The commands where the disk is full, streams are closed or somebody presses Ctrl-C."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from known_jobs import known
from ncclforensics.report.formats.as_json import render_json

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
HUNG = JOBS / "torch-missing-rank-two-hosts" / "evidence"
COMMAND = [sys.executable, "-m", "ncclforensics"]


def run(*args, **options):
    return subprocess.run(
        [*COMMAND, *map(str, args)], capture_output=True, text=True, **options
    )


def limited():
    """Let no file grow beyond a kilobyte: the kernel refuses as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


# nor would the bytecode of a module fit, and half of it would break later imports
LIMITED = {
    "preexec_fn": limited,
    "env": os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
}


@pytest.mark.parametrize("suffix", [".html", ".md", ".json", ".zip"])
def test_a_report_that_does_not_fit_leaves_the_old_one_and_no_part(
    tmp_path_factory, tmp_path, suffix
):
    evidence = HUNG
    if suffix != ".zip":  # it holds frames, which a saved report has not
        evidence = tmp_path_factory.mktemp("saved") / "saved.json"
        evidence.write_text(render_json(known(HUNG.parent.name).report), "utf-8")
    file = tmp_path / f"report{suffix}"
    file.write_text("the old one")
    done = run("report", evidence, "-q", "--force", "-o", file, **LIMITED)
    assert done.returncode == 2
    assert done.stderr == (
        f"ncclforensics: error: {file} cannot be written: File too large\n"
    )
    assert [kept.name for kept in tmp_path.iterdir()] == [file.name]
    assert file.read_text() == "the old one"


def test_an_export_that_does_not_fit_is_said(tmp_path):
    done = run("export", HUNG, "-q", "-o", tmp_path / "frames", **LIMITED)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cannot be written: File too large" in done.stderr
    assert not list((tmp_path / "frames").glob(".*"))


@pytest.mark.skipif(not shutil.which("unshare"), reason="no namespaces here")
def test_a_full_disk_under_the_report_and_under_the_archive(tmp_path):
    packed = shutil.make_archive(str(tmp_path / "evidence"), "tar", HUNG)
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=16k none {disk} || exit 99\n"
        f"export TMPDIR={disk}\n"
        f"{' '.join(COMMAND)} analyze -f json {packed} > {tmp_path}/answer.json; echo $?\n"
        f"rm -rf {disk}/*; {' '.join(COMMAND)} report {HUNG} -q -o {disk}/a.html\n"
        f"echo $?; ls -A {disk}"
    )
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("no mount is allowed here")
    assert done.stdout.split() == ["0", "2"]
    assert "a.html cannot be written: No space left on device" in done.stderr
    assert "No space left on device" in (tmp_path / "answer.json").read_text()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_crash(closed):
    command = f"{' '.join(COMMAND)} analyze {HUNG} {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (">&-" in closed.replace("2>&-", "")) == (done.stdout == "")


def test_a_reader_that_stops_early_costs_nothing():
    command = f"{' '.join(COMMAND)} analyze -f json {HUNG} | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("{", "")


def reading(process: subprocess.Popen[str]) -> None:
    """Wait until a process is past its start: it has loaded polars."""
    while process.poll() is None:
        if "polars" in Path(f"/proc/{process.pid}/maps").read_text():
            return
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc here")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 0.6])
def test_ctrl_c_ends_with_130_one_line_and_nothing_left(tmp_path, jobs, delay):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    output = tmp_path / "report.html"
    process = subprocess.Popen(
        [*COMMAND, "report", HUNG, "-q", "--jobs", str(jobs), "-o", output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    reading(process)
    time.sleep(delay)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to all of them
    _, errors = process.communicate()
    left = sorted(file.name for file in tmp_path.iterdir())
    if process.returncode == 0:  # it was done before the signal came
        assert (errors, left) == ("", ["report.html"])
        return
    # a shell says 130 of both; the second is Python's own where C code ran the module
    assert process.returncode in (130, -signal.SIGINT)
    assert "interrupted" in errors
    assert errors.strip().count("\n") == 0
    assert errors.strip().startswith("ncclforensics: ")
    assert [name for name in left if name != "report.html"] == []
