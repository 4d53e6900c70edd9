"""Many shares of one dataset, of each of which one file is not as it was written.

To explain a dataset takes as long as to read some hundred files; so the files of many
inputs are put beside those of as many shares that are whole, and explained together.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from fuzz.targets import kept, share, share_file
from ncclforensics.engine import dataset, untrusted
from ncclforensics.engine.untrusted import MESSAGE
from ncclforensics.model.frames import Frames, join

if TYPE_CHECKING:
    from collections.abc import Sequence

MANY = 250
SUFFIX = "#{}"
SHIFT = 40  # bits, by which shares' templates differ

Input = tuple[int, str, bytes]  # of which share, which frame, and what its file holds


def together(inputs: Sequence[bytes], _: Any) -> None:
    """Conform a file of each share, and explain all shares as one dataset."""
    from ncclforensics.analysis import explain

    share(inputs[0])
    named = [(n, *_split(data)) for n, data in enumerate(inputs)]
    (read,) = kept(_conformed_all, [named])
    if isinstance(read, Exception):
        # one of them ended the process: which one, each tells alone
        read = [each for one in named for each in kept(_conformed, [one])]
    changed = {(name, n) for n, name, _ in named}
    whole = [
        _whole(name, n)
        for name in _named()
        for n in range(MANY)
        if (name, n) not in changed
    ]
    parts = [part for part in read if isinstance(part, Frames)]
    explain(dataset._ordered(join([*whole, *parts])))


def _split(data: bytes) -> tuple[str, bytes]:
    number, _, content = data.partition(b"\n")
    return share_file(number).parent.name, content


def _conformed_all(inputs: Sequence[Input]) -> list[Frames | None]:
    return [_conformed(each) for each in inputs]


def _conformed(each: Input) -> Frames | None:
    """Return what an input gives, None where it is refused as `dataset.load` does."""
    number, name, content = each
    try:
        with untrusted.unpanicked():
            read = pl.read_parquet(io.BytesIO(content))
        if name == dataset.SHARES:
            dataset._listed(read)
            return None
        found = untrusted.conformed({name: read})
    except (ValueError, OSError, pl.exceptions.PolarsError):
        return None
    return Frames(
        {n: _placed(frame, number) for n, frame in found.tables.items()},
        {i: _placed(frame, number) for i, frame in found.messages.items()},
    )


@cache
def _named() -> dict[str, pl.DataFrame]:
    frames = dataset.load([str(share_file(b"").parents[1])])
    messages = {MESSAGE + i: frame for i, frame in frames.messages.items()}
    return {**{n: f for n, f in frames.tables.items() if f.height}, **messages}


@cache
def _whole(name: str, number: int) -> Frames:
    frame = _placed(_named()[name], number)
    if name.startswith(MESSAGE):
        return Frames(messages={name.removeprefix(MESSAGE): frame})
    return Frames({name: frame})


def _placed(frame: pl.DataFrame, number: int) -> pl.DataFrame:
    """Give the rows of a share's frame to files and templates of their own."""
    own = pl.lit(number << SHIFT, pl.UInt64)
    placed = {
        "source": pl.col("source") + SUFFIX.format(number),
        "template": pl.col("template") ^ own,
    }
    return frame.with_columns(**{c: e for c, e in placed.items() if c in frame.columns})
