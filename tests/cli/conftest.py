"""What tests of commands share."""

import pytest

from ncclforensics.cli import commands

# what this machine may set, and a command would use
SET = (
    *("GH_TOKEN", "GITHUB_TOKEN"),
    *("NCCLFORENSICS_KEEP", "NCCLFORENSICS_STORE"),
)


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Return a function that runs a command: its code, stdout and stderr."""
    for name in SET:
        monkeypatch.delenv(name, raising=False)

    def call(*args):
        code = commands.main([str(arg) for arg in args])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call
