"""Entry point of `python -m ncclforensics` and of the installed `ncclforensics`."""

from __future__ import annotations

import gc
import os
import signal
import sys

TYPE_CHECKING = False  # typing takes longer to import than the rest of this module
if TYPE_CHECKING:
    from typing import NoReturn


def _stop(*_: object) -> NoReturn:
    """Exit at once on Ctrl-C, while the command line is not imported yet."""
    os.write(2, b"\nncclforensics: error: interrupted\n")
    os._exit(130)


def modest() -> None:
    """Let numpy start no threads, and polars give freed memory back within 0.1 s.

    Nothing multiplies matrices, and threads prevent forks. jemalloc, which polars
    allocates with, keeps freed pages for 10 s: a sixth of the memory of a large job.
    For a process of its own, before numpy and polars are imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")


def run() -> NoReturn:
    """Run the command line and exit.

    Ctrl-C ends the process during the import, and is ignored after the answer.
    """
    signal.signal(signal.SIGINT, _stop)
    modest()
    from ncclforensics.cli import main

    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # a final garbage collection would take a tenth of a second
    sys.exit(code)


if __name__ == "__main__":
    run()
