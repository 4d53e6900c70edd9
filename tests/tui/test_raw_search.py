"""The search of all files: which lines it finds, and where it ends."""

import pytest

from ncclforensics.sources import discover
from ncclforensics.tui import raw_search
from ncclforensics.tui.raw_search import Hit, Results, find


@pytest.fixture
def found(tmp_path):
    """Search files, given as name=content, for a word; returns hits and the progress."""

    def search(word, **contents):
        for name, content in contents.items():
            (tmp_path / f"{name}.log").write_bytes(content)
        sources = discover([str(tmp_path)], tmp_path.parent / "scratch").sources
        made = list(find(word, sources))
        return [hit for progress in made for hit in progress.hits], made

    return search


def test_a_line_is_found_once_in_either_case_with_its_number(found):
    hits, _ = found("loss", a=b"no\nLoss and loss\n\nthe LOSS\n", b=b"x\n", c=b"loss")
    assert hits == [
        Hit("a.log", 2, "Loss and loss"),
        Hit("a.log", 4, "the LOSS"),
        Hit("c.log", 1, "loss"),
    ]


def test_numbers_go_on_over_the_blocks_of_a_large_file(found):
    line = b"a line that has nothing of interest in it\n"
    hits, _ = found("needle", a=line * 100_000 + b"needle\n" + line * 9 + b"needle")
    assert [hit.line for hit in hits] == [100_001, 100_011]


def test_a_word_far_into_a_long_line_is_shown(found):
    hits, _ = found("needle", a=b"x\n" + b"y" * 5000 + b" needle " + b"z" * 5000)
    (hit,) = hits
    assert hit.line == 2
    assert "needle" in hit.text
    assert len(hit.text) < 500


def test_no_letter_of_a_word_means_anything_but_itself(found):
    hits, _ = found("[a.c]*", a=b"abc\n[a.c]*\n")
    assert [hit.line for hit in hits] == [2]


def test_a_noisy_file_does_not_take_the_place_of_the_others(found, monkeypatch):
    monkeypatch.setattr(raw_search, "MOST_OF_FILE", 3)
    hits, made = found("x", a=b"x\n" * 10, b=b"x\n")
    assert [(hit.source, hit.line) for hit in hits] == [
        *(("a.log", n) for n in (1, 2, 3)),
        ("b.log", 1),
    ]
    assert sum(progress.skipped for progress in made) == 7
    assert not any(progress.is_full for progress in made)


def test_one_file_alone_is_listed_whole(found, monkeypatch):
    monkeypatch.setattr(raw_search, "MOST_OF_FILE", 3)
    hits, made = found("x", a=b"x\n" * 10)
    assert len(hits) == 10
    assert sum(progress.skipped for progress in made) == 0


def test_the_search_ends_where_enough_was_found(found, monkeypatch):
    monkeypatch.setattr(raw_search, "MOST", 4)
    hits, made = found("x", a=b"x\n" * 3, b=b"x\n" * 3, c=b"x\n")
    assert [(hit.source, hit.line) for hit in hits][-1] == ("b.log", 1)
    assert made[-1].is_full


def test_a_file_that_went_away_has_no_lines_and_the_others_are_searched(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.log").write_text("x\n")
    sources = discover([str(tmp_path)], tmp_path.parent / "scratch").sources
    (tmp_path / "a.log").unlink()
    hits = [hit for progress in find("x", sources) for hit in progress.hits]
    assert [hit.source for hit in hits] == ["b.log"]


def test_steps_go_around_the_ends():
    results = Results("x", [Hit("a", n, "") for n in (1, 2, 3)])
    assert [results.step(s).line for s in (1, 1, 1, 1, -1, -1)] == [1, 2, 3, 1, 3, 2]
    assert Results("x").step(1) is None
