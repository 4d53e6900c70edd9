"""What the commands that read evidence share: their options, processes, classes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ncclforensics import lookup, stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

CLUSTER = "ncclforensics.cluster"
FROM_CACHE = "read from the cache of an earlier run; --no-cache reads anew"

Command = TypeVar("Command", bound="Callable[..., Any]")


def reads_evidence(command: Command) -> Command:
    """Add the paths and the options of every command that reads evidence."""
    for add in (
        click.option("--color", type=click.Choice(stdout.COLOURS), default="auto"),
        click.option("--no-progress", is_flag=True, help="No progress on a terminal."),
        click.option(
            "--executor",
            metavar="dask:ADDRESS",
            expose_value=False,
            callback=_remember,
            help="A cluster that reads.",
        ),
        click.option("--no-cache", is_flag=True, help="Read all anew, keep nothing."),
        click.option("--jobs", type=click.IntRange(min=1), help="Processes that read."),
        click.argument("paths", metavar="PATH...", nargs=-1, required=True),
    ):
        command = add(command)
    return command


def _remember(context: click.Context, _: click.Parameter, address: str | None) -> None:
    """Keep the cluster's address beside the command's own options, for `processes`."""
    context.meta[CLUSTER] = address


@contextmanager
def processes(jobs: int | None) -> Iterator[Executor | None]:
    """Give the cluster asked for, or a pool of `jobs` processes.

    None, which reads in this process, for fewer than 2.

    Processes are spawned: polars' threads do not survive a fork.
    """
    command = click.get_current_context(silent=True)
    address = None if command is None else command.meta.get(CLUSTER)
    if address is not None:
        from ncclforensics import clusters

        with clusters.executor(address) as executor:
            yield executor
        return
    if jobs is None or jobs < 2:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from ncclforensics.parsers.fr_taster import expendable

    context = get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=expendable)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def kept(no_cache: bool) -> Path | None:
    """Return where parsed evidence is kept for the next run, None for nowhere."""
    if no_cache:
        return None
    from platformdirs import user_cache_path

    return user_cache_path("ncclforensics", appauthor=False)


def classes(asked: Sequence[str]) -> frozenset[str]:
    """Return the classes named, with commas or one by one; UsageError on another."""
    named = [slug.strip() for text in asked for slug in text.split(",")]
    return frozenset(lookup.known(slug) for slug in named)
