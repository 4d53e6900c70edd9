"""The map of the house in CONTRIBUTING.md is the tree as it is."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
PACKAGE = ROOT / "ncclforensics"
MAP = re.compile(r"(<!-- map -->\n```text\n)(.*?)(```\n)", re.S)


def first_line(module: Path) -> str:
    doc = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return doc.splitlines()[0]


def drawn() -> str:
    """The rooms, two spaces a floor, each with the first line of its docstring."""
    places = [PACKAGE / "analysis.py", PACKAGE / "api.py"]
    places += sorted(file.parent for file in PACKAGE.rglob("*/__init__.py"))
    lines = []
    for place in places:
        depth = len(place.relative_to(PACKAGE).parts) - 1
        name = "  " * depth + place.name + ("" if place.suffix else "/")
        module = place if place.suffix else place / "__init__.py"
        lines.append(f"{name:22}{first_line(module)}")
    return "".join(f"{line}\n" for line in lines)


def test_the_map_is_the_tree(request):
    text = PAGE.read_text("utf-8")
    if request.config.getoption("--write-goldens"):
        PAGE.write_text(MAP.sub(lambda m: m[1] + drawn() + m[3], text), "utf-8")
    assert MAP.search(PAGE.read_text("utf-8"))[2] == drawn()


@pytest.mark.parametrize(
    "file", re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE.read_text("utf-8"))
)
def test_every_file_that_the_page_names_exists(file):
    assert (ROOT / file).is_file() or (PACKAGE / file).is_file()


def test_no_folder_of_tests_is_of_a_room_that_is_gone():
    others = {"faults", "fixtures", "fuzz", "hostile", "lab", "live", "packaging"}
    folders = {f.name for f in (ROOT / "tests").iterdir() if f.is_dir()}
    rooms = {f.parent.name for f in PACKAGE.glob("*/__init__.py")}
    assert folders - others - {"__pycache__"} <= rooms
