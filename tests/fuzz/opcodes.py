"""Mutates pickles opcode by opcode, so that what comes of it is a pickle again.

Most bytes of a pickle are a length or an opcode, and with one of them changed the rest
is noise. Here whole opcodes go, come twice, change places or get another argument of
the same width: entries that are almost like the one before.
"""

from __future__ import annotations

import pickletools
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

# of one kind, which a reader may take for one another
KINDS = [
    b"KMJG\x8a",  # numbers
    b"N\x88\x89",
    b"])}",
    b"qrhj\x94",  # what puts into the memo and gets out of it
    b"aesu",
    b"t\x85\x86\x87",
]
ARGUMENTS = {ord("K"): 1, ord("M"): 2, ord("J"): 4, ord("G"): 8}


def mutated(rnd: Random, data: bytes, longest: int) -> bytes:
    """Return a pickle with some opcodes changed, of `longest` bytes at most."""
    ops = list(_opcodes(data))
    if len(ops) < 3:
        return data[:longest]
    for _ in range(rnd.choice((1, 1, 2, 3, 6))):
        at = rnd.randrange(1, len(ops))
        to = min(len(ops), at + rnd.choice((1, 1, 2, 3, 8, 30, 100)))
        match rnd.randrange(9):
            case 0:
                del ops[at:to]
            case 1:
                ops[at:at] = ops[at:to]
            case 2:
                start = rnd.randrange(1, len(ops))
                ops[start:start] = ops[at:to]
            case 3 | 4:
                ops[at] = _other(rnd, ops[at])
            case 5 | 6 | 7:
                ops[at] = _argument(rnd, ops[at])
            case _:
                ops[at:at] = [_other(rnd, rnd.choice(ops))]
        if len(ops) < 3:
            break
    return b"".join(ops)[:longest]


@lru_cache(1024)
def _opcodes(data: bytes) -> list[bytes]:
    """Cut a pickle into its opcodes with their arguments; the last may be any bytes."""
    starts = []
    try:
        starts.extend(at or 0 for _, _, at in pickletools.genops(data))
    except ValueError:
        pass
    except Exception:  # what pickletools makes of odd arguments
        pass
    return [data[a:b] for a, b in pairwise([*starts, len(data)])]


def _other(rnd: Random, op: bytes) -> bytes:
    """Return another opcode of the same kind, with an argument of its own."""
    kind = next((k for k in KINDS if op[:1] in [bytes([c]) for c in k]), None)
    if kind is None:
        return op
    other = rnd.choice(kind)
    if other in ARGUMENTS:
        return bytes([other]) + rnd.randbytes(ARGUMENTS[other])
    if other == 0x8A:
        size = rnd.choice((1, 5, 7, 8, 8, 9))
        return b"\x8a" + bytes([size]) + rnd.randbytes(size)
    if other in b"qh":
        return bytes([other, rnd.randrange(24)])
    if other in b"rj":
        return bytes([other]) + rnd.randrange(24).to_bytes(4, "little")
    return bytes([other])


def _argument(rnd: Random, op: bytes) -> bytes:
    """Change a byte of an argument, seldom of a length."""
    first = 5 if op[:1] == b"X" else 2 if op[:1] in (b"\x8c", b"\x8a") else 1
    if len(op) <= first:
        return op
    at = rnd.randrange(1 if rnd.random() < 0.05 else first, len(op))
    byte = rnd.choice((rnd.randrange(256), op[at] ^ (1 << rnd.randrange(8)), 0, 255))
    return op[:at] + bytes([byte]) + op[at + 1 :]
