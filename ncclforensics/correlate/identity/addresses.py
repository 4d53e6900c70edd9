"""Which host an address belongs to, and which hosts lines name as an address.

The interfaces that NCCL says it uses show whose address is whose. Processes also name
the host that serves their store, which need not print anything itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

USING = ("nccl.bootstrap.using", "nccl.net.socket_using", "nccl.net.ib_using")
STORES = ("store_host", "master")  # columns that name the host of a store
OWNERS = {"address": pl.String(), "owner": pl.String()}
COMMAND, CONFIG = "torchelastic.command", "torchelastic.launch_config"
ENDPOINT = r"--(?:rdzv[-_]endpoint|master[-_]addr)[= ]([\w.-]+)"
NUMBERS = r"^\d{1,3}(?:\.\d{1,3}){3}$"


def owners(frames: Frames) -> pl.DataFrame:
    """Return `address` (or a host's name) and `owner`, the only host that has it."""
    bound = frames.message(*USING)
    if bound.is_empty():
        return without_rows(OWNERS)
    told = [bound.select("host", pl.col("host").alias("address"))]
    if "devices" in bound.columns:
        listed = pl.col("devices").str.extract_all(r":[0-9a-fA-F.:]+(?:%\w+)?<")
        inner = pl.col("address").str.strip_chars("<").str.slice(1)
        told.append(
            bound.select("host", listed.alias("address"))
            .explode("address")
            .with_columns(inner.str.replace(r"%.*$", ""))
        )
    if "oob_address" in bound.columns:
        told.append(bound.select("host", pl.col("oob_address").alias("address")))
    return (
        pl.concat(told)
        .drop_nulls()
        .group_by("address")
        .agg(pl.col("host").unique().alias("owner"))
        .filter(pl.col("owner").list.len() == 1)
        .with_columns(pl.col("owner").list.first())
    )


def by_name(frames: Frames) -> Frames:
    """Return `frames` with the name of a host where `host` is its address."""
    known = owners(frames)
    if known.is_empty():
        return frames
    is_one = pl.col("address").str.contains(NUMBERS)
    known = known.filter(is_one & ~pl.col("owner").str.contains(NUMBERS))
    names = dict(known.select("address", "owner").iter_rows())
    if not names:
        return frames

    def name(frame: pl.DataFrame) -> pl.DataFrame:
        if "host" not in frame.columns or not frame["host"].is_in([*names]).any():
            return frame
        return frame.with_columns(pl.col("host").replace(names))

    told = frames.each(name)
    # what was asked of the frames before is known of them, if they stay the same
    return frames if told.holds_the_same_as(frames) else told


def named(frames: Frames) -> pl.Series:
    """Return the names of hosts, and not their addresses, that serve a store."""
    told = _stores(frames)
    if told.is_empty():
        return told
    return told.filter(told.str.contains(r"^[A-Za-z][\w-]*[A-Za-z0-9]$"))


def served(frames: Frames) -> pl.Series:
    """Return the names of `named` with a number, also of those with a domain.

    And of the hosts at which a store was asked for.
    """
    commands = frames.message(COMMAND)["text"]
    asked = [commands.str.extract(ENDPOINT)] if commands.len() else []
    if "rdzv_endpoint" in (config := frames.message(CONFIG)).columns:
        asked.append(config["rdzv_endpoint"].str.split(":").list.first())
    names = pl.concat([_stores(frames), *(names.alias("host") for names in asked)])
    if names.is_empty():
        return names
    told = names.drop_nulls().str.split(".").list.first()
    return told.filter(told.str.contains(r"^[A-Za-z][\w-]*\d$")).unique()


@remembered
def _stores(frames: Frames) -> pl.Series:
    found = [pl.Series("host", [], pl.String)]
    for lines in frames.messages.values():
        found += [lines[c].alias("host") for c in STORES if c in lines.columns]
    if len(found) == 1:
        return found[0]
    return pl.concat(found).drop_nulls().unique().str.strip_chars("[]")
