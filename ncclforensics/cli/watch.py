"""The `watch` command: follows a running job, and analyzes it once it has stopped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import console, keeping, options, publish, stdout
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.bundle import Paper
    from ncclforensics.watch.follow import End

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
DURATION = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(UNITS)})")
STACKS = "a stack of each rank while it stands: py-spy dump"
DUMPS = "the Flight Recorder dump of each rank"
AGAIN_S = 10
REPORT, WORD = "NCCLFORENSICS_REPORT", "NCCLFORENSICS_WORD"


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit such as 90s, 15m, 2h or 1d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        found = DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration like 90s, 15m or 2h", param, ctx)
        return float(found[1]) * UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Answered:
    """An analysis made while watching; partial if reading it was `interrupted`."""

    made: Paper
    interrupted: bool

    @property
    def outcome(self) -> str:
        """The outcome that the report has."""
        return self.made.report.outcome

    @property
    def is_sure(self) -> bool:
        """Whether the verdict is more than a possibility."""
        verdict = self.made.report.verdict
        return verdict is not None and verdict.confidence != "possible"


class Time:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait so long."""
        time.sleep(seconds)


@click.command(
    epilog=options.examples(
        "ncclforensics watch ./logs",
        "ncclforensics watch ./logs ./dumps --for 2h",
        "ncclforensics watch ./logs --collect ./hang      # on a node of the job",
        "ncclforensics watch ./logs --patience 15m --attach OPS-417 --yes",
        "ncclforensics watch ./logs --exec 'cp \"$NCCLFORENSICS_REPORT\" /shared/'",
        "ncclforensics watch ./logs --once -q || notify-send 'the job stopped'",
    )
)
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.option(
    "--for",
    "span",
    metavar="DURATION",
    type=Duration(),
    help="End after so long, like 90s, 15m or 2h.",
)
@click.option(
    "--patience",
    metavar="DURATION",
    type=Duration(),
    help="Call it stopped after such a silence, whatever its pauses say.",
)
@click.option(
    "--collect",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="In a silence, collect this node into DIR, and analyze that as well.",
)
@click.option(
    "--attach", "ticket", metavar="TICKET", help="Then post to it, as `attach` does."
)
@click.option("--yes", is_flag=True, help="Send it; without, the plan is printed.")
@click.option(
    "--exec", "command", metavar="CMD", help="Then run this in a shell; see above."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the first two lines only.")
@keeping.remembers
@options.redacts
@options.decides
@options.reading
@options.color
@options.no_progress
@options.paths
def watch(
    once: bool,
    span: float | None,
    patience: float | None,
    folder: Path | None,
    ticket: str | None,
    yes: bool,
    command: str | None,
    quiet: bool,
    color: stdout.Colour,
    no_progress: bool,
    paths: Sequence[str],
    **asked: Any,
) -> int:
    """Follow a running job, and say when it has stopped.

    It reads what is new in logs and dumps below PATH, which need not be there yet. A
    job has stopped once it was silent for longer than its own pauses explain, or once a
    line reads as a failure and the analysis confirms it. Then it prints the report and
    exits with 1; with 0 if the job ended well, or with --once or --for if it goes on.

    How long is long is learned from the pauses of the job, also from the time stamps of
    what was written before. Before the first step, only failing lines end the wait. A
    silence that is unusual, but no proof, is said on stderr.

    With --collect, an unusual silence makes it look twice at the job's processes on
    this node, as `collect --again` does. Where that proves a standstill, it does not
    wait any longer; DIR keeps the last look.

    CMD gets the path of the report as JSON in NCCLFORENSICS_REPORT, and `stopped` or
    `failed` in NCCLFORENSICS_WORD. Put it in single quotes and these variables in
    double ones. Nothing from a log becomes a part of CMD.
    """
    from ncclforensics.watch.follow import Follow
    from ncclforensics.watch.job import Job
    from ncclforensics.watch.positions import Positions
    from ncclforensics.watch.tails import Tails
    from ncclforensics.watch.writers import have_ranks, writers

    if yes and not ticket:
        raise UsageError("--yes sends what --attach TICKET plans: give both")
    if folder is not None and folder.exists():
        raise UsageError(f"{folder} is there already: --collect makes it")
    hushed = no_progress or quiet
    memory = keeping.memory(asked, paths, asked["redact"])
    tails, clock = Tails(paths), Time()

    def analyze() -> Answered:
        there = [path for path in paths if path not in tails.waited_for]
        made = publish.made_of(there, **asked, hushed=hushed, memory=memory)
        return Answered(*made)

    def collect() -> Answered:
        assert folder is not None
        say(f"looks twice at the processes of the job, {AGAIN_S} s apart")
        pids = writers(tails.followed) or []
        _collect(folder, pids if have_ranks(pids) else [])
        there = [path for path in paths if path not in tails.waited_for]
        given = [*there, str(folder)]
        return Answered(*publish.made_of(given, **asked, hushed=hushed))

    def say(text: str) -> None:
        console.wipe()
        if not quiet:
            console.say(text)

    for path in tails.waited_for:
        console.warn(f"{path} is not there yet")
    began = clock.now()
    until = began if once else None if span is None else began + span
    show = (lambda _: None) if hushed else console.status
    follow = Follow(
        *(tails, Job(began, patience), clock, analyze, say, show, writers),
        Positions(),
        until,
        None if folder is None else collect,
    )
    end = follow.run()
    say(end.text)
    end = _open(end)
    if end.answer is None:
        return ExitCode.OK
    _print(end.answer.made, paths, color, quiet=quiet)
    if end.answer.interrupted:
        return ExitCode.INTERRUPTED
    if end.word.value == "ended" and end.answer.outcome == "no-failure":
        memory.kept()
        return ExitCode.OK
    if command is not None:
        _run(command, end)
    sent = None
    if ticket is not None:
        how = publish.Posting(ticket, yes, redact=asked["redact"])
        sent = publish.posted(end.answer.made, how, hushed=hushed, quiet=quiet)
    memory.kept(sent)
    return ExitCode.FAILURE_NAMED


def _open(end: End[Answered]) -> End[Answered]:
    """Return an end whose report does not call a job healthy that stands still."""
    if end.word.value != "stopped" or end.answer is None:
        return end
    # importing these takes as long as starting; not every command needs them
    from msgspec import structs

    from ncclforensics.report.contract import Clue

    report = end.answer.made.report
    if report.outcome != "no-failure":
        return end
    clue = Clue(end.text, None, "", "", (), "", (), (STACKS, DUMPS))
    told = structs.replace(report, outcome="inconclusive", clue=clue)
    made = replace(end.answer.made, report=told)
    return replace(end, answer=replace(end.answer, made=made))


def _collect(folder: Path, pids: Sequence[int]) -> None:
    """Look twice at the job's processes on this node; an earlier look goes.

    These are `pids`, or all that have a rank where it is not known who writes. In a
    process of its own: it forks children, which no program with threads should.
    """
    if folder.exists():
        shutil.rmtree(folder)
    words = ["-m", "ncclforensics.collect", "-o", str(folder), "--again", str(AGAIN_S)]
    words += [part for pid in pids for part in ("--pid", str(pid))]
    done = subprocess.run([sys.executable, *words, "-q"], check=False)
    if done.returncode:
        console.warn(f"--collect: it exited with {done.returncode}")
    folder.mkdir(exist_ok=True)


def _print(
    made: Paper, paths: Sequence[str], color: stdout.Colour, *, quiet: bool
) -> None:
    """Print the report as `analyze` does."""
    from ncclforensics.report.formats.by_name import render
    from ncclforensics.report.given import Given

    text = render(
        made.report,
        "text",
        width=stdout.width(),
        colour=stdout.coloured(color),
        quiet=quiet,
        given=Given(tuple(paths)),
    )
    stdout.write(text)


def _run(command: str, end: End[Answered]) -> None:
    """Run the user's command with the report's path in its environment.

    What the report holds reaches it by a file alone, so no line of a log is ever read
    by the shell.
    """
    from ncclforensics.engine.interrupts import scratch_folder

    if end.answer is None:
        return
    with scratch_folder() as folder:
        report = Path(folder) / "report.json"
        report.write_bytes(end.answer.made.render(".json")[0])
        given = os.environ | {REPORT: str(report), WORD: end.word.value}
        # stdout has the report alone
        done = subprocess.run(
            command, shell=True, env=given, stdout=sys.stderr, check=False
        )
    if done.returncode:
        console.warn(f"--exec: the command exited with {done.returncode}")
