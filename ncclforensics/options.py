"""What the commands that read evidence share: their options, processes, classes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ncclforensics import lookup, stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

Command = TypeVar("Command", bound="Callable[..., Any]")


def reads_evidence(command: Command) -> Command:
    """Add the paths and the options of every command that reads evidence."""
    for add in (
        click.option("--color", type=click.Choice(stdout.COLOURS), default="auto"),
        click.option("--no-progress", is_flag=True, help="No progress on a terminal."),
        click.option("--jobs", type=click.IntRange(min=1), help="Processes that read."),
        click.argument("paths", metavar="PATH...", nargs=-1, required=True),
    ):
        command = add(command)
    return command


@contextmanager
def processes(jobs: int | None) -> Iterator[Executor | None]:
    """Give a pool of `jobs` processes; None, which reads in this one, for fewer than 2.

    Processes are spawned: polars' threads do not survive a fork.
    """
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


def classes(asked: Sequence[str]) -> frozenset[str]:
    """Return the classes named, with commas or one by one; UsageError on another."""
    named = [slug.strip() for text in asked for slug in text.split(",")]
    return frozenset(lookup.known(slug) for slug in named)
