"""What a check finds, and the facts of a node as checks see them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal["failed", "warning", "good", "unknown"]
STATUSES: tuple[Status, ...] = ("failed", "warning", "unknown", "good")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check on one node; `do` is what helps."""

    check: str
    status: Status
    text: str
    do: str = ""


class UnknownError(Exception):
    """A fact that the node does not tell; the text says why."""


class Facts:
    """The facts of one node, by name."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        """Wrap what `node.gathered` returned."""
        self._told = told
        self.host = str(told.get("host", ""))

    def __getitem__(self, name: str) -> Any:
        """Return a fact; UnknownError if the node does not tell it."""
        if name in self._told:
            return self._told[name]
        why = self._told.get("unknown", {}).get(name, "not told")
        raise UnknownError(f"not known: {why}")

    def variable(self, name: str) -> str | None:
        """Return a variable of the node's environment, None if it is not set."""
        value: str | None = self["environment"].get(name)
        return value


# a check returns (status, text), or text alone where all is good
Found = tuple[Status, str] | str
Check = Callable[[Facts], Found]


def run(check: Check, facts: Facts) -> Result:
    """Run a check; the last paragraph of its docstring says what to do."""
    name = check.__name__.replace("_", "-")
    try:
        found = check(facts)
    except UnknownError as missing:
        return Result(name, "unknown", str(missing))
    except (KeyError, TypeError, ValueError, AttributeError):
        return Result(name, "unknown", "not known: the node told it in another form")
    if isinstance(found, str):
        return Result(name, "good", found)
    status, text = found
    return Result(name, status, text, "" if status == "unknown" else remedy(check))


def remedy(check: Check) -> str:
    """Return what helps: the docstring's paragraph that begins with `Do:`."""
    parts = (inspect.getdoc(check) or "").split("\n\n")
    told = next((part for part in parts if part.startswith("Do:")), "")
    return " ".join(told.removeprefix("Do:").split()).removesuffix(".")
