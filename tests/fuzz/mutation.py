"""Mutates texts without guidance: what is written in them stays, its values do not.

For targets whose work is done in Rust, where a fuzzer sees no coverage: it would drop
every seed but one.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

# share of a dataset's files whose bytes are changed: that is for polars to read, and
# what it ends is a process that takes a while to start
DAMAGED = 0.01
NUMBER = re.compile(rb"\d+")
WORD = re.compile(rb"[A-Za-z_./-]{2,}")
NUMBERS = (
    *(b"0", b"-1", b"00", b"4294967296", b"2147483648", b"9223372036854775807"),
    *(b"9223372036854775808", b"18446744073709551616", b"9" * 40, b"9" * 400),
    *(b"1e999", b"NaN", b"0x7f", b"\xd9\xa3", b"9999", b"1.5", b""),
)
ODD = (
    *(b"\0", b"\r", b"\n", b"\r\n", b"\t", b"\x1b[2J", b"\x1b]0;x\x07", b"\x1b]52;c;"),
    *(
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\x1e",
        b"\x85",
    ),
    *(
        b"\xe2\x80\xae",
        b"\xe2\x80\xa8",
        b"[",
        b"]",
        b"(",
        b")",
        b"{",
        b'"',
        b"\\",
        b"\\n",
    ),
    *(
        b"<x>",
        b"|",
        b"`",
        b"-",
        b":",
        b" ",
        b"  \n",
        b"%s",
        b"$(x)",
        b"a" * 300,
        b"[" * 200,
    ),
    # what JSON makes of escapes
    *(b"\\u001b[2J", b"\\u009d8;;x\\u009c", b"\\u0000", b"\\n", b"\\ud800", b"\\u202e"),
    *(b'{"log":"', b"> ", b"[rank3]: ", b"Failures:", b"9999-12-31 23:59:59"),
)


def mutated(rnd: Random, seeds: Sequence[bytes], longest: int) -> bytes:
    """Return a seed with some changes, of `longest` bytes at most."""
    data = rnd.choice(seeds)
    for _ in range(rnd.choice((0, 1, 1, 2, 3, 5))):
        data = _changed(rnd, data, seeds)
    return data[:longest]


def mutated_json(rnd: Random, seeds: Sequence[bytes], longest: int) -> bytes:
    """Return a JSON text of which some values are others, most of the same type."""
    told = json.loads(rnd.choice(seeds))
    for _ in range(rnd.choice((0, 1, 1, 2, 3, 5, 9))):
        at = told
        while True:
            keys = list(at) if isinstance(at, dict) else range(len(at))
            key = rnd.choice(keys) if keys else None
            if key is None or (not isinstance(at[key], dict | list) or not at[key]):
                break
            if rnd.random() < 0.1:
                break
            at = at[key]
        if key is not None:
            at[key] = _value(rnd, at[key])
    return json.dumps(told).encode()[:longest]


def mutated_share(rnd: Random, seeds: Sequence[bytes], longest: int) -> bytes:
    """Return a dataset's file with other columns, types or values, or other bytes."""
    seed = rnd.choice(seeds)
    if rnd.random() < DAMAGED:
        return mutated(rnd, [seed], longest)
    number, _, content = seed.partition(b"\n")
    frame = _read(content)
    for _ in range(rnd.choice((1, 1, 1, 2, 3))):
        # not every change suits every type
        with suppress(pl.exceptions.PolarsError):
            frame = _reframed(rnd, frame)
    written = io.BytesIO()
    frame.write_parquet(written, compression="uncompressed", statistics=False)
    return number + b"\n" + written.getvalue()


@cache
def _read(content: bytes) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(content))


def _reframed(rnd: Random, frame: pl.DataFrame) -> pl.DataFrame:
    name = rnd.choice(frame.columns or [""])
    column = pl.col(name)
    match rnd.randrange(8):
        case 0:
            return frame.drop(name)
        case 1:
            return frame.rename({name: rnd.choice(("x", "", "_order", "a/b", "index"))})
        case 2:
            types = (pl.Int8, pl.Null, pl.String, pl.List(pl.Int64), pl.Binary, pl.Date)
            return frame.with_columns(pl.lit(None, rnd.choice(types)).alias(name))
        case 3:
            values = (-(2**63), 2**63 - 1, "\x1b]52;c;a\x07", "../../x", True, 1e300)
            value = pl.lit(rnd.choice(values)).cast(frame.schema[name], strict=False)
            return frame.with_columns(value.alias(name))
        case 4:
            return pl.concat([frame] * rnd.choice((0, 2, 50)) or [frame.clear()])
        case 5:
            return frame.with_columns(column.reverse().alias("new"))
        case 6:
            return frame.with_columns(pl.concat_list(column).alias(name))
    other = pl.col(rnd.choice(frame.columns))
    return frame.with_columns(other.alias(name))


def _value(rnd: Random, old: object) -> object:
    if rnd.random() < 0.05:
        return rnd.choice((None, 1, "x", [], {}, True, 1e300))
    match old:
        case str():
            at = rnd.randrange(len(old) + 1)
            odd = rnd.choice(ODD) * rnd.choice((1, 1, 1, 40))
            return old[:at] + odd.decode("utf-8", "replace") + old[at:]
        case list():
            return rnd.choice((old[1:], old * 2, old * 50))
        case bool() | None:
            return rnd.choice((None, True, "x", 0))
        case int():
            return rnd.choice((0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1))
    return old


def _changed(rnd: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at, to = sorted(rnd.randrange(len(data) + 1) for _ in range(2))
    match rnd.randrange(8):
        case 0 | 1:
            return _replaced(rnd, NUMBER, data, rnd.choice(NUMBERS))
        case 2:
            other = WORD.findall(rnd.choice(seeds)) or [b""]
            return _replaced(rnd, WORD, data, rnd.choice(other))
        case 3:
            return data[:at] + rnd.choice(ODD) + data[at:]
        case 4:
            return data[:at] + data[to:]
        case 5:
            return data[:at] + rnd.choice(seeds)[-rnd.randrange(1, 200) :]
        case 6:
            return data[:to] + data[at:to] * rnd.randrange(1, 4) + data[to:]
    return data[:at] + rnd.randbytes(1) + data[at + 1 :]


def _replaced(rnd: Random, what: re.Pattern[bytes], data: bytes, by: bytes) -> bytes:
    found = list(what.finditer(data))
    if not found:
        return data
    match = rnd.choice(found)
    return data[: match.start()] + by + data[match.end() :]
