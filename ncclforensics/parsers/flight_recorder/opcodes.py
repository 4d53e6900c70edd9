"""Walks the opcodes of a part of a pickle: where its dict ends, which bytes may vary.

Entries of many dumps have the same structure, so a structure that was walked once is
not walked again. Supports the opcodes that c10d's and Python's picklers write for a
dump, and gives up on all others. Builds no values: only the unpickler interprets a
part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# kinds of a part's bytes: opcodes and lengths (the structure), their arguments, numbers
# that differ between entries, memo indices
STRUCTURE, CONTENT, NUMBER, PLACE = range(4)

MARK, TUPLE, SETITEMS, MEMOIZE, FRAME, LONG1, PROTO, STOP = b"(tu\x94\x95\x8a\x80."
TEXTS = b"X\x8c"
PUTS = b"qr"
NUMBERS = b"KMJG\x8a"
CONTAINERS = b"]}"
CLOSING = b"eut"  # these pop down to the last mark
FILLING = {ord("a"): 1, ord("s"): 2}  # values that each one pops
TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
# bytes of an argument, or of the length in front of it
ARGUMENTS = {
    **dict.fromkeys(b"N\x88\x89]})(eutas.\x85\x86\x87\x94", 0),
    **dict.fromkeys(b"Khq\x80", 1),
    **dict.fromkeys(b"Jjr", 4),
    **dict.fromkeys(b"M", 2),
    **dict.fromkeys(b"G\x95", 8),
}
LENGTHS = {ord("X"): 4, 0x8C: 1, LONG1: 1}
MASK = b"\xff".ljust(256, b"\0")  # maps STRUCTURE to 0xff, other kinds to 0
MOST_KNOWN = 16  # parts cached per length
MOST_BYTES = 16 * 1024**2  # bytes of all cached parts


class IrregularError(Exception):
    """A pickle is not regular enough to be shortened."""


@dataclass(slots=True)
class Part:
    """The structure of a part; all offsets are relative to its start.

    `kinds` has one kind per byte. `numbers` are (key, opcode, value) of the numeric
    members of the outermost dict, `closed` is where that dict ends. `memoized` and
    `frames` are the offsets of MEMOIZE and FRAME opcodes, `places` the explicit memo
    indices, `texts` the memoized texts: (text, memo index or the slice that holds it).
    """

    kinds: bytearray
    numbers: list[tuple[slice, int, slice]] = field(default_factory=list)
    memoized: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    places: list[slice] = field(default_factory=list)
    texts: list[tuple[slice, slice | int]] = field(default_factory=list)
    closed: int | None = None


class Walks:
    """Cache of walked parts, reused for every part of the same structure."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._known: dict[int, list[tuple[int, int, Part]]] = {}
        self._bytes = 0

    def walk(self, data: bytes, start: int, end: int) -> Part:
        """Return the same as `walk`, from the cache if possible."""
        known = self._known.get(end - start, ())
        found = int.from_bytes(data[start:end], "little")
        for mask, structure, part in known:
            if found & mask == structure:
                return part
        part = walk(data, start, end)
        mask = int.from_bytes(part.kinds.translate(MASK), "little")
        if len(known) < MOST_KNOWN:
            self._keep(end - start, (mask, found & mask, part))
        return part

    def _keep(self, length: int, known: tuple[int, int, Part]) -> None:
        self._bytes += length
        if self._bytes > MOST_BYTES:
            self._known.clear()
            self._bytes = length
        self._known.setdefault(length, []).append(known)


def walk(data: bytes, start: int, end: int) -> Part:
    """Walk the opcodes from `start` to `end`; the result depends on structure alone.

    Raises IrregularError on an unknown opcode, on one that modifies a value created
    outside of the part, and if the last one does not end at `end`.
    """
    part = Part(bytearray(end - start))
    marks: list[int] = []
    stack: list[bool] = []  # whether the value is a list or dict created here
    key = text = None
    at = start
    while at < end:
        op = data[at]
        content = at + 1
        if op in ARGUMENTS:
            size = ARGUMENTS[op]
        elif op in LENGTHS:
            content += LENGTHS[op]
            size = int.from_bytes(data[at + 1 : content], "little")
        else:
            raise IrregularError
        behind = content + size
        if behind > end:  # the length, up to 4 GiB, exceeds the data
            raise IrregularError
        if op == STOP and behind < end:  # trailing bytes are not part of the pickle
            raise IrregularError
        if size:
            kind = PLACE if op in PUTS else CONTENT
            part.kinds[content - start : behind - start] = bytes([kind]) * size
        if op in PUTS or op == MEMOIZE:
            place: slice | int = len(part.memoized)
            if op == MEMOIZE:
                part.memoized.append(at - start)
            else:
                place = slice(content - start, behind - start)
                part.places.append(place)
            if text:
                part.texts.append((text, place))
        elif op == FRAME:
            part.frames.append(at - start)
        elif op == MARK:
            marks.append(len(stack))
        elif op == STOP or (op in CLOSING and not marks):
            pass  # closes a mark that was set before this part
        elif op in CLOSING or op in FILLING:
            down = len(stack) - marks.pop() if op in CLOSING else FILLING[op]
            if op == TUPLE:
                del stack[len(stack) - down :]
                stack.append(False)
            elif not 0 <= down < len(stack) or not stack[-down - 1]:
                raise IrregularError  # fills a container that may be shared
            elif down:
                del stack[-down:]
            if op == SETITEMS and not marks and part.closed is None:
                part.closed = behind - start
        elif op in TUPLES:
            if len(stack) < TUPLES[op]:
                raise IrregularError
            stack[len(stack) - TUPLES[op] :] = [False]
        elif op != PROTO:
            if len(marks) == 1 and part.closed is None:
                if (len(stack) - marks[0]) % 2 == 0:
                    key = slice(at - start, behind - start)
                elif op in NUMBERS and key:
                    part.numbers.append(
                        (key, op, slice(content - start, behind - start))
                    )
            stack.append(op in CONTAINERS)
        text = slice(content - start, behind - start) if op in TEXTS else None
        at = behind
    if at != end:
        raise IrregularError
    return part


def texts(data: bytes, part: Part) -> dict[bytes, bytes]:
    """Return the memoized texts of a pickle's first part, by the fetching opcode."""
    return {
        fetching(at if isinstance(at, int) else number(data[at])): data[text]
        for text, at in part.texts
    }


def number(data: bytes) -> int:
    """Decode a memo index, little-endian."""
    return int.from_bytes(data, "little")


def fetching(place: int) -> bytes:
    """Return the opcode, with its argument, that fetches the memo index `place`."""
    if place < 256:
        return b"h%c" % place
    return b"j" + place.to_bytes(4, "little")
