"""How processes ended, as `correlate.ends` reads it, in words."""

from __future__ import annotations

import signal

import polars as pl

from ncclforensics.correlate.ends import (
    OURS,
    SCHEMA,
    TABLES,
    TOLD_TO_END,
    are_of_one_host,
    by_agents,
    by_themselves,
    ended,
    is_torn,
    is_whole,
    of_slurm,
    only_one,
    ranks_of_tasks,
    torn_down,
)
from ncclforensics.evidence import common

__all__ = [
    "OURS",
    "SCHEMA",
    "TABLES",
    "TOLD_TO_END",
    "are_of_one_host",
    "by_agents",
    "by_themselves",
    "ended",
    "is_torn",
    "is_whole",
    "of_slurm",
    "only_one",
    "ranks_of_tasks",
    "torn_down",
    "words",
]


def words(code: pl.Expr) -> pl.Expr:
    """Return `SIGSEGV` or `exit code 3`."""
    names = {-s.value: s.name for s in signal.Signals}
    return (
        pl.when(code.is_in(list(names)))
        .then(code.replace_strict(names, default=None, return_dtype=pl.String))
        .otherwise(common.sentence("exit code ", code))
    )
