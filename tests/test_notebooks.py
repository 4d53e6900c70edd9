"""The notebooks run from top to bottom, and hold no outputs.

Their cells are run here as a kernel runs them, the value of a last expression shown:
the real one and what it needs are a hundred megabytes.
"""

from __future__ import annotations

import ast
import json
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
def test_no_output_is_kept(file):
    document, _, found = cells(file, "code")
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in found)
    assert document["nbformat"] == 4
    assert (ROOT / "notebooks").exists()


def test_there_are_three():
    assert {f.stem for f in NOTEBOOKS} == {"incident", "compare", "questions"}
