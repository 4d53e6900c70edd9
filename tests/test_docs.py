"""The site has a page for all that the tool knows, and it builds."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from ncclforensics.cli.commands import cli
from ncclforensics.diagnosers import CLASSES
from ncclforensics.history import results
from ncclforensics.parsers.logs import grammar
from ncclforensics.report import contract
from ncclforensics.report.class_docs import HEADINGS, page
from ncclforensics.theory.weights import WEIGHTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(generate):
    return generate.pages()


def sections(text):
    """The texts of a page by their headings of the second level."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def rows(text):
    """The rows of the tables of a text, as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines]


@pytest.mark.parametrize("slug", CLASSES)
def test_every_class_has_a_page_with_text_under_its_five_headings(pages, slug):
    found = sections(pages[f"classes/{slug}.md"])
    assert tuple(found)[: len(HEADINGS)] == HEADINGS
    assert all(found.values())


def test_every_class_is_in_the_overview_once_under_its_family(pages):
    found = {
        (family, *row)
        for family, text in sections(pages["classes/index.md"]).items()
        for row in rows(text)[2:]
    }
    assert found == {
        (d.family, f"[`{d.slug}`]({d.slug}.md)", page(d.doc).summary)
        for d in CLASSES.values()
    }


def test_every_message_is_on_exactly_one_page_with_a_line(pages):
    found = [
        (heading.split()[0], "```text\n" in text)
        for path, content in pages.items()
        if path.startswith("messages/") and path != "messages/index.md"
        for heading, text in sections(content).items()
    ]
    assert sorted(found) == sorted((message.id, True) for message in grammar.load())


def test_every_weight_is_in_the_table_with_its_bits_and_reason(pages):
    table = rows(sections(pages["theory.md"])["Weights"])[2:]
    assert [name for name, _, _ in table] == list(WEIGHTS)
    for name, bits, reason in table:
        assert (float(bits), reason) == WEIGHTS[name]


def test_the_example_of_the_theory_adds_up_and_is_won_by_the_cheapest(pages):
    stories = rows(sections(pages["theory.md"])["Weighing"])[2:]
    bits = [float(cost) for _, _, cost, _ in stories]
    assert stories[0][:2] == ["`rank-conditional-collective`", "0"]
    assert bits == sorted(bits)
    for _, _, cost, parts in stories:
        told = sum(float(part.split()[-1]) for part in parts.split(" + "))
        assert float(cost) == pytest.approx(told, abs=0.1 * (parts.count("+") + 1))


def test_every_field_of_the_report_has_a_meaning_and_no_meaning_is_left_over(pages):
    found = {
        (name, row[0].strip("`"))
        for name, text in sections(pages["json.md"]).items()
        for row in rows(text)[2:]
        if row[2]
    }
    roots = (contract.Report, contract.Line)
    _, schemas = msgspec.json.schema_components(roots, ref_template="{name}")
    fields = {(n, f) for n, schema in schemas.items() for f in schema["properties"]}
    assert found == fields
    meanings = tomllib.loads((DOCS / "report_fields.toml").read_text("utf-8"))
    assert {(n, f) for n, known in meanings.items() for f in known} <= fields


def test_every_field_of_the_answers_of_history_is_on_its_page(pages):
    found = {*re.findall(r"`([^`]+)`", sections(pages["history.md"])["JSON"])}
    roots = (results.Listing, results.Counts, results.Node)
    _, schemas = msgspec.json.schema_components(roots, ref_template="{name}")
    schemas.pop("Tool")
    assert {f for schema in schemas.values() for f in schema["properties"]} <= found


def test_every_command_that_is_listed_has_its_help(pages):
    found = sections(pages["cli.md"])
    for name, command in cli.commands.items():
        assert (f"ncclforensics {name}" in found) is not command.hidden
    assert "--redact" in found["ncclforensics analyze"]
    assert "Usage: " in found["ncclforensics grammars check"]


def test_the_commands_and_fields_that_agents_are_told_exist(pages):
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    assert pages["agents.md"].startswith("# ncclforensics for agents")
    lines = re.findall(r"^ncclforensics (.+?) +#", text, flags=re.MULTILINE)
    assert len(lines) > 5
    for line in lines:
        name, *words = line.split()
        known = {o for p in cli.commands[name].params for o in p.opts}
        assert {w for w in words if w.startswith("-")} <= known
    fields = re.findall(r"`([a-z_.]+)`", " ".join(r[0] for r in rows(text)[2:]))
    for field in fields:
        struct, _, inner = field.rpartition(".")
        of = contract.Verdict if struct else contract.Report
        assert inner in of.__struct_encode_fields__


def test_every_page_stands_once_in_the_navigation(generate, pages):
    def flat(entry):
        match entry:
            case str():
                return [entry]
            case dict():
                return [path for below in entry.values() for path in flat(below)]
        return [path for below in entry for path in flat(below)]

    assert sorted(flat(generate.navigation())) == sorted(pages)


def test_the_home_page_is_the_beginning_of_the_readme(generate, monkeypatch, tmp_path):
    readme = (ROOT / "README.md").read_text("utf-8")
    text = generate.beginning()
    assert readme.startswith(text.partition("## What to collect")[0])
    for name in generate.HOME:
        assert name in text
    (tmp_path / "README.md").write_text(
        "\n".join([*generate.HOME, "see [notes](notebooks/), [torch](https://x.org/)"])
    )
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.beginning().endswith("see notes, [torch](https://x.org/)")


def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    for module in ("mkdocs", "material", "mkdocs_gen_files"):
        pytest.importorskip(module)
    # --quiet would drop the warnings before --strict counts them
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    files = {f.relative_to(tmp_path).as_posix(): f for f in tmp_path.rglob("*.html")}
    assert files.keys() >= {"index.html", "theory.html", "classes/missing-rank.html"}
    for file in files.values():
        text = file.read_text("utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+"https?://[^>]*>', text)
        assert str(ROOT) not in text
