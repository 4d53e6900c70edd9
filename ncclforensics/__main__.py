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


def one_thread() -> None:
    """Let numpy start no threads: nothing multiplies matrices, and they prevent forks.

    For a process of its own, before numpy is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run() -> NoReturn:
    """Run the command line and exit.

    Ctrl-C ends the process during the import, and is ignored after the answer.
    """
    signal.signal(signal.SIGINT, _stop)
    one_thread()
    from ncclforensics.cli import main

    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # a final garbage collection would take a tenth of a second
    sys.exit(code)


if __name__ == "__main__":
    run()
