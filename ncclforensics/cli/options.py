"""Options shared by the commands that read evidence: executors, classes, paths."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ncclforensics.cli import stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from ncclforensics.model.span import Span

CLUSTER = "ncclforensics.cluster"

Command = TypeVar("Command", bound="Callable[..., Any]")


def adds(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options; the help lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: example lines, printed verbatim."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def slugs(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Shell completion of class names, also after a comma."""
    from ncclforensics.diagnosers import CLASSES
    from ncclforensics.report.class_docs import page

    before, comma, start = typed.rpartition(",")
    return [
        CompletionItem(before + comma + slug, help=page(entry.doc).summary)
        for slug, entry in CLASSES.items()
        if slug.startswith(start)
    ]


color = click.option(
    "--color", type=click.Choice(stdout.COLOURS), default="auto", help="Colour it."
)
any_color = click.option(
    "--color", type=click.Choice(stdout.COLOURS), default="auto", hidden=True
)
no_progress = click.option(
    "--no-progress", is_flag=True, help="Show no progress, not even on a terminal."
)
paths = click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path()
)
# options that affect the conclusions
decides = adds(
    click.option(
        "--world-size",
        metavar="N",
        type=click.IntRange(min=1),
        help="How many ranks the job had, whatever the evidence says.",
    ),
    click.option(
        "--select",
        metavar="CLASS",
        multiple=True,
        shell_complete=slugs,
        help="Look for these classes only; with commas, or given again.",
    ),
    click.option(
        "--ignore",
        metavar="CLASS",
        multiple=True,
        shell_complete=slugs,
        help="Do not look for these classes.",
    ),
    click.option(
        "--since",
        metavar="TIME",
        help="The failure was not before this, like 2026-01-02T03:04Z; in UTC.",
    ),
    click.option("--until", metavar="TIME", help="The failure was not after this."),
)
redacts = click.option(
    "--redact",
    metavar="KINDS",
    shell_complete=lambda *_: [CompletionItem("hosts,ips,users,paths")],
    help="Put pseudonyms for hosts,ips,users,paths (or all) into whatever is written.",
)


def _remember(context: click.Context, _: click.Parameter, address: str | None) -> None:
    """Store the cluster's address in the context, for `processes`."""
    context.meta[CLUSTER] = address


# options for the processes that read, and for the cache
reading = adds(
    click.option(
        "--jobs", metavar="N", type=click.IntRange(min=1), help="Read with N processes."
    ),
    click.option(
        "--executor",
        metavar="dask:ADDRESS",
        expose_value=False,
        callback=_remember,
        help="Read with the workers of a cluster.",
    ),
    click.option(
        "--no-cache", is_flag=True, help="Read everything again, cache nothing."
    ),
)


@contextmanager
def processes(jobs: int | None) -> Iterator[Executor | None]:
    """Yield the executor of the requested cluster, or a pool of `jobs` processes.

    Yields None if neither was requested: the analysis then decides.
    """
    command = click.get_current_context(silent=True)
    address = None if command is None else command.meta.get(CLUSTER)
    if address is not None:
        from ncclforensics.engine import cluster_executor

        with cluster_executor.executor(address) as executor:
            yield executor
        return
    if jobs is None:
        yield None
        return
    from ncclforensics.engine import pool

    with pool.processes(jobs) as executor:
        yield executor


def cache_folder() -> Path:
    """Return the folder of the cache of analyses."""
    from platformdirs import user_cache_path

    return user_cache_path("ncclforensics", appauthor=False)


def kept(no_cache: bool) -> Path | None:
    """Return the folder of the cache of analyses, None for no cache."""
    return None if no_cache else cache_folder()


def classes(asked: Sequence[str]) -> frozenset[str]:
    """Parse class names, possibly comma-separated; UsageError on an unknown one."""
    from ncclforensics.diagnosers.choice import chosen

    return chosen(asked)


def span(since: str | None, until: str | None) -> Span:
    """Parse --since and --until; UsageError on an invalid time or a wrong order."""
    from ncclforensics.model.span import between

    return between(since, until)
