"""The commands. Each imports what it needs when it runs: `--help` stays instant.

A command returns its exit code. `main` turns every way to end into one: errors that a
user can cause are one line on stderr, anything else is a bug with its traceback.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics import console, handing_out, ingesting, lookup, stdout
from ncclforensics.errors import ExitCode, NcclForensicsError, UsageError
from ncclforensics.options import (
    FROM_CACHE,
    classes,
    kept,
    processes,
    reads_evidence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import Report
    from ncclforensics.report.formats import Format

FORMATS = ("text", "json", "jsonl", "markdown", "github")


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        stdout.write(console.versions() + "\n")
        context.exit()


@click.group(
    no_args_is_help=True,
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
def cli() -> None:
    """Name the rank, the host and the collective that hung or killed a training job.

    Exit codes: 0 the analysis ran to its end, 1 a failure was named and --exit-code was
    given, 2 usage, 3 nothing was recognised as evidence, 4 posting failed, 70 a bug,
    130 interrupted.
    """


for command in (
    *(handing_out.report, handing_out.export, handing_out.attach, ingesting.ingest),
    *(lookup.explain, lookup.classes, lookup.grammars),
):
    cli.add_command(command)


@cli.command()
@reads_evidence
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="text")
@click.option("--exit-code", is_flag=True, help="Exit 1 where a failure is named.")
@click.option("--world-size", type=click.IntRange(min=1), help="Ranks the job had.")
@click.option("--select", multiple=True, metavar="CLASS", help="Only these classes.")
@click.option("--ignore", multiple=True, metavar="CLASS", help="Not these classes.")
@handing_out.redacts
@click.option("--rank", metavar="RANKS", help="Show what concerns ranks, as 0-3,617.")
@click.option("--pg", metavar="NAME", help="Show what concerns a process group.")
@click.option("-q", "--quiet", is_flag=True, help="The first two lines only.")
@click.option("-v", "--verbose", is_flag=True, help="Whole lists.")
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
    **options: Any,
) -> int:
    """Say what failed, on which rank and host, and what to do.

    PATH is a directory, a file, a glob, a tar or zip archive, "-", or a saved report.
    """
    from ncclforensics.report.folding import unfold_ranks
    from ncclforensics.report.formats import render
    from ncclforensics.report.narrow import narrow
    from ncclforensics.report.reading import recognised

    try:
        ranks = frozenset[int]() if rank is None else unfold_ranks(rank)
    except ValueError as caught:
        raise UsageError(f"--rank: {caught}") from caught
    hushed = no_progress or quiet
    if redact is None:
        report = _report(**options, progress=not hushed)
    else:
        asked = {**options, "redact": redact, "color": color}
        report = handing_out.made_of(**asked, quiet=hushed, no_progress=hushed).report
    text = render(
        narrow(report, ranks=ranks, pg=pg),
        form,
        width=stdout.width(),
        colour=form == "text" and stdout.coloured(color),
        verbose=verbose,
        quiet=quiet,
    )
    stdout.write(text, utf8=form != "text")
    if not recognised(report):
        return ExitCode.NO_EVIDENCE
    named = report.outcome == "failure"
    return ExitCode.FAILURE_NAMED if exit_code and named else ExitCode.OK


@cli.command()
@reads_evidence
def evidence(
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
    color: stdout.Colour,
    no_progress: bool,
) -> int:
    """List every file: what it is, why, and what was read of it."""
    from ncclforensics.report.manifest import render_manifest
    from ncclforensics.report.reading import recognised

    report = _report(paths, jobs, no_cache, progress=not no_progress)
    colour = stdout.coloured(color)
    stdout.write(render_manifest(report, width=stdout.width(), colour=colour))
    return ExitCode.OK if recognised(report) else ExitCode.NO_EVIDENCE


@cli.command()
@click.option("--world-size", type=click.IntRange(min=1), help="Ranks the job had.")
@click.option("--select", multiple=True, metavar="CLASS", help="Only these classes.")
@click.option("--ignore", multiple=True, metavar="CLASS", help="Not these classes.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes that read.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def timeline(
    paths: tuple[str, ...],
    jobs: int | None,
    world_size: int | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> int:
    """Look for yourself: who stopped where, and the lines behind it.

    PATH is evidence as `analyze` takes it, a saved report, or an export with frames.
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
    from ncclforensics.tui.app import run
    from ncclforensics.tui.load import Request

    chosen, left = classes(select), classes(ignore)
    with processes(jobs) as executor:
        return run(Request(paths, world_size, chosen, left, executor))


cli.add_command(timeline, "tui")


def _report(
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
    world_size: int | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    *,
    progress: bool,
) -> Report:
    """Analyze the evidence, or read the report that was saved of it."""
    from ncclforensics.report.as_json import load

    saved = load(Path(paths[0])) if len(paths) == 1 else None
    if saved is not None:
        return saved
    from ncclforensics.analysis import analyze as run

    with processes(jobs) as executor:
        found = run(
            paths,
            executor=executor,
            world_size=world_size,
            select=classes(select),
            ignore=classes(ignore),
            progress=console.progress(enabled=progress),
            kept=kept(no_cache),
        )
    if found.is_from_cache and progress:
        console.say(FROM_CACHE)
    return found.report


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code (see `errors.ExitCode`)."""
    stdout.reopen()
    try:
        code = cli.main(args, prog_name="ncclforensics", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        console.wipe()
        console.error("interrupted")
        return ExitCode.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as caught:
        console.usage(caught.format_message())
        return ExitCode.USAGE
    except click.ClickException as caught:
        context = getattr(caught, "ctx", None)
        path = "ncclforensics" if context is None else context.command_path
        console.error(f"{caught.format_message()} (see {path} --help)")
        return ExitCode.USAGE
    except NcclForensicsError as caught:
        console.wipe()
        console.error(str(caught))
        return caught.code
    except SystemExit:
        raise
    except BaseException as caught:  # a panic inside polars is no Exception
        console.wipe()
        console.bug(caught)
        return ExitCode.BUG
    return int(code or 0)
