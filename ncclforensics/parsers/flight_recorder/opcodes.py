"""Walks the opcodes of a part of a pickle: where its dict ends, which bytes may vary.

Entries of many dumps are built alike: what is built like a part that was walked is not
walked again. Knows what c10d's pickler and Python's write for a dump, and gives up on
all else. It builds no values: what a part means is for the unpickler to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# what a byte of a part is: an opcode or a length, which make its structure; what they
# hold; a number that differs from entry to entry; the number of a place in the memo
STRUCTURE, CONTENT, NUMBER, PLACE = range(4)

MARK, TUPLE, SETITEMS, MEMOIZE, FRAME, LONG1, PROTO, STOP = b"(tu\x94\x95\x8a\x80."
TEXTS = b"X\x8c"
PUTS = b"qr"
NUMBERS = b"KMJG\x8a"
CONTAINERS = b"]}"
CLOSING = b"eut"  # down to the last mark
FILLING = {ord("a"): 1, ord("s"): 2}  # by so many values
TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
# how many bytes an argument has, or the length that stands before it
ARGUMENTS = {
    **dict.fromkeys(b"N\x88\x89]})(eutas.\x85\x86\x87\x94", 0),
    **dict.fromkeys(b"Khq\x80", 1),
    **dict.fromkeys(b"Jjr", 4),
    **dict.fromkeys(b"M", 2),
    **dict.fromkeys(b"G\x95", 8),
}
LENGTHS = {ord("X"): 4, 0x8C: 1, LONG1: 1}
MASK = b"\xff".ljust(256, b"\0")  # of the bytes that make the structure
MOST_KNOWN = 16  # parts of one length
MOST_BYTES = 16 * 1024**2  # of parts that are known


class IrregularError(Exception):
    """A pickle is not as regular as it has to be to be shortened."""


@dataclass(slots=True)
class Part:
    """How a part is built; a slice counts from its start.

    `kinds` has a kind a byte. `numbers` are (key, opcode, value) of the members of the
    outermost dict that are numbers, `closed` is where that dict ends. `memoized` and
    `frames` are where such opcodes stand, `places` the memo's numbers that are written
    out, `texts` the texts that are kept: (text, number of the memo or its place there).
    """

    kinds: bytearray
    numbers: list[tuple[slice, int, slice]] = field(default_factory=list)
    memoized: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    places: list[slice] = field(default_factory=list)
    texts: list[tuple[slice, slice | int]] = field(default_factory=list)
    closed: int | None = None


class Walks:
    """The parts that were walked, each as good for any other built like it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[int, list[tuple[int, int, Part]]] = {}
        self._bytes = 0

    def walk(self, data: bytes, start: int, end: int) -> Part:
        """Return what `walk` does."""
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
    """Walk from one opcode to another; what it returns depends on the structure alone.

    Raises IrregularError on an opcode that is not known, on one that changes a value
    from elsewhere, and where the last one does not end at `end`.
    """
    part = Part(bytearray(end - start))
    marks: list[int] = []
    stack: list[bool] = []  # whether it is a list or dict that was made here
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
        if behind > end:  # a length that the bytes do not have, up to 4 GiB
            raise IrregularError
        if op == STOP and behind < end:  # what follows is no pickle
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
            pass  # of what was opened before this part
        elif op in CLOSING or op in FILLING:
            down = len(stack) - marks.pop() if op in CLOSING else FILLING[op]
            if op == TUPLE:
                del stack[len(stack) - down :]
                stack.append(False)
            elif not 0 <= down < len(stack) or not stack[-down - 1]:
                raise IrregularError  # fills what others may hold, too
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
    """Return the texts that a pickle's first part keeps, by what fetches them."""
    return {
        fetching(at if isinstance(at, int) else number(data[at])): data[text]
        for text, at in part.texts
    }


def number(data: bytes) -> int:
    """Return the number that the bytes of a place are."""
    return int.from_bytes(data, "little")


def fetching(place: int) -> bytes:
    """Return the opcode that fetches what is kept at a place."""
    if place < 256:
        return b"h%c" % place
    return b"j" + place.to_bytes(4, "little")
