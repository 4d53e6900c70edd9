"""The commands that serve until they are stopped: mcp."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ncclforensics.cli import options
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(
    epilog=options.examples(
        "ncclforensics mcp ./logs",
        "claude mcp add nccl -- ncclforensics mcp /shared/logs --redact hosts,ips",
    )
)
@options.redacts
@click.option("--no-cache", is_flag=True, help="Read all anew, keep nothing.")
@options.paths
def mcp(paths: Sequence[str], redact: str | None, no_cache: bool) -> int:
    """Serve read-only tools to an agent, over stdin and stdout.

    The Model Context Protocol has them as analyze, evidence, explain and lines. They
    read only what PATH names or what lies in it. What an agent reads goes to its model:
    --redact hides names before. It needs the extra: pip install 'ncclforensics[mcp]'.
    """
    from ncclforensics.engine.interrupts import scratch_folder
    from ncclforensics.report.redact import kinds
    from ncclforensics.servers.mcp_stdio import serve
    from ncclforensics.servers.tools import Tools

    _exist(paths)
    with scratch_folder() as scratch:
        hidden = kinds(redact)
        serve(Tools(list(paths), scratch, hidden, options.kept(no_cache)))
    return ExitCode.OK


def _exist(paths: Sequence[str]) -> None:
    """Raise UsageError on stdin, and on a path that is not there and is no glob."""
    for path in paths:
        if path == "-":
            raise UsageError("a server reads files, not stdin: give it a path")
        if not Path(path).exists() and not set(path) & set("*?["):
            raise UsageError(f"no such file or directory: {path}")
