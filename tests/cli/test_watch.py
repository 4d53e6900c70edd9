"""`watch` from the command line: what it prints, where, and how it exits."""

import json
import os
import shlex
import time
from dataclasses import dataclass

import pytest

from ncclforensics.cli import commands
from ncclforensics.cli.watch import Duration

TIMEOUT = (
    "[E1120 11:31:53.000000 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
    " Timeout(ms)=600000) ran for 600069 milliseconds before timing out.\n"
)


@dataclass
class Done:
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def watch(capfd):
    def run(*args):
        code = commands.main(["watch", *map(str, args)])
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def logs(tmp_path):
    """The log of a job that stepped each second and was last written `age` ago."""

    def made(age=0.0, more=""):
        now = time.time() - age
        lines = [
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - 300 + n))
            + f" step {n} loss 0.5\n"
            for n in range(300)
        ]
        file = tmp_path / "logs" / "rank_0.log"
        file.parent.mkdir()
        file.write_text("".join(lines) + more)
        os.utime(file, (now, now))
        return file.parent

    return made


def test_a_job_that_goes_on_is_told_in_one_line_and_exits_with_0(watch, logs):
    done = watch(logs(), "--once")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "still there: 1 rank · step 299" in done.stderr


def test_a_job_that_stood_before_anybody_watched_is_found_standing(watch, logs):
    done = watch(logs(age=7200), "--once")
    assert done.exit_code == 1
    assert "stopped: 1 rank · step 299 · silent for 2 h" in done.stderr
    # a job that stands is not called healthy, also where nothing shows why
    assert done.stdout.startswith("inconclusive: stopped: 1 rank")
    assert "py-spy dump" in done.stdout
    assert done.stdout


def test_patience_decides_instead_of_the_pauses(watch, logs):
    folder = logs(age=600)
    assert watch(folder, "--once").exit_code == 0
    assert watch(folder, "--once", "--patience", "5m").exit_code == 1


def test_a_failure_that_is_in_the_log_is_reported(watch, logs):
    done = watch(logs(age=90, more=TIMEOUT), "--once", "-q")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.count("\n") <= 2


def test_exec_gets_the_report_by_a_path_and_no_text_of_a_log(watch, logs, tmp_path):
    folder = logs(age=90, more=TIMEOUT + "'; touch owned; echo '$(touch owned)\n")
    out = tmp_path / "copy.json"
    copy = f'cp "$NCCLFORENSICS_REPORT" {shlex.quote(str(out))}; echo $NCCLFORENSICS_WORD > {shlex.quote(str(tmp_path / "word"))}; exit 3'
    done = watch(folder, "--once", "--exec", copy)
    assert done.exit_code == 1
    assert json.loads(out.read_bytes())["outcome"] == "inconclusive"
    assert (tmp_path / "word").read_text() == "failed\n"
    assert "exited with 3" in done.stderr
    assert not list(tmp_path.rglob("owned"))


def test_attach_prints_a_plan_and_sends_nothing_without_yes(watch, logs, monkeypatch):
    monkeypatch.setattr(
        "ncclforensics.tickets.send.send", lambda *_: pytest.fail("it was sent")
    )
    done = watch(
        *(logs(age=90, more=TIMEOUT), "--once", "--attach", "acme/train#12", "-q")
    )
    assert done.exit_code == 1
    assert "acme/train" in done.stdout


@pytest.mark.parametrize(
    "args", [("logs", "--yes"), ("-",), ("logs", "--for", "soon"), ()]
)
def test_a_mistake_in_the_call_is_told(watch, args):
    assert watch(*args).exit_code == 2


def test_a_folder_cannot_bring_a_command_along(watch, tmp_path, monkeypatch):
    (tmp_path / "ncclforensics.toml").write_text('[watch]\nexec = "touch owned"\n')
    monkeypatch.chdir(tmp_path)
    done = watch(tmp_path, "--once")
    assert done.exit_code == 2
    assert "only taken on the command line" in done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("15 min", 900),
        ("2h", 7200),
        ("1d", 86400),
    ],
)
def test_durations_are_written_as_people_do(text, seconds):
    assert Duration().convert(text, None, None) == seconds
