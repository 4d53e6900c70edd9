"""The commands that serve until they are stopped: serve and mcp."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ncclforensics.cli import console, options, stdout
from ncclforensics.model.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(
    epilog=options.examples(
        "ncclforensics mcp ./logs",
        "ncclforensics mcp /shared/logs --redact hosts,ips    # as an agent starts it",
    )
)
@options.redacts
@click.option("--no-cache", is_flag=True, help="Read everything again, cache nothing.")
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


@click.command(
    epilog=options.examples(
        "ncclforensics serve ./logs",
        "ssh -L 8765:127.0.0.1:8765 login1 ncclforensics serve ./logs --port 8765",
    )
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen on 127.0.0.1; any free port by default.",
)
@options.redacts
@options.decides
@options.reading
@options.any_color
@options.no_progress
@options.paths
def serve(port: int, no_progress: bool, color: str, **asked: Any) -> int:
    """Show the report and the frames to a browser, until Ctrl-C.

    It listens on 127.0.0.1 alone, and reads nothing but PATH, once, at its start. The
    URL that is printed holds a secret: whoever has it and reaches this machine's
    127.0.0.1 can read the report. From another machine, forward the port with ssh -L.
    """
    from ncclforensics.cli import publish
    from ncclforensics.servers.http import server
    from ncclforensics.servers.pages import Pages

    _exist(asked["paths"])
    made, interrupted = publish.made_of(**asked, hushed=no_progress)
    if interrupted:
        return console.ended(made.report, interrupted=True)
    listening, url = server(Pages(made), port)
    stdout.write(f"{url}\n")
    own = listening.server_port
    console.say(f"from another machine: ssh -L {own}:127.0.0.1:{own} HOST; Ctrl-C ends")
    with listening, contextlib.suppress(KeyboardInterrupt):
        listening.serve_forever()
    return ExitCode.OK


def _exist(paths: Sequence[str]) -> None:
    """Raise UsageError on stdin, and on a path that is not there and is no glob."""
    for path in paths:
        if path == "-":
            raise UsageError("a server reads files, not stdin: give it a path")
        if not Path(path).exists() and not set(path) & set("*?["):
            raise UsageError(f"no such file or directory: {path}")
