"""The commands are imported where a wheel is built, with click alone beside them."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def needed():
    """The modules of all dependencies but click."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = (line.partition(">")[0] for line in project["dependencies"])
    named = {"pyyaml": "yaml", "python-dateutil": "dateutil"}
    return sorted({named.get(n, n).replace("-", "_") for n in names} - {"click"})


def test_the_commands_need_nothing_but_click_to_be_listed():
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({needed()!r}))\n"
        "from hatch_build import page\n"
        "print(len(page()) > 1000)\n"
    )
    # the build hook itself stands on hatchling, which the test extra has
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")
