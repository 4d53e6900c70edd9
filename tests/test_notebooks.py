"""The notebooks run from top to bottom, and hold no outputs.

Once in this process, where a failure is quickly found, and once by a real kernel, as
Jupyter does it (where the test extra is installed whole).
"""

from __future__ import annotations

import ast
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


def shown(value):
    """What a notebook would show of a value."""
    for name in ("_repr_html_", "_repr_markdown_"):
        if hasattr(type(value), name):
            return getattr(value, name)()
    return repr(value)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_every_cell_runs_and_shows_something(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    space = {"__name__": "__main__"}
    for number, source in enumerate(cells(file, "code")[1]):
        tree = ast.parse(source, f"{file.name}[{number}]")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{file.name}[{number}]", "exec"), space)
        if last is not None:
            body = ast.Expression(last.value)
            value = eval(compile(body, f"{file.name}[{number}]", "eval"), space)
            assert value is None or shown(value)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_a_real_kernel_runs_it(file, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
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
    shown = [c for c in ran.cells if c.cell_type == "code" and c.outputs]
    kinds = {kind for c in shown for o in c.outputs for kind in o.get("data", {})}
    assert "text/html" in kinds
    assert not any(o.output_type == "error" for c in shown for o in c.outputs)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_no_output_is_kept(file):
    document, _, found = cells(file, "code")
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in found)
    assert document["nbformat"] == 4
    assert (ROOT / "notebooks").exists()


def test_there_are_four():
    names = {"incident", "compare", "questions", "history"}
    assert {f.stem for f in NOTEBOOKS} == names
