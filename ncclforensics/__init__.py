"""Names the rank, the host and the collective that hung or killed a training job."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would take most of the import time
if TYPE_CHECKING:
    from typing import Any

    from ncclforensics.api import Incident, analyze

__version__ = "0.1.0"
__all__ = ["Incident", "__version__", "analyze"]


def __getattr__(name: str) -> Any:
    """Import the Python API on first use, so that importing the package is instant."""
    if name in ("Incident", "analyze"):
        from ncclforensics import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what can be asked for, also before it is imported."""
    return sorted(__all__)
