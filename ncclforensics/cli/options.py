"""Options shared by the commands that read evidence: executors, classes, paths."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ncclforensics.cli import stdout
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from ncclforensics.correlate.runs.time_window import Span

CLUSTER = "ncclforensics.cluster"
FROM_CACHE = "read from the cache of an earlier run; --no-cache reads anew"

Command = TypeVar("Command", bound="Callable[..., Any]")


def adds(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options, which the help lists in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines that can be typed, kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def slugs(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a class, also behind a comma."""
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
# options that change what is concluded
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
    """Keep the cluster's address beside the command's own options, for `processes`."""
    context.meta[CLUSTER] = address


# who reads, and whether what was read once is read again
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
    click.option("--no-cache", is_flag=True, help="Read all anew, keep nothing."),
)


@contextmanager
def processes(jobs: int | None) -> Iterator[Executor | None]:
    """Give the cluster asked for, or a pool of `jobs` processes.

    None, where the analysis decides, without either.
    """
    command = click.get_current_context(silent=True)
    address = None if command is None else command.meta.get(CLUSTER)
    if address is not None:
        from ncclforensics.engine import executors

        with executors.executor(address) as executor:
            yield executor
        return
    if jobs is None:
        yield None
        return
    from ncclforensics.engine import pool

    with pool.processes(jobs) as executor:
        yield executor


def kept(no_cache: bool) -> Path | None:
    """Return where parsed evidence is kept for the next run, None for nowhere."""
    if no_cache:
        return None
    from platformdirs import user_cache_path

    return user_cache_path("ncclforensics", appauthor=False)


def classes(asked: Sequence[str]) -> frozenset[str]:
    """Return the classes named, with commas or one by one; UsageError on another."""
    named = [slug.strip() for text in asked for slug in text.split(",")]
    return frozenset(known(slug) for slug in named)


def span(since: str | None, until: str | None) -> Span:
    """Return the span that two options name; UsageError where one is no time."""
    from ncclforensics.correlate.runs.time_window import Span

    first, last = _moment("--since", since), _moment("--until", until)
    if first is not None and last is not None and first > last:
        raise UsageError("--since is later than --until")
    return Span(first, last)


def _moment(option: str, text: str | None) -> int | None:
    """Return a time in ISO 8601 as UTC nanoseconds; without a zone it is in UTC."""
    if text is None:
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        like = "2026-01-02T03:04:05Z"
        raise UsageError(f"{option}: {text!r} is no time like {like}") from None
    zoned = told if told.tzinfo else told.replace(tzinfo=UTC)
    since_epoch = zoned - datetime.fromtimestamp(0, UTC)
    return since_epoch // timedelta(microseconds=1) * 1000


def known(slug: str) -> str:
    """Return `slug` if it is a class; UsageError with what is like it if not."""
    from difflib import get_close_matches

    from ncclforensics.diagnosers import CLASSES

    if slug in CLASSES:
        return slug
    like = " or ".join(get_close_matches(slug, CLASSES, cutoff=0.5))
    hint = f"did you mean {like}? " if like else ""
    raise UsageError(f"no class {slug!r}; {hint}`ncclforensics classes` lists them")
