"""The commands. Each imports what it needs when it runs: `--help` stays instant.

A command returns its exit code. `main` turns every way to end into one: errors that a
user can cause are one line on stderr, anything else is a bug with its traceback.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ncclforensics import console, lookup, stdout
from ncclforensics.errors import ExitCode, NcclForensicsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from ncclforensics.report.contract import Report
    from ncclforensics.report.export import Form as Export
    from ncclforensics.report.formats import Format
    from ncclforensics.report.paper import Paper

EXPORTS = ("parquet", "csv", "trace", "openmetrics")
FORMATS = ("text", "json", "jsonl", "markdown", "github")
Command = TypeVar("Command", bound="Callable[..., Any]")


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


for command in (lookup.explain, lookup.classes, lookup.grammars):
    cli.add_command(command)


def _reads_evidence(command: Command) -> Command:
    """Add the paths and the options of every command that reads evidence."""
    for add in (
        click.option("--color", type=click.Choice(stdout.COLOURS), default="auto"),
        click.option("--no-progress", is_flag=True, help="No progress on a terminal."),
        click.option("--jobs", type=click.IntRange(min=1), help="Processes that read."),
        click.argument("paths", metavar="PATH...", nargs=-1, required=True),
    ):
        command = add(command)
    return command


@cli.command()
@_reads_evidence
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="text")
@click.option("--exit-code", is_flag=True, help="Exit 1 where a failure is named.")
@click.option("--world-size", type=click.IntRange(min=1), help="Ranks the job had.")
@click.option("--select", multiple=True, metavar="CLASS", help="Only these classes.")
@click.option("--ignore", multiple=True, metavar="CLASS", help="Not these classes.")
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
    report = _report(**options, progress=not (no_progress or quiet))
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
@_reads_evidence
def evidence(
    paths: Sequence[str], jobs: int | None, color: stdout.Colour, no_progress: bool
) -> int:
    """List every file: what it is, why, and what was read of it."""
    from ncclforensics.report.manifest import render_manifest
    from ncclforensics.report.reading import recognised

    report = _report(paths, jobs, progress=not no_progress)
    colour = stdout.coloured(color)
    stdout.write(render_manifest(report, width=stdout.width(), colour=colour))
    return ExitCode.OK if recognised(report) else ExitCode.NO_EVIDENCE


def _hands_out(command: Command) -> Command:
    """Add the options of every command that makes something to hand out."""
    for add in (
        click.option(
            "--redact",
            metavar="KINDS",
            help="Replace hosts,ips,users,paths (or all) by pseudonyms, first of all.",
        ),
        click.option("--world-size", type=click.IntRange(min=1), help="Ranks it had."),
        click.option("--select", multiple=True, metavar="CLASS", help="Only these."),
        click.option("--ignore", multiple=True, metavar="CLASS", help="Not these."),
        click.option("-q", "--quiet", is_flag=True, help="Nothing but the answer."),
    ):
        command = add(command)
    return _reads_evidence(command)


@cli.command()
@_hands_out
@click.option("-o", "--output", metavar="FILE", required=True, type=Path)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def report(output: Path, force: bool, quiet: bool, **options: Any) -> int:
    """Write a report to attach: .md, .html, .json or .zip, by the suffix of FILE.

    The HTML is one file that needs no network. The zip holds every form, what the logs
    say around each cited line, and the frames as parquet.

    \b
    ncclforensics report ./logs -o incident.html
    ncclforensics report ./logs -o incident.zip --redact hosts,ips,users,paths
    """
    from ncclforensics.report import paper as papers
    from ncclforensics.report.reading import recognised

    papers.check(output, force=force)
    made = _paper(**options, quiet=quiet)
    data, cut = made.render(output.suffix.lower())
    papers.write(output, data, force=force)
    for told in cut:
        console.warn(f"cut {told}")
    if not quiet:
        console.say(f"Wrote {output} ({len(data):,} bytes)")
    return ExitCode.OK if recognised(made.report) else ExitCode.NO_EVIDENCE


@cli.command()
@_hands_out
@click.option("-o", "--output", metavar="DIR", required=True, type=Path)
@click.option("-f", "--format", "form", type=click.Choice(EXPORTS), default="parquet")
@click.option("--force", is_flag=True, help="Overwrite files in DIR.")
def export(output: Path, form: Export, force: bool, quiet: bool, **options: Any) -> int:
    """Write the frames for other tools into DIR.

    parquet and csv give a file per frame. trace gives trace.json, which Perfetto opens:
    a process per rank, a track per process group, arrows along the wait graph.
    openmetrics gives ncclforensics.prom, for a node exporter's textfile collector.

    \b
    ncclforensics export ./logs -o frames
    ncclforensics export ./logs -o . --format trace
    """
    from ncclforensics.report import paper as papers
    from ncclforensics.report.export import files
    from ncclforensics.report.reading import recognised

    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is no folder; -o takes a folder")
    made = _paper(**options, quiet=quiet)
    try:
        written = list(files(made, form))
        output.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as caught:
        raise UsageError(f"nothing was exported: {caught}") from caught
    for name, _, _ in written:
        papers.check(output / name, force=force, suffixes=())
    for name, data, cut in written:
        papers.write(output / name, data, force=force)
        for told in cut:
            console.warn(f"{name} leaves out {told}")
        if not quiet:
            console.say(f"Wrote {output / name} ({len(data):,} bytes)")
    return ExitCode.OK if recognised(made.report) else ExitCode.NO_EVIDENCE


@cli.command()
@click.argument("ticket", metavar="TICKET")
@_hands_out
@click.option("--yes", is_flag=True, help="Send it.")
@click.option("--dry-run", is_flag=True, help="Print the plan as JSON; send nothing.")
@click.option("--link", metavar="URL", help="Where the full report can be read.")
@click.option("--new", is_flag=True, help="A comment of its own for this evidence.")
def attach(
    ticket: str,
    yes: bool,
    dry_run: bool,
    link: str | None,
    new: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Post the report to the ticket that TICKET names, and keep it up to date there.

    TICKET is the URL from the browser, or a short form: OWNER/REPO#1,
    gitlab:GROUP/PROJECT#1, KEY-1, pd:ID, INC0012345, slack:CHANNEL. Without --yes it
    prints the plan and sends nothing. A second run updates its own comment. Tokens come
    from the environment or from the usual tool's keyring (gh, glab), never from here.

    \b
    ncclforensics attach https://github.com/acme/train/issues/12 ./logs
    ncclforensics attach OPS-417 ./logs --redact hosts,ips --yes
    """
    import os

    from ncclforensics.report.redact import kinds
    from ncclforensics.tickets.plans import as_json, as_text, plan
    from ncclforensics.tickets.post import Post

    if yes and dry_run:
        raise UsageError("--yes sends and --dry-run does not: give one of them")
    made = _paper(**options, quiet=quiet)
    key = made.fingerprint() if new else "report"
    planned = plan(ticket, Post(made, link, key), os.environ)
    hidden = ", ".join(sorted(kinds(options["redact"])))
    if dry_run:
        import msgspec

        encoded = msgspec.json.encode(as_json(planned, os.environ, hidden))
        text = msgspec.json.format(encoded, indent=2).decode() + "\n"
        stdout.write(text, utf8=True)
        return ExitCode.OK
    if not yes:
        stdout.write(as_text(planned, os.environ, hidden))
        return ExitCode.OK
    from ncclforensics.tickets.send import send

    sent = send(planned, os.environ)
    for told in sent.warnings:
        console.warn(told)
    if not quiet:
        console.say(f"{planned.service} {planned.where}: {', '.join(sent.done)}")
    stdout.write(f"{sent.url}\n")
    return ExitCode.OK


