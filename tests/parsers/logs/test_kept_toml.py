"""Parsed TOML is kept beside the bytecode, and is never that of other files."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from ncclforensics.parsers.logs import grammar, kept_toml


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """The folder of the bytecode."""
    folder = tmp_path / "bytecode"
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(
        importlib.util, "cache_from_source", lambda _: str(folder / "kept_toml.pyc")
    )
    return folder


@pytest.fixture
def ask(beside, tmp_path):
    """Ask for the contents of a file with some text; say whether it was parsed."""

    def call(text):
        file = tmp_path / "a.toml"
        file.write_text(text, "utf-8")
        parsed = []

        def parse(path):
            parsed.append(path)
            return tomllib.loads(path.read_text("utf-8"))

        (told,) = kept_toml.contents([file], parse)
        return told, bool(parsed)

    return call


def test_the_same_text_is_parsed_once(ask, beside):
    assert ask("a = [1, 2.5]\nb = 'é'") == ({"a": [1, 2.5], "b": "é"}, True)
    assert ask("a = [1, 2.5]\nb = 'é'") == ({"a": [1, 2.5], "b": "é"}, False)
    assert len([*beside.iterdir()]) == 1


def test_another_text_is_parsed_and_takes_the_place_of_the_first(ask, beside):
    ask("a = 1")
    assert ask("a = 2") == ({"a": 2}, True)
    assert ask("a = 2") == ({"a": 2}, False)
    assert len([*beside.iterdir()]) == 1


@pytest.mark.parametrize("damage", [b"", b"[{]", b"[1]", b"\xff"])
def test_what_was_damaged_is_parsed_anew(ask, beside, damage):
    ask("a = 1")
    (kept,) = beside.iterdir()
    kept.write_bytes(damage)
    assert ask("a = 1") == ({"a": 1}, True)
    assert ask("a = 1") == ({"a": 1}, False)


def test_what_json_cannot_hold_is_not_kept(ask):
    told, _ = ask("a = 2026-01-01")
    assert ask("a = 2026-01-01") == (told, True)


def test_where_nobody_may_write_all_is_parsed(ask, beside, monkeypatch):
    beside.write_text("no folder")
    assert ask("a = 1") == ({"a": 1}, True)
    assert ask("a = 1") == ({"a": 1}, True)
    beside.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    ask("a = 1")
    assert not beside.exists()


def test_kept_grammars_are_those_of_the_files(beside):
    files = sorted(grammar.grammar_folder().glob("*.toml"))
    each = tuple(message for file in files for message in grammar.load_file(file))
    for _ in range(2):
        told = grammar.load.__wrapped__()
        assert [*map(repr, told)] == [*map(repr, each)]
    assert len([*Path(beside).iterdir()]) == 1
