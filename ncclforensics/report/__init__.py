"""The immutable result (the JSON contract) and its renderers.

`build` turns ranked findings into a `contract.Report`; each renderer is a function of
that report alone and computes nothing. Everything that came out of a log is cleaned
once, in `build`; each renderer then escapes for what it writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncclforensics.report.build import build

__all__ = ["build"]


def __getattr__(name: str) -> Any:
    """Import `build` where it is used: `--help` needs nothing of the contract."""
    if name == "build":
        from ncclforensics.report.build import build

        return build
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
