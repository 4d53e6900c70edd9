"""The command line: one module per group of commands, and the terminal writers.

Importing this package imports nothing else: `--help` is instant.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would be most of this import
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process; return its exit code."""
    from ncclforensics.cli import commands

    return commands.main(arguments)
