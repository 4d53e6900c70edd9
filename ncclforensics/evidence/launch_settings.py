"""What each node's agent was started with, and whose setting differs from the others'.

Agents meet if they are started for the same run, at the same endpoint and for the same
number of nodes. A shell prints the command that starts one, and torchrun its
configuration, if it logs at INFO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

COMMAND, CONFIG = "torchelastic.command", "torchelastic.launch_config"
# the words for a setting, its column of a configuration, its option of a command
SETTINGS = (
    ("run id", "run_id", r"--rdzv[-_]id[= ](\S+)"),
    ("endpoint", "rdzv_endpoint", r"--rdzv[-_]endpoint[= ](\S+)"),
    ("master address", None, r"--master[-_]addr[= ](\S+)"),
    ("master port", None, r"--master[-_]port[= ](\S+)"),
    ("number of nodes", "max_nodes", r"--nnodes[= ](?:\d+:)?(\d+)"),
)
UNSET = r"[$`]"  # a shell variable, of which the command does not tell the value
FEWEST = 3  # hosts; of two that differ, neither is the odd one
NODE = ["host", "source", "line", "text"]


@dataclass(frozen=True, slots=True)
class Odd:
    """The one host whose `setting` is `own`; that of all others is `usual`.

    `lines` are the line that shows it, and one of another host.
    """

    host: str
    setting: str
    own: str
    usual: str
    lines: pl.DataFrame


@needing(COMMAND, CONFIG, otherwise=None)
def odd(frames: Frames) -> Odd | None:
    """Return the host that was started with a setting of its own, if one was."""
    parts = [_of_commands(frames.message(COMMAND)), _of(frames.message(CONFIG))]
    told = pl.concat(parts).drop_nulls(["host", "value"]).sort("source", "line")
    told = told.filter(~pl.col("value").str.contains(UNSET))
    told = told.unique(["host", "setting"], keep="last", maintain_order=True)
    for setting in (words for words, _, _ in SETTINGS):
        here = told.filter(pl.col("setting") == setting)
        alike = pl.len().over("value")
        alone, others = here.filter(alike == 1), here.filter(alike > 1)
        if here.height < FEWEST or alone.height != 1 or others["value"].n_unique() != 1:
            continue
        one = alone.row(0, named=True)
        lines = pl.concat([alone, others.head(1)]).select(NODE)
        return Odd(one["host"], setting, one["value"], str(others["value"][0]), lines)
    return None


def _of_commands(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `NODE setting value` of the options of commands."""
    return _settings(
        lines, {words: pl.col("text").str.extract(rx) for words, _, rx in SETTINGS}
    )


def _of(lines: pl.DataFrame) -> pl.DataFrame:
    """Return `NODE setting value` of printed configurations."""
    known = {
        words: pl.col(column).cast(pl.String)
        for words, column, _ in SETTINGS
        if column in lines.columns
    }
    return _settings(lines, known)


def _settings(lines: pl.DataFrame, values: dict[str, pl.Expr]) -> pl.DataFrame:
    wide = lines.select(*NODE, *(value.alias(name) for name, value in values.items()))
    return wide.unpivot(index=NODE, variable_name="setting", value_name="value").cast(
        {"value": pl.String}
    )