def _paper(
    paths: Sequence[str],
    jobs: int | None,
    redact: str | None,
    world_size: int | None,
    select: Sequence[str],
    ignore: Sequence[str],
    *,
    quiet: bool,
    no_progress: bool,
    color: stdout.Colour,
) -> Paper:
    """Analyze the evidence, or read a saved report, and redact it."""
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.report.as_json import load
    from ncclforensics.report.paper import paper
    from ncclforensics.report.redact import kinds

    hidden = kinds(redact)
    saved = load(Path(paths[0])) if len(paths) == 1 else None
    if saved is not None:
        return paper(saved, None, (), CLASSES, hidden)
    from ncclforensics.analysis import analyze as run

    with _executor(jobs) as executor:
        found = run(
            paths,
            executor=executor,
            world_size=world_size,
            select=_classes(select),
            ignore=_classes(ignore),
            progress=console.progress(enabled=not (quiet or no_progress)),
            quote=True,
        )
    return paper(found.report, found.frames, found.excerpts, CLASSES, hidden)


def _report(
    paths: Sequence[str],
    jobs: int | None,
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

    with _executor(jobs) as executor:
        return run(
            paths,
            executor=executor,
            world_size=world_size,
            select=_classes(select),
            ignore=_classes(ignore),
            progress=console.progress(enabled=progress),
        ).report


@contextmanager
def _executor(jobs: int | None) -> Iterator[Executor | None]:
    """Give a pool of `jobs` processes; None, which reads in this one, for fewer than 2.

    Processes are spawned: polars' threads do not survive a fork.
    """
    if jobs is None or jobs < 2:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _classes(asked: Sequence[str]) -> frozenset[str]:
    """Return the classes named, with commas or one by one; UsageError on another."""
    named = [slug.strip() for text in asked for slug in text.split(",")]
    return frozenset(lookup.known(slug) for slug in named)


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code (see `errors.ExitCode`)."""
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
