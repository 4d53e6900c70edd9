"""The process: `python -m ncclforensics`, and what is installed as `ncclforensics`."""

import signal
import sys
from typing import NoReturn

from ncclforensics.cli import main


def run() -> NoReturn:
    """Run the command line and exit; a Ctrl-C after the answer has nothing to stop."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    run()
