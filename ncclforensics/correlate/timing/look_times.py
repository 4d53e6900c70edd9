"""When `collect` took each file of a look: the time that the look's processes tell.

What it took twice lies in folders of their own, and may have the same bytes: a stack of
a process that stands still. A file that was only found again it does not take twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

_OF_A_LOOK = r"^(.*?(?:^|/)look-\d+/)"


@remembered
def taken(frames: Frames) -> pl.DataFrame:
    """Return `source taken` of all sources in the folder of a look."""
    folder = pl.col("source").str.extract(_OF_A_LOOK).alias("folder")
    looks = alive.looks(frames).with_columns(folder).drop_nulls()
    looks = looks.select("folder", "taken").unique("folder", maintain_order=True)
    files = frames["sources"].select("source", folder).unique("source")
    return files.join(looks, on="folder").select("source", "taken")
