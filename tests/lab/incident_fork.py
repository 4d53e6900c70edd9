"""Starts the tasks of one host from one interpreter, which has imported torch once.

    python incident_fork.py TASKS FIRST OUTPUT train.py ARGUMENT…

Sixty-four imports of torch take minutes on two cores. Each task is a process with its
own rank and its own output file, as srun starts it with `--output=…-%t.out`.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import torch.distributed  # noqa: F401  what all tasks share


def task(rank: int, local: int, output: str, program: list[str]) -> int:
    """Run the program as one rank, and return how it ended."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(local)}
    file = os.open(output.replace("%t", str(rank)), os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = program
    path = Path(program[0]).absolute()
    code = compile(path.read_text(), str(path), "exec")
    try:
        exec(code, {"__name__": "__main__", "__file__": str(path)})
    except BaseException as error:
        # a traceback as of the program alone
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def main() -> None:
    """Fork the tasks, and end with them."""
    many, first, output, *program = sys.argv[1:]
    children = []
    for local in range(int(many)):
        child = os.fork()
        if not child:
            code = task(int(first) + local, local, output, program)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        children.append(child)

    def stop(number: int, _frame: object) -> None:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
