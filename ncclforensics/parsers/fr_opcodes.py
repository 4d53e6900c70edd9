"""Walks the opcodes of a part of a pickle: where its dict ends, which bytes may differ.

Knows what c10d's pickler and Python's write for a dump, and gives up on all else. It
builds no values: what a part means is for the unpickler to say.
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


class IrregularError(Exception):
    """A pickle is not as regular as it has to be to be shortened."""


@dataclass(slots=True)
class Part:
    """What a walk found; offsets count from the start of the part.

    `kinds` has a kind a byte. `numbers` are (key, opcode, offset, width) of the members
    of the outermost dict that are numbers, `closed` is where that dict ends. `memoized`
    and `frames` are where such opcodes stand, `places` the memo's numbers that are
    written out, `texts` the texts kept here, by the opcode that fetches them.
    """

    kinds: bytearray
    numbers: list[tuple[bytes, int, int, int]] = field(default_factory=list)
    memoized: list[int] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    texts: dict[bytes, bytes] = field(default_factory=dict)
    closed: int | None = None


def walk(data: bytes, start: int, end: int, memo: int = 0) -> Part:
    """Walk from one opcode to another; `memo` counts the values kept before.

    Raises IrregularError on an opcode that is not known, on one that changes a value
    from elsewhere, and where the last one does not end at `end`.
    """
    part = Part(bytearray(end - start))
    marks: list[int] = []
    stack: list[bool] = []  # whether it is a list or dict that was made here
    key = text = b""
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
        if size:
            kind = PLACE if op in PUTS else CONTENT
            part.kinds[content - start : behind - start] = bytes([kind]) * size
        if op in PUTS or op == MEMOIZE:
            place = int.from_bytes(data[content:behind], "little")
            if op == MEMOIZE:
                place = memo + len(part.memoized)
                part.memoized.append(at - start)
            else:
                part.places.append(place)
            if text:
                part.texts[fetching(place)] = text
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
            elif len(stack) <= down or not stack[-down - 1]:
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
                    key = data[at:behind]
                elif op in NUMBERS:
                    part.numbers.append((key, op, content - start, size))
            stack.append(op in CONTAINERS)
        text = data[content:behind] if op in TEXTS else b""
        at = behind
    if at != end:
        raise IrregularError
    return part


def fetching(place: int) -> bytes:
    """Return the opcode that fetches what is kept at a place."""
    if place < 256:
        return b"h%c" % place
    return b"j" + place.to_bytes(4, "little")
