"""New lines as `watch` reads them from a file."""

from pathlib import Path

from ncclforensics.sources.model import Source
from ncclforensics.watch import signs
from ncclforensics.watch.tails import New, Tail


def read(*lines, number=1):
    """The signs in lines that were just added to the file with a number."""
    source = Source(f"{number}.log", Path(f"{number}.log"), "log", "")
    data = "".join(f"{line}\n" for line in lines).encode()
    return signs.read([New(Tail(number, source), data, 0.0)])
