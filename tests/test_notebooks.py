"""The notebooks run from top to bottom in a real kernel, and hold no outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells(file, kind):
    document = json.loads(file.read_text("utf-8"))
    found = [c for c in document["cells"] if c["cell_type"] == kind]
    return document, ["".join(c["source"]) for c in found], found


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_every_cell_runs_in_a_real_kernel_and_shows_something(file, monkeypatch):
    # imported by this test alone, and in the test extra
    import nbclient
    import nbformat

    # no debugger, no history file: nothing but the cells
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(file.parent)}},
    )
    client.km = client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    ran = client.execute()
    outputs = [o for c in ran.cells if c.cell_type == "code" for o in c.outputs]
    assert "text/html" in {kind for o in outputs for kind in o.get("data", {})}
    assert all(all(o["data"].values()) for o in outputs if "data" in o)
    assert "error" not in {o.output_type for o in outputs}
    assert "Warning" not in "".join(o.text for o in outputs if "text" in o)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_no_output_is_kept(file):
    document, _, found = cells(file, "code")
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in found)
    assert document["nbformat"] == 4
    assert (ROOT / "notebooks").exists()


def test_there_are_four():
    names = {"incident", "compare", "questions", "history"}
    assert {f.stem for f in NOTEBOOKS} == names
