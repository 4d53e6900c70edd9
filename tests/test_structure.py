"""What design.md promises of the whole: lists that forget nothing, imports that hold."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import ncclforensics
from ncclforensics import diagnosers
from ncclforensics.cli import commands
from ncclforensics.diagnosers import CLASSES, domains
from ncclforensics.report.contract import Domain

PACKAGE = Path(ncclforensics.__file__).parent
HEADINGS = ("What it means", "How we know", "What to do", "Looks like", "References")


def test_every_module_with_a_diagnoser_is_listed():
    folder = PACKAGE / "diagnosers"
    with_one = {f.stem for f in folder.glob("*.py") if "\nFAMILY = " in f.read_text()}
    assert set(diagnosers.ORDER) == with_one


def test_every_class_is_documented_under_its_five_headings():
    for diagnoser in CLASSES.values():
        lines = diagnoser.doc.splitlines()
        assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
        assert len(lines[0]) <= 88
        assert lines[0].endswith(".")


def test_no_class_explains_itself_and_every_class_explained_is_spelled_right():
    known = set(CLASSES)
    listed = (PACKAGE.parent / "tests" / "failure_classes.txt").read_text().split()
    for diagnoser in CLASSES.values():
        assert diagnoser.slug not in diagnoser.explains
        assert set(diagnoser.explains) <= known | set(listed)


def test_the_analysis_draws_nothing_and_needs_no_torch():
    code = (
        "import sys, ncclforensics.analysis\n"
        "heavy = {'rich', 'textual', 'click', 'jinja2', 'torch', 'httpx'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_file_is_longer_than_the_house_style_ends():
    long = [f for f in PACKAGE.rglob("*.py") if len(f.read_text().splitlines()) > 400]
    assert long == []


def test_one_wheel_brings_the_grammars_the_schema_and_the_man_page(tmp_path):
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        tmp_path,
    ]
    root = PACKAGE.parent
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from ncclforensics.parsers.logs import grammar\n"
        "assert str(grammar.grammar_folder()).startswith(sys.argv[1])\n"
        "assert len(grammar.load()) > 100\n"
        "from importlib.resources import files\n"
        "from ncclforensics.report.formats import as_json\n"
        "told = files('ncclforensics') / 'schemas/report-v1.json'\n"
        "assert told.read_text('utf-8') == as_json.schema()"
    )
    unpacked = tmp_path / "wheel"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, unpacked], check=True)
    subprocess.run([sys.executable, "-P", "-c", code, unpacked], check=True)
    (page,) = unpacked.glob("*.data/data/share/man/man1/ncclforensics.1")
    assert page.read_text("utf-8") == man_page()


def man_page():
    command = [sys.executable, "hatch_build.py"]
    root = PACKAGE.parent
    return subprocess.run(
        command, cwd=root, check=True, capture_output=True, text=True
    ).stdout


def test_the_man_page_has_every_command_with_its_options_and_is_clean_roff():
    page = man_page().replace(r"\-", "-")
    for name, command in commands.cli.commands.items():
        assert (f'.SS "ncclforensics {name} ' in page) is not command.hidden
    for option in ("-f, --format", "--config FILE", "-h, --help", "--redact KINDS"):
        assert f"\n\\fB{option}" in page
    assert "130  interrupted" in page
    if groff := shutil.which("groff"):
        command = [groff, "-man", "-ww", "-Kutf8", "-Tutf8"]
        done = subprocess.run(command, input=man_page().encode(), capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_every_class_says_where_it_lies_and_whether_to_start_again():
    assert set(domains.DOMAINS) == set(CLASSES)
    allowed = {domains.YES, domains.UNKNOWN, domains.CODE, domains.SETUP, domains.DRAIN}
    assert {restart for _, restart in domains.DOMAINS.values()} <= allowed
    # a stage that tells nothing of its domain tells nothing of a restart
    unknown = [r for d, r in domains.DOMAINS.values() if d == domains.UNKNOWN]
    assert set(unknown) == {domains.UNKNOWN}
    more = [lies for some in domains.VARIANTS.values() for lies in some.values()]
    assert set(domains.VARIANTS) <= set(CLASSES)
    assert {lies.restart for lies in more} <= allowed
    assert {lies.domain for lies in more} <= {*get_args(Domain)}
