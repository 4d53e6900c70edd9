"""Writes the pages of the site out of what the tool itself reads.

Each Markdown file of this folder is a Jinja template and becomes a page; `_class.md`
becomes one for each failure class, `_grammar.md` one for each grammar. mkdocs-gen-files
runs this file in every build.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ncclforensics import analysis, api
from ncclforensics.cli import settings
from ncclforensics.cli.commands import cli
from ncclforensics.diagnosers import CLASSES, FAMILIES
from ncclforensics.fleet import runner, ssh
from ncclforensics.history import limits, results
from ncclforensics.model.frame_docs import ROWS
from ncclforensics.model.tables import SCHEMAS
from ncclforensics.parsers.logs.grammar import grammar_folder, load_file
from ncclforensics.preflight import flight, variables
from ncclforensics.report import class_docs, contract
from ncclforensics.theory import program, suspects, weights
from ncclforensics.theory.weigh import weighed
from ncclforensics.watch import pauses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.story import Story

HERE = Path(__file__).parent
ROOT = HERE.parent
# of the README; its other sections have pages here, or are for developers
HOME = ("# ncclforensics", "## Try it", "## Use it", "## What to collect next time")
EXAMPLE = ROOT / "tests/fixtures/jobs/torch-rank-conditional/evidence"
ANSWERS = (
    *(results.Listing, results.Seen, results.Counts, results.Count),
    *(results.Standing, results.Node),
)
GRAMMARS = {file.stem: file for file in sorted(grammar_folder().glob("*.toml"))}
OF_FAMILY = {
    family: sorted(slug for slug, told in CLASSES.items() if told.family == family)
    for family in FAMILIES
}


def pages() -> dict[str, str]:
    """Return the text of every page by its path in the site."""
    templates = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        finalize=lambda value: f"{value:g}" if isinstance(value, float) else value,
        trim_blocks=True,
    )
    templates.filters |= {"prose": prose, "kind": kind, "head": head}
    templates.globals |= {
        "readme": beginning(),
        "classes": CLASSES,
        "families": OF_FAMILY,
        "class_docs": class_docs,
        "programs": {
            stem: tomllib.loads(file.read_text("utf-8"))["program"]
            for stem, file in GRAMMARS.items()
        },
        "messages": {stem: load_file(file) for stem, file in GRAMMARS.items()},
        "commands": list(commands(cli, "ncclforensics")),
        "agents": unlinked((ROOT / "AGENTS.md").read_text("utf-8")),
        "asked": sorted(settings.ASKED - {"help"}),
        "structs": list(structs()),
        "functions": [api.analyze, analysis.analyze],
        "incident": api.Incident,
        "doc": inspect.getdoc,
        "frames": SCHEMAS,
        "rows": ROWS,
        "program": program,
        "checks": flight.CHECKS,
        "variables": variables.VARIABLES,
        "ssh": ssh,
        "AT_ONCE": runner.AT_ONCE,
        "weights": weights,
        "suspects": suspects,
        "pauses": pauses,
        "history": limits,
        "answers": [
            (s.__name__, inspect.getdoc(s) or "", s.__struct_encode_fields__)
            for s in ANSWERS
        ],
        "stories": stories(),
    }
    read = templates.get_template
    written = sorted(HERE.rglob("[!_]*.md"))
    names = [file.relative_to(HERE).as_posix() for file in written]
    return {
        **{name: read(name).render() for name in names},
        **{f"classes/{s}.md": read("_class.md").render(slug=s) for s in CLASSES},
        **{f"messages/{s}.md": read("_grammar.md").render(stem=s) for s in GRAMMARS},
    }


def navigation() -> list[Any]:
    """Return the order of the pages, as `nav` in mkdocs.yml would have it."""
    classes = [{f: [f"classes/{s}.md" for s in of]} for f, of in OF_FAMILY.items()]
    messages = [f"messages/{stem}.md" for stem in GRAMMARS]
    return [
        {"Home": "index.md"},
        {"Failure classes": ["classes/index.md", *classes]},
        "theory.md",
        {"Log messages": ["messages/index.md", *messages]},
        *(
            "nodes.md",
            "watch.md",
            "history.md",
            "cli.md",
            "json.md",
            "api.md",
            "agents.md",
        ),
    ]


def beginning() -> str:
    """Return the sections HOME of the README, without links into the repository."""
    readme = (ROOT / "README.md").read_text("utf-8")
    parts = re.split(r"^(?=## )", readme, flags=re.MULTILINE)
    sections = {part.splitlines()[0]: part for part in parts}
    text = "".join(sections[heading] for heading in HOME)
    return unlinked(text)


def unlinked(text: str) -> str:
    """Return Markdown without its links into the repository."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def prose(text: str, slug: str = "") -> str:
    """Return plain text as Markdown, where `<` opens no tag.

    On the page of a class, `slug`, the names of other classes are links.
    """

    def part(found: re.Match[str]) -> str:
        if found[0] == "<":
            return "&lt;"
        is_link = slug and found[1] in CLASSES and found[1] != slug
        return f"[{found[0]}]({found[1]}.md)" if is_link else found[0]

    return re.sub(r"`([^`]+)`|<", part, text)


def structs() -> Iterator[tuple[str, str, list[tuple[str, Any, str]]]]:
    """Yield each struct of the JSON contract, and its fields: name, schema, meaning."""
    meanings = tomllib.loads((HERE / "report_fields.toml").read_text("utf-8"))
    roots = (contract.Report, contract.Line)
    _, schemas = msgspec.json.schema_components(roots, ref_template="{name}")
    for name, schema in schemas.items():
        struct = getattr(contract, name)
        means: dict[str, str] = {}
        for base in reversed(struct.__mro__):
            means |= meanings.get(base.__name__, {})
        fields = [(key, s, means[key]) for key, s in schema["properties"].items()]
        yield name, inspect.getdoc(struct) or "", fields


def kind(schema: dict[str, Any]) -> str:
    """Return the type of a field of the JSON report in words."""
    match schema:
        case {"$ref": name}:
            return f"[{name}](#{name.lower()})"
        case {"anyOf": kinds}:
            return " or ".join(map(kind, kinds))
        case {"enum": values}:
            return ", ".join(f"`{msgspec.json.encode(v).decode()}`" for v in values)
        case {"type": "array", "items": member}:
            return f"list of {kind(member)}"
    return str(schema["type"])


def commands(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of a command, and of all below it."""
    settings = {**cli.context_settings, "terminal_width": 80}
    context = click.Context(command, info_name=name, **settings)
    yield name, command.get_help(context)
    for below in getattr(command, "commands", {}).values():
        if not below.hidden:
            yield from commands(below, f"{name} {below.name}")


def head(told: Any) -> str:
    """Return the source of a function or property up to its body, as a block."""
    function = getattr(told, "fget", None) or getattr(told, "func", told)
    source = textwrap.dedent(inspect.getsource(function))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    lines = source.splitlines()[: node.body[0].lineno - 1]
    return "\n".join(["```python", *lines, "```"])


def stories() -> tuple[Story, ...]:
    """Return the stories of EXAMPLE, the cheapest first."""
    (end,) = weighed(analysis.analyze([str(EXAMPLE)]).frames).ends
    return end.story, *end.rivals


if __name__ == "<run_path>":
    import mkdocs_gen_files

    mkdocs_gen_files.config.nav = navigation()
    for path, text in pages().items():
        with mkdocs_gen_files.open(path, "w") as page:
            page.write(text)
