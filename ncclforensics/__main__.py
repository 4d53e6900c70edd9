"""The process: `python -m ncclforensics`, and what is installed as `ncclforensics`."""

from __future__ import annotations

import gc
import os
import signal
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from typing import NoReturn


def _stop(*_: object) -> NoReturn:
    """End where there is nothing yet to clean up: before the command line is there."""
    os.write(2, b"\nncclforensics: error: interrupted\n")
    os._exit(130)


def run() -> NoReturn:
    """Run the command line and exit.

    A Ctrl-C while it is imported ends the process, one after the answer has nothing to
    stop.
    """
    signal.signal(signal.SIGINT, _stop)
    from ncclforensics.cli.commands import main

    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # to search all that is left for garbage takes a tenth of a second
    sys.exit(code)


if __name__ == "__main__":
    run()
