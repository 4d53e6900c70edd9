"""What the README shows is what the tool prints."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from known_jobs import known
from ncclforensics.cli import commands
from ncclforensics.diagnosers import CLASSES
from ncclforensics.report.formats.text import render_text

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def classes_table() -> str:
    """The classes by family, each with the first line of its docstring."""
    rows = [
        f"| `{d.slug}` | {d.family} | {d.doc.strip().splitlines()[0]} |"
        for d in sorted(CLASSES.values(), key=lambda d: (d.family, d.slug))
    ]
    return "\n".join(
        ["| class | family | what it means |", "| --- | --- | --- |", *rows]
    )


def help_() -> str:
    """What `--help` prints into a pipe."""
    return (
        CliRunner().invoke(commands.cli, ["--help"], prog_name="ncclforensics").output
    )


def renewed(text: str) -> str:
    """Return the README with its generated parts as they should be."""
    text = re.sub(
        r"<!-- classes -->\n+(?:\|.*\n)*\n*",
        lambda m: f"<!-- classes -->\n\n{classes_table()}\n\n",
        text,
    )

    text = re.sub(
        r"<!-- help -->\n```console\n[^`]*(?:`[^`]+`[^`]*)*?\n```\n",
        lambda m: f"<!-- help -->\n```console\n$ ncclforensics --help\n{help_()}```\n",
        text,
    )

    def report(found):
        text = render_text(known(found[1]).report)
        return f"<!-- report {found[1]} -->\n```text\n{text}```\n"

    return re.sub(r"<!-- report (\S+) -->\n```text\n[^`]*```\n", report, text)


def test_the_readme_shows_the_classes_and_a_real_report(request):
    text = README.read_text("utf-8")
    if request.config.getoption("--write-goldens"):
        README.write_text(renewed(text), "utf-8")
    assert README.read_text("utf-8") == renewed(text)


@pytest.mark.parametrize("mark", ["try", "tests"])
def test_there_are_two_commands(mark):
    found = re.search(rf"<!-- {mark} -->\n```console\n\$ (.+)\n```", README.read_text())
    assert found
    assert found[1].startswith("pip install ")


def test_the_readme_has_a_row_for_every_command():
    table = README.read_text("utf-8").partition("| command | does |")[2]
    rows = table.partition("\n\n")[0]
    shown = [
        name for name, command in commands.cli.commands.items() if not command.hidden
    ]
    named = set(re.findall(r"`(?:ncclforensics )?([a-z]+)", rows))
    assert set(shown) <= named
