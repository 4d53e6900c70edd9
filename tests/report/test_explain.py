"""Prose is filled, commands stay, and sections keep their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.report.class_docs import HEADINGS
from ncclforensics.report.explain import fill, render_class, render_classes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.report.class_docs import Documented


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
