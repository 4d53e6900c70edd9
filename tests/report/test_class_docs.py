"""A docstring is split at its headings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.class_docs import HEADINGS, page, references

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.report.class_docs import Documented

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
