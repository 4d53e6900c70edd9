"""The commands. Each imports what it needs when it runs, so that `--help` is instant.

A command returns its exit code. `main` maps exceptions to exit codes: an error that a
user can cause is one line on stderr, anything else is a bug with its traceback.
"""

from __future__ import annotations

import copy
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import (
    analyzed,
    before,
    cache,
    collect,
    compare,
    console,
    explain,
    history,
    ingest,
    keeping,
    options,
    publish,
    serving,
    stdout,
    watch,
)
from ncclforensics.cli.options import (
    classes,
    examples,
    kept,
    processes,
    span,
)
from ncclforensics.engine import interrupts
from ncclforensics.model.errors import ExitCode, NcclForensicsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import Report
    from ncclforensics.report.formats.by_name import Format
    from ncclforensics.report.given import Given

# New objects between two garbage collections. A command needs nearly all of its objects
# until its end, and traversing them repeatedly takes a twentieth of a short run.
GARBAGE = 100_000

FORMATS = ("text", "json", "jsonl", "markdown", "github")


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        stdout.write(console.versions() + "\n")
        context.exit()


ENDS = """\b
Exit codes:
  0    the analysis ran to its end, whatever it found
  1    a failure was named, and --exit-code was given; `watch`: the job stopped;
       `preflight`: a check failed
  2    a usage error: an option, a path, a file that cannot be written
  3    nothing was recognised as evidence
  4    posting to a ticket failed
  70   a bug of this tool
  130  interrupted

\b
Completion of commands, options and classes, in a shell's startup file:
  bash  eval "$(_NCCLFORENSICS_COMPLETE=bash_source ncclforensics)"
  zsh   eval "$(_NCCLFORENSICS_COMPLETE=zsh_source ncclforensics)"  # below compinit
  fish  _NCCLFORENSICS_COMPLETE=fish_source ncclforensics | source

`ncclforensics COMMAND --help` tells the rest, with examples."""


@click.group(
    no_args_is_help=True,
    epilog=ENDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 88},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the versions that a bug report needs.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Settings, instead of the nearest ncclforensics.toml; /dev/null for none.",
)
@click.pass_context
def cli(context: click.Context, config: Path | None) -> None:
    """Name the rank, the host and the collective that hung or killed a training job.

    Give it what is left of the job: NCCL_DEBUG logs, torchrun or Slurm output, Flight
    Recorder dumps, kernel logs, in any mixture, also in archives. Nothing is sent
    anywhere, and no GPU and no torch are needed.

    \b
    ncclforensics analyze ./logs                   what failed, and whose fault it was
    ncclforensics timeline ./logs                  look for yourself
    ncclforensics report ./logs -o incident.html   to hand out
    """
    from ncclforensics.cli import settings

    if said := settings.apply(context, config):
        console.say(said)


for command in (
    *(publish.report, publish.export, publish.attach, ingest.ingest, compare.diff),
    collect.collect,
    *(explain.explain, explain.classes, explain.schema, explain.grammars),
    *(serving.serve, serving.mcp, cache.cache, watch.watch, history.history),
    *(before.preflight, before.prepare),
):
    cli.add_command(command)


@cli.command(
    epilog=examples(
        "ncclforensics analyze ./logs",
        "ncclforensics analyze 'run-7/*.log' /var/log/kern.log -v",
        "ncclforensics analyze logs.tar.gz -f json | jq .verdict.culprits",
        "kubectl logs job/train | ncclforensics analyze -",
        "ncclforensics analyze ./logs --since 2026-01-02T03:00Z",
        "ncclforensics analyze ./logs --redact all > to-the-vendor.txt",
        "ncclforensics analyze ./logs --keep /shared/incidents --tag job=$SLURM_JOB_ID",
        "ncclforensics analyze ./logs --exit-code -q || notify-send 'the job failed'",
    )
)
@click.option(
    *("-f", "--format", "form"),
    type=click.Choice(FORMATS),
    default="text",
    help="What to print; github are annotations of a workflow.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print the first two lines only.")
@click.option("-v", "--verbose", is_flag=True, help="Print whole lists.")
@click.option("--rank", metavar="RANKS", help="Show what concerns ranks, as 0-3,617.")
@click.option("--pg", metavar="NAME", help="Show what concerns a process group.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 where a failure is named.")
@keeping.remembers
@options.decides
@options.redacts
@options.reading
@options.color
@options.no_progress
@options.paths
def analyze(
    form: Format,
    exit_code: bool,
    rank: str | None,
    pg: str | None,
    color: stdout.Colour,
    quiet: bool,
    verbose: bool,
    no_progress: bool,
    redact: str | None,
    **asked: Any,
) -> int:
    """Say what failed, on which rank and host, and what to do.

    PATH is a directory, a file, a glob, a tar or zip archive (also one inside another),
    "-" for stdin, or a saved JSON report. What a file is, its content says.

    The answer begins with two lines of at most 80 columns that stand alone in a ticket.
    Every claim has its file:line. Where the cause is not in the evidence, nobody is
    accused, and the answer says which file or setting would have told.
    """
    from ncclforensics.model.folding import unfold_ranks
    from ncclforensics.report.formats.by_name import render
    from ncclforensics.report.given import NOTHING_GIVEN
    from ncclforensics.report.rank_filter import narrow

    try:
        ranks = frozenset[int]() if rank is None else unfold_ranks(rank)
    except ValueError as caught:
        raise UsageError(f"--rank: {caught}") from caught
    hushed = no_progress or quiet
    memory = keeping.memory(asked, asked["paths"], redact)
    if redact is None:
        report, interrupted, given = _report(**asked, hushed=hushed)
        report = memory.told(report)
    else:
        asked |= {"redact": redact, "hushed": hushed, "memory": memory}
        made, interrupted = publish.made_of(**asked)
        report, given = made.report, NOTHING_GIVEN
    try:
        shown = narrow(report, ranks=ranks, pg=pg)
    except ValueError as caught:
        raise UsageError(f"--rank: {caught}") from caught
    if quiet and shown is not report:
        console.say(shown.notes[0].text)
    text = render(
        shown,
        form,
        width=stdout.width(),
        colour=form == "text" and stdout.coloured(color),
        verbose=verbose,
        quiet=quiet,
        given=given,
    )
    stdout.write(text, utf8=form != "text")
    code = console.ended(report, interrupted=interrupted)
    if code == ExitCode.OK:
        memory.kept()
    named = exit_code and report.outcome == "failure"
    return ExitCode.FAILURE_NAMED if named and code == ExitCode.OK else code


