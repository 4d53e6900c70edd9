"""The list beside the timeline: notes that say the same are one entry."""

import msgspec
import pytest

from ncclforensics.report.contract import Note
from ncclforensics.tui.model.entries import entries


@pytest.fixture
def noted(fixture_timeline):
    """Return the entries for notes of a report that has these (text, source, line)."""
    report = fixture_timeline("torch-healthy")[1]

    def make(*notes):
        notes = tuple(Note("parsers", *note) for note in notes)
        made = entries(msgspec.structs.replace(report, notes=notes))
        return [entry for entry in made if entry.label == "note"]

    return make


def test_notes_that_differ_in_digits_are_one_entry_with_a_count(noted):
    cut = [(f"the dump is cut at byte {n}", f"fr/rank_{n}", None) for n in range(300)]
    many, one = noted(*cut, ("half a line", "a.log", 7))
    assert many.text == "300 times, 300 files: the dump is cut at byte 0"
    lines = many.whole.splitlines()
    assert lines[1] == "fr/rank_0: the dump is cut at byte 0"
    assert lines[-1] == "and 250 more"
    assert one.text == "a.log: half a line"
    assert (one.cite.source, one.cite.line) == ("a.log", 7)


def test_notes_that_differ_in_words_stay_apart(noted):
    assert (
        len(noted(("the dump is cut", "a", None), ("the log is cut", "a", None))) == 2
    )
