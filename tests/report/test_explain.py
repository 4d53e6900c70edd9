"""A docstring is split at its headings and filled without touching commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.explain import (
    HEADINGS,
    fill,
    page,
    references,
    render_class,
    render_classes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.report.explain import Documented

PLAIN = """The class in one
line.

More on it.

What it means
A thing happened. What it means is this.

Looks like (and why it is not):

    straggler: late.
"""


def test_a_page_has_the_sections_of_the_docstring(
    classes: Mapping[str, Documented],
) -> None:
    split = page(classes["missing-rank"].doc)
    assert split.summary == "One rank of a group never joins a collective."
    assert tuple(split.sections) == HEADINGS
    assert split.sections["How we know"] == (
        "- its position is behind\n  that of its peers"
    )


def test_plain_paragraphs_and_remarks_at_headings_are_understood() -> None:
    split = page(PLAIN)
    assert split.summary == "The class in one line."
    assert split.sections == {
        "What it means": "A thing happened. What it means is this.",
        "Looks like": "straggler: late.",
    }


def test_references_are_one_each(classes: Mapping[str, Documented]) -> None:
    assert references(classes["missing-rank"].doc) == (
        "https://pytorch.org/docs/stable/distributed.html",
        "ProcessGroupNCCL.cpp, function runLoop",
    )
    assert references(PLAIN) == ()


def test_commands_stay_and_prose_fills() -> None:
    text = "one two\nthree\n\n    cmd --a  --b\n\n- item one\n  two\n- item"
    assert fill(text, 12) == [
        "one two",
        "three",
        "",
        "    cmd --a  --b",
        "",
        "- item one",
        "  two",
        "- item",
    ]


def test_a_class_is_explained_in_the_order_of_headings(
    classes: Mapping[str, Documented],
) -> None:
    text = render_class(classes["missing-rank"])
    assert text.startswith("missing-rank (desync)\nOne rank of a group never joins")
    places = [text.index(f"\n{heading}\n") for heading in HEADINGS]
    assert places == sorted(places)
    assert "py-spy dump --pid 1234 --native --subprocesses --nonblocking" in text


def test_the_list_has_one_line_per_class(classes: Mapping[str, Documented]) -> None:
    assert render_classes(classes).splitlines() == [
        "missing-rank     desync     One rank of a group never joins a collective.",
        "timeout-masking  runtime    A timeout hides a cause.",
        "gpu-oom          dead-rank  A GPU ran out of memory.",
    ]
