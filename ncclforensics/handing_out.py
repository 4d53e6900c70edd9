"""The commands that make something to hand out: report, export, attach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics import console, stdout
from ncclforensics.errors import ExitCode, UsageError
from ncclforensics.options import (
    FROM_CACHE,
    Command,
    classes,
    kept,
    processes,
    reads_evidence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.export import Form as Export
    from ncclforensics.report.paper import Paper

redacts = click.option(
    "--redact",
    metavar="KINDS",
    help="Replace hosts,ips,users,paths (or all) by pseudonyms, first of all.",
)
EXPORTS = ("parquet", "csv", "trace", "openmetrics")


def hands_out(command: Command) -> Command:
    """Add the options of every command that makes something to hand out."""
    for add in (
        redacts,
        click.option("--world-size", type=click.IntRange(min=1), help="Ranks it had."),
        click.option("--select", multiple=True, metavar="CLASS", help="Only these."),
        click.option("--ignore", multiple=True, metavar="CLASS", help="Not these."),
        click.option("-q", "--quiet", is_flag=True, help="Nothing but the answer."),
    ):
        command = add(command)
    return reads_evidence(command)


@click.command()
@hands_out
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
    made = made_of(**options, quiet=quiet)
    data, cut = made.render(output.suffix.lower())
    papers.write(output, data, force=force)
    for told in cut:
        console.warn(f"cut {told}")
    if not quiet:
        console.say(f"Wrote {output} ({len(data):,} bytes)")
    return ExitCode.OK if recognised(made.report) else ExitCode.NO_EVIDENCE


@click.command()
@hands_out
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
    made = made_of(**options, quiet=quiet)
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


@click.command()
@click.argument("ticket", metavar="TICKET")
@hands_out
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
    from ncclforensics.report.redact import kinds
    from ncclforensics.tickets.plans import as_json, as_text, plan
    from ncclforensics.tickets.post import Post

    if yes and dry_run:
        raise UsageError("--yes sends and --dry-run does not: give one of them")
    made = made_of(**options, quiet=quiet)
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


def made_of(
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
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

    with processes(jobs) as executor:
        found = run(
            paths,
            executor=executor,
            world_size=world_size,
            select=classes(select),
            ignore=classes(ignore),
            progress=console.progress(enabled=not (quiet or no_progress)),
            quote=True,
            kept=kept(no_cache),
        )
    if found.is_from_cache and not quiet:
        console.say(FROM_CACHE)
    return paper(found.report, found.frames, found.excerpts, CLASSES, hidden)
