"""The commands that produce something to share: report, export, attach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import analyzed, console, keeping, options, stdout
from ncclforensics.cli.options import adds, examples
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.cli.keeping import Memory
    from ncclforensics.report.bundle import Paper
    from ncclforensics.report.export import Form as Export

EXPORTS = ("parquet", "csv", "trace", "openmetrics")


# options that these commands share, listed after their own
hands_out = adds(
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but the answer."),
    options.redacts,
    options.decides,
    options.reading,
    options.any_color,
    options.no_progress,
    options.paths,
)


@click.command(
    epilog=examples(
        "ncclforensics report ./logs -o incident.html",
        "ncclforensics report ./logs -o incident.zip --redact hosts,ips,users,paths",
        "ncclforensics report saved.json -o incident.md --force",
    )
)
@click.option(
    *("-o", "--output"),
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write; the suffix says what.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@keeping.remembers
@hands_out
def report(output: Path, force: bool, quiet: bool, **asked: Any) -> int:
    """Write a report to hand out: .html, .md, .json or .zip.

    The HTML is one file that needs no network and prints well. The Markdown is
    GitHub's. The JSON is the whole answer, and every command reads it back. The zip
    holds all of them, what the logs say around each cited line, and the frames as
    parquet; `timeline` opens it.
    """
    from ncclforensics.report import bundle as papers

    papers.check(output, force=force)
    hushed = quiet or asked.pop("no_progress")
    memory = keeping.memory(asked, asked["paths"], asked["redact"])
    made, interrupted = made_of(**asked, hushed=hushed, memory=memory)
    with console.doing(f"writing {output.name}", enabled=not hushed):
        data, cut = made.render(output.suffix.lower())
    _write(output, data, [f"cut {told}" for told in cut], force=force, quiet=quiet)
    code = console.ended(made.report, interrupted=interrupted)
    if code == ExitCode.OK:
        memory.kept()
    return code


@click.command(
    epilog=examples(
        "ncclforensics export ./logs -o frames",
        "ncclforensics export ./logs -o . --format trace    # for ui.perfetto.dev",
        "ncclforensics export ./logs -o /var/lib/node_exporter -f openmetrics --force",
    )
)
@click.option(
    *("-o", "--output"),
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write; created if it does not exist.",
)
@click.option(
    *("-f", "--format", "form"),
    type=click.Choice(EXPORTS),
    default="parquet",
    help="What to write.",
)
@click.option("--force", is_flag=True, help="Overwrite files in DIR.")
@hands_out
def export(output: Path, form: Export, force: bool, quiet: bool, **asked: Any) -> int:
    """Write the frames for other tools into DIR.

    parquet and csv give a file per frame. trace gives trace.json, which Perfetto opens:
    a process per rank, a track per process group, arrows along the wait graph.
    openmetrics gives ncclforensics.prom, for a node exporter's textfile collector, and
    takes a store of incidents as well.
    """
    from ncclforensics.report import bundle as papers
    from ncclforensics.report.export import files

    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is not a folder; -o takes one")
    hushed = quiet or asked.pop("no_progress")
    found = _store(asked["paths"]) if form == "openmetrics" else None
    made, interrupted = (None, False) if found else made_of(**asked, hushed=hushed)
    try:
        with console.doing(f"writing into {output}", enabled=not hushed):
            written = [found] if found else list(files(made, form)) if made else []
        output.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as caught:
        raise UsageError(f"nothing was exported: {caught}") from caught
    for name, _, _ in written:
        papers.check(output / name, force=force, suffixes=())
    for name, data, cut in written:
        told = [f"{name} leaves out {part}" for part in cut]
        _write(output / name, data, told, force=force, quiet=quiet)
    if made is None:
        return ExitCode.OK
    return console.ended(made.report, interrupted=interrupted)


def _store(paths: Sequence[str]) -> tuple[str, bytes, tuple[str, ...]] | None:
    """Return the metrics of a store of incidents, as a file; None if it is none."""
    from ncclforensics.history import metrics, store

    root = Path(paths[0])
    if len(paths) > 1 or not store.is_one(root):
        return None
    with store.damage_told(root):
        data = metrics.openmetrics(store.load(root)).encode()
    return "ncclforensics_history.prom", data, ()


@click.command(
    epilog=examples(
        "ncclforensics attach https://github.com/acme/train/issues/12 ./logs",
        "ncclforensics attach OPS-417 ./logs --redact hosts,ips --yes",
        "ncclforensics attach slack:C0123456789 incident.json --link URL --yes",
    )
)
@click.argument("ticket", metavar="TICKET")
@click.option("--yes", is_flag=True, help="Send it.")
@click.option("--dry-run", is_flag=True, help="Print the plan as JSON; send nothing.")
@click.option("--link", metavar="URL", help="Where the full report can be read.")
@click.option("--new", is_flag=True, help="Write a comment apart for this evidence.")
@keeping.remembers
@hands_out
def attach(
    ticket: str,
    yes: bool,
    dry_run: bool,
    link: str | None,
    new: bool,
    quiet: bool,
    **asked: Any,
) -> int:
    """Post the report to a ticket, and keep it up to date there.

    Without --yes it prints the plan and sends nothing. A second run updates its own
    comment, where the service lets it. TICKET is the URL from the browser, or a short
    form. The token comes from the environment, or from the keyring or the file of the
    usual tool, never from the command line:

    \b
    GitHub      OWNER/REPO#1            GH_TOKEN, GITHUB_TOKEN, or gh
    GitLab      gitlab:GROUP/PROJECT#1  GITLAB_TOKEN, or glab
    Jira        KEY-1 and JIRA_URL      JIRA_API_TOKEN and JIRA_EMAIL, or JIRA_PAT
    PagerDuty   pd:ID                   PAGERDUTY_TOKEN (and PAGERDUTY_FROM)
    ServiceNow  INC0012345 and          SERVICENOW_TOKEN, or SERVICENOW_USERNAME
                SERVICENOW_INSTANCE     and SERVICENOW_PASSWORD
    Slack       slack:CHANNEL           SLACK_BOT_TOKEN
    """
    if yes and dry_run:
        raise UsageError("--yes sends and --dry-run does not: give one of them")
    hushed = quiet or asked.pop("no_progress")
    memory = keeping.memory(asked, asked["paths"], asked["redact"])
    made, interrupted = made_of(**asked, hushed=hushed, memory=memory)
    if interrupted:
        console.warn("nothing was planned and nothing sent")
        return console.ended(made.report, interrupted=True)
    how = Posting(ticket, yes, dry_run, link, new, asked["redact"])
    sent = posted(made, how, hushed=hushed, quiet=quiet)
    if yes:
        memory.kept(sent)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class Posting:
    """To which ticket a report is posted and how, as the options of `attach` say."""

    ticket: str
    yes: bool
    dry_run: bool = False
    link: str | None = None
    new: bool = False
    redact: str | None = None


def posted(made: Paper, how: Posting, *, hushed: bool, quiet: bool) -> str | None:
    """Print the plan to post a report, or send it if that is asked for.

    Returns the address of what was sent.
    """
    from ncclforensics.report.redact import kinds
    from ncclforensics.tickets.plans import as_json, as_text, plan
    from ncclforensics.tickets.post import Post

    key = made.fingerprint() if how.new else "report"
    planned = plan(how.ticket, Post(made, how.link, key), os.environ)
    hidden = ", ".join(sorted(kinds(how.redact)))
    if how.dry_run:
        from ncclforensics.report.formats.as_json import indented

        stdout.write(indented(as_json(planned, os.environ, hidden)), utf8=True)
        return None
    if not how.yes:
        stdout.write(as_text(planned, os.environ, hidden))
        return None
    from ncclforensics.tickets.send import send

    with console.doing(f"sending to {planned.service}", enabled=not hushed):
        sent = send(planned, os.environ)
    for told in sent.warnings:
        console.warn(told)
    if not quiet:
        console.say(f"{planned.service} {planned.where}: {', '.join(sent.done)}")
    stdout.write(f"{sent.url}\n")
    return sent.url


def _write(
    path: Path, data: bytes, cut: Sequence[str], *, force: bool, quiet: bool
) -> None:
    """Write a file, and print what was left out of it and where it is."""
    from ncclforensics.report import bundle as papers

    papers.write(path, data, force=force)
    for told in cut:
        console.warn(told)
    if not quiet:
        console.say(f"Wrote {path} ({len(data):,} bytes)")


def made_of(
    paths: Sequence[str],
    *asked: Any,
    redact: str | None,
    hushed: bool,
    memory: Memory | None = None,
    **more: Any,
) -> tuple[Paper, bool]:
    """Analyze the evidence, or load a saved report, and redact it.

    What the `memory` knows of the failure is added before. Also returns whether reading
    was interrupted, so that the paper is partial.
    """
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.report.bundle import paper
    from ncclforensics.report.formats.as_json import load
    from ncclforensics.report.redact import kinds

    hidden = kinds(redact)
    saved = load(Path(paths[0])) if len(paths) == 1 else None
    told = memory.told if memory is not None else lambda report: report
    if saved is not None:
        return paper(told(saved), None, (), CLASSES, hidden), False
    found = analyzed.analysis(paths, *asked, **more, hushed=hushed, quote=True)
    made = paper(told(found.report), found.frames, found.excerpts, CLASSES, hidden)
    return made, found.interrupted
