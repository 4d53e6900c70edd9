"""The `ingest` command: parses one host's share of the evidence into a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ncclforensics.cli import console, options, stdout
from ncclforensics.cli.options import examples, processes
from ncclforensics.engine.interrupts import scratch_folder
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(
    epilog=examples(
        "ncclforensics ingest /var/log/job --as $(hostname) -o /shared/job",
        "ncclforensics analyze /shared/job",
    )
)
@options.reading
@options.any_color
@options.no_progress
@options.paths
@click.option("-o", "--output", metavar="DIR", required=True, help="Or s3://… etc.")
@click.option("--as", "name", metavar="NAME", default="", help="Files are NAME/FILE.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def ingest(
    paths: Sequence[str],
    jobs: int | None,
    no_cache: bool,
    output: str,
    name: str,
    color: stdout.Colour,
    no_progress: bool,
    quiet: bool,
) -> int:
    """Read this host's share of the evidence into the dataset DIR.

    Several hosts may write into one DIR at once, and `analyze`, `timeline` and `export`
    take it as a PATH. What is in it is what was parsed; no conclusion is.
    """
    from ncclforensics.engine import dataset, reading
    from ncclforensics.model.frames import Frames, join
    from ncclforensics.parsers.logs import last_lines
    from ncclforensics.sources import discover

    if any(dataset.is_one(path) for path in paths):
        raise UsageError("a dataset is ingested already: give it to `analyze`")
    progress = console.progress(enabled=not (quiet or no_progress))
    with scratch_folder() as scratch, processes(jobs) as executor:
        found = discover(paths, scratch).under(name)
        frames = reading.read(found.sources, found.notes, executor, progress)
        kept = Frames({"last_lines": last_lines.kept(found.sources, frames)})
        share = dataset.save(join([frames, kept]), output)
    if not quiet:
        read = frames["sources"].height
        console.say(f"Wrote share {share} of {read:,} files to {output}")
    return ExitCode.OK
