"""Reads a truncated or damaged pickle: everything complete before the damage.

The C unpickler returns nothing for a truncated dump. This module executes the opcodes
that c10d's and Python's picklers write for plain data, and at the damage it closes the
open containers. An incomplete entry is dropped: its missing fields would look as if
torch had not written them.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ncclforensics.parsers.limits import MAX_OPCODES

LITERALS = frozenset(
    {
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    }
)
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
IGNORED = frozenset({"PROTO", "FRAME"})
REFUSED = frozenset(
    {
        *("GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "REDUCE", "BUILD"),
        *("NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"),
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded dump: its value, the byte where reading ended, and why, if early."""

    value: object
    end: int
    problem: str | None


class _StopError(Exception):
    """Ends the walk; the message is the reason."""


@dataclass(slots=True)
class _Machine:
    """The pickle machine; `levels` are the stacks between the open marks."""

    levels: list[list[Any]] = field(default_factory=lambda: [[]])
    memo: dict[int, Any] = field(default_factory=dict)

    def step(self, name: str, arg: Any) -> None:
        """Execute one opcode. Raises _StopError or IndexError if that is impossible."""
        stack = self.levels[-1]
        if name in LITERALS:
            stack.append(arg)
        elif name in ("BINGET", "LONG_BINGET"):
            if arg not in self.memo:
                raise _StopError(f"damaged: value {arg} was never stored")
            stack.append(self.memo[arg])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[arg] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "MARK":
            self.levels.append([])
        elif name == "APPENDS":
            _extend(self.close()[-1], stack)
        elif name == "SETITEMS":
            _update(self.close()[-1], stack)
        elif name == "APPEND":
            item = stack.pop()
            _extend(stack[-1], [item])
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _update(stack[-1], [key, value])
        elif name in TUPLES:
            if len(stack) < TUPLES[name]:
                raise IndexError
            stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
        elif name == "TUPLE":
            self.close().append(tuple(stack))
        elif name in REFUSED:
            raise _StopError(f"refused {_wanted(name, arg, stack)}")
        elif name not in IGNORED:
            raise _StopError(f"damaged: opcode {name}")

    def close(self) -> list[Any]:
        """Remove the topmost mark and return the stack below it."""
        if len(self.levels) < 2:
            raise IndexError
        self.levels.pop()
        return self.levels[-1]

    def salvage(self) -> object:
        """Close the open containers and return the outermost value.

        A list of entries keeps its complete entries; a dict of such lists or of smaller
        dicts keeps its complete members. Anything deeper is incomplete and dropped.
        """
        base = self.levels[0]
        if not base:
            return None
        root = base[0]
        depth = 0 if len(base) == 1 else 1
        deepest = 1 if isinstance(root, dict) else 0
        kept = []
        for above, below in zip(self.levels[1:], self.levels, strict=False):
            if not below:
                break
            if depth > deepest:
                below.pop()
                break
            kept.append((below[-1], above))
            depth += 1
        for container, items in reversed(kept):
            if isinstance(container, list):
                container.extend(x for x in items if isinstance(x, dict) and x)
            elif isinstance(container, dict):
                _update(container, items[: len(items) // 2 * 2], lenient=True)
        if isinstance(root, dict):
            _update(root, base[1:3], lenient=True)
        return root


def _extend(target: Any, items: list[Any]) -> None:
    if type(target) is not list:
        raise _StopError("damaged: items for what is no list")
    target.extend(items)


def _update(target: Any, items: list[Any], lenient: bool = False) -> None:
    """Put pairs into a dict; keys must be str or int, others could hash forever."""
    if type(target) is not dict:
        raise _StopError("damaged: members for what is no dict")
    for key, value in zip(items[::2], items[1::2], strict=False):
        if type(key) in (str, int):
            target[key] = value
        elif not lenient:
            raise _StopError(f"damaged: a key of type {type(key).__name__}")


def _wanted(name: str, arg: Any, stack: list[Any]) -> str:
    if name in ("GLOBAL", "INST"):
        return f"class {str(arg).replace(' ', '.', 1)[:200]}"
    if name == "STACK_GLOBAL" and all(isinstance(x, str) for x in stack[-2:]):
        return f"class {'.'.join(stack[-2:])[:200]}"
    return f"opcode {name}"


def recover(data: bytes) -> Loaded:
    """Read the pickle `data` as far as it is intact and plain; never raises.

    `problem` starts with "cut", "damaged" or "refused"; it is None if the pickle ended
    with STOP and nothing was open.
    """
    machine = _Machine()
    position = 0
    problem: str | None = f"damaged: more than {MAX_OPCODES:,} opcodes"
    try:
        for opcode, arg, at in islice(pickletools.genops(data), MAX_OPCODES):
            position = at or 0
            if opcode.name == "STOP":
                whole = len(machine.levels) == 1 and len(machine.levels[0]) == 1
                problem = None if whole else "damaged: it stops with values open"
                position += 1
                break
            machine.step(opcode.name, arg)
    except _StopError as stop:
        problem = str(stop)
    except IndexError:
        problem = "damaged: an opcode without the values it takes"
    except ValueError as error:
        position, problem = _why(data, position, str(error))
    return Loaded(machine.salvage(), position, problem)


def _why(data: bytes, last: int, error: str) -> tuple[int, str]:
    """Distinguish truncation from damage by the ValueError after byte `last`."""
    if "unknown" in error:
        return last, "damaged: an unknown opcode"
    if "exhausted" in error or "expected" in error or "not enough" in error:
        return len(data), "cut"
    return last, f"damaged: {error[:80]}"
