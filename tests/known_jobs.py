"""What is made of the evidence under fixtures, each once for all tests.

For tests of what is made of it; nothing of it can be changed. The workers of one run
share it: `shared` is their folder, None for a process alone.
"""

import fcntl
import pickle
from functools import cache
from pathlib import Path

JOBS = Path(__file__).parent / "fixtures" / "jobs"
shared = None


@cache
def known(name):
    """Return the analysis of a job, by the name of its folder."""
    from ncclforensics.analysis import analyze

    return once(f"{name}.analysis", lambda: analyze([str(JOBS / name / "evidence")]))


@cache
def parsed(folder):
    """Return the `removal.Incident` of a folder with `evidence` and its truth."""
    import removal

    return once(f"{folder.name}.parsed", lambda: removal.incident(folder))


@cache
def explained(folder):
    """Return the frames, the ranked findings and the report of what is `parsed`."""
    from ncclforensics.analysis import explain

    def make():
        return explain(parsed(folder).frames.without(()))

    return once(f"{folder.name}.explained", make)


def once(name, make):
    """Return what `make` returns, which one of the processes that share it calls.

    It is known to them by `name`, and can be pickled.
    """
    if shared is None:
        return make()
    kept = shared / name
    with (shared / f"{name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # until it is closed
        if kept.exists():
            return pickle.loads(kept.read_bytes())  # noqa: S301 - this run wrote it
        found = make()
        kept.write_bytes(pickle.dumps(found))
        return found
