"""What messages capture has the types that are told of it, of a parser or of a file."""

from __future__ import annotations

import polars as pl
import pytest

from ncclforensics.model import tables
from ncclforensics.parsers.logs import captures, event_rows, grammar

MESSAGES = grammar.load()


def recognised(message):
    for sample in message.samples:
        raw = sample["line"].strip("\n").split("\n")
        lines = pl.DataFrame({"line": range(1, len(raw) + 1), "raw": raw})
        yield event_rows.recognise(lines, 1, MESSAGES).messages[message.id]


@pytest.fixture
def captured():
    """A message with an inner structure, whose first columns are those of `events`."""
    (message,) = (m for m in MESSAGES if m.id == "c10d.fingerprint")
    return next(recognised(message)).with_columns(pl.lit("a.log").alias("source"))


@pytest.mark.parametrize(
    "inner", sorted({message.inner for message in MESSAGES if message.inner})
)
def test_a_structures_columns_have_the_types_that_are_told(inner):
    for message in (m for m in MESSAGES if m.inner == inner):
        for frame in recognised(message):
            told = captures.schema(message, frame.columns)
            for column, dtype in frame.schema.items():
                assert dtype in (told[column], pl.List(pl.Null)), (message.id, column)


TRACEBACK = """Traceback (most recent call last):
  File "/job/train.py", line 3, in step
    run()
ValueError: bad batch"""


def test_a_structures_columns_come_all_together():
    for message in (m for m in MESSAGES if m.inner):
        for frame in recognised(message):
            found = set(captures.columns(message.inner)) & set(frame.columns)
            alone = found - set(message.columns) - set(tables.SCHEMAS["events"])
            assert not alone or found == set(captures.columns(message.inner))


def test_a_structure_that_lacks_a_column_has_it_as_nulls():
    raw = TRACEBACK.split("\n")
    lines = pl.DataFrame({"line": range(1, len(raw) + 1), "raw": raw})
    found = event_rows.recognise(lines, 1, MESSAGES).messages["python.traceback"]
    whole = found.with_columns(pl.lit("a.log").alias("source"))
    for column in captures.columns("traceback"):
        told = captures.conform("python.traceback", whole.drop(column))
        assert told.schema[column] == whole.schema[column]
        assert set(told.columns) == set(whole.columns)
    torn = whole.drop(captures.columns("traceback"))
    assert captures.conform("python.traceback", torn).columns == torn.columns


def test_a_frame_as_it_was_written_stays_as_it_is(captured):
    assert captures.conform("c10d.fingerprint", captured).equals(captured)


def test_a_capture_that_is_not_there_is_null(captured):
    without = captured.drop("op")
    told = captures.conform("c10d.fingerprint", without.drop("seq"))
    assert told.columns[: len(without.columns) - 1] == without.drop("seq").columns


@pytest.mark.parametrize("column", ["rank", "t", "is_peer", "shape", "dtype"])
def test_a_column_of_another_type_is_refused(captured, column):
    odd = pl.lit(1.5) if column != "dtype" else pl.lit(True)
    with pytest.raises(ValueError, match=column):
        captures.conform("c10d.fingerprint", captured.with_columns(odd.alias(column)))


def test_a_message_without_its_place_is_refused(captured):
    with pytest.raises(ValueError, match="source"):
        captures.conform("c10d.fingerprint", captured.drop("source"))
    with pytest.raises(ValueError, match="line"):
        captures.conform("of.another.version", captured.drop("line"))