@cli.command(
    epilog=examples(
        "ncclforensics evidence ./logs",
        "ncclforensics evidence logs.zip --all | grep unknown",
    )
)
@click.option("--all", "whole", is_flag=True, help="A row for every file.")
@options.reading
@options.color
@options.no_progress
@options.paths
def evidence(
    whole: bool,
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
    color: stdout.Colour,
    no_progress: bool,
) -> int:
    """List every file: what it is and why, whose it is, what was read.

    Files that differ in one number are one row, as fr/nccl_trace_rank_[0-1023]. Below
    the list stand all notes: what was damaged, skipped or assumed.
    """
    from ncclforensics.report.manifest import render_manifest

    report, interrupted, _ = _report(paths, jobs, no_cache, hushed=no_progress)
    colour = stdout.coloured(color)
    width = stdout.width()
    stdout.write(render_manifest(report, width=width, colour=colour, whole=whole))
    return console.ended(report, interrupted=interrupted)


@cli.command(
    epilog=examples(
        "ncclforensics timeline ./logs",
        "ncclforensics timeline incident.zip",
        'textual serve "ncclforensics timeline ./logs"',
    )
)
@options.decides
@options.reading
@options.paths
def timeline(
    paths: tuple[str, ...],
    jobs: int | None,
    no_cache: bool,
    world_size: int | None,
    select: Sequence[str],
    ignore: Sequence[str],
    since: str | None,
    until: str | None,
) -> int:
    """Look for yourself: who stopped where, and the lines behind it.

    PATH is evidence as `analyze` takes it, a saved report, or an export with frames. It
    opens on the rank that is named, at the call that failed; ? lists the keys.
    """
    if "-" in paths:
        raise UsageError("the timeline reads keys from stdin: give it a file")
    for path in paths:
        if not Path(path).exists() and not any(
            c in path for c in ("*", "?", "[", "://")
        ):
            raise UsageError(f"no such file or directory: {path}")
    if not stdout.takes_keys():
        raise UsageError("the timeline needs a terminal; `analyze` does not")
    from ncclforensics.cli.compare import attempts
    from ncclforensics.tui.app import run
    from ncclforensics.tui.load import Request

    chosen, left = classes(select), classes(ignore)
    with processes(jobs) as executor:
        asked = Request(
            *(paths, world_size, chosen, left, span(since, until)),
            *(executor, kept(no_cache), attempts),
        )
        return run(asked)


tui = copy.copy(timeline)
tui.hidden = True
cli.add_command(tui, "tui")


def _report(
    paths: Sequence[str], *asked: Any, hushed: bool, **more: Any
) -> tuple[Report, bool, Given]:
    """Analyze the evidence, or load a saved report.

    Also returns whether reading was interrupted, so that the report is partial, and
    the paths for the commands that the answer prints.
    """
    from ncclforensics.report.formats.as_json import load
    from ncclforensics.report.given import Given
    from ncclforensics.sources.real_paths import typed

    saved = load(Path(paths[0])) if len(paths) == 1 else None
    if saved is not None:
        return saved, False, Given(tuple(paths))
    found, interrupted, sources = analyzed.report(paths, *asked, **more, hushed=hushed)
    known = {source.name: source for source in sources}

    def path_of(name: str) -> str:
        return typed(paths, known[name]) if name in known else name

    return found, interrupted, Given(tuple(paths), path_of)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code (see `errors.ExitCode`)."""
    gc.set_threshold(GARBAGE)
    stdout.reopen()
    with interrupts.noticed() as interrupted:
        try:
            code = cli.main(args, prog_name="ncclforensics", standalone_mode=False)
        except SystemExit:
            raise
        except BaseException as caught:  # a polars panic is not an Exception subclass
            console.wipe()
            return _told(caught, interrupted=interrupted())
    return int(code or 0)


def _told(caught: BaseException, *, interrupted: bool) -> ExitCode:
    """Print what stopped a command, and return its exit code."""
    match caught:
        case click.exceptions.NoArgsIsHelpError():
            console.usage(caught.format_message())
            return ExitCode.USAGE
        case click.ClickException():
            context = getattr(caught, "ctx", None)
            path = "ncclforensics" if context is None else context.command_path
            console.error(f"{caught.format_message()} (see {path} --help)")
            return ExitCode.USAGE
        case NcclForensicsError():
            console.error(str(caught))
            return caught.code
        case _ if interrupted or isinstance(caught, click.Abort | KeyboardInterrupt):
            # a library may have converted the interrupt to any other error
            console.error("interrupted")
            return ExitCode.INTERRUPTED
    console.bug(caught)
    return ExitCode.BUG
