"""The Python API: light to import, shown by a notebook, with plain frames."""

from __future__ import annotations

import html
import re
import subprocess
import sys

import polars as pl
import pytest

import ncclforensics
from ncclforensics.model.errors import UsageError
from ncclforensics.model.tables import SCHEMAS


@pytest.fixture(scope="module")
def found(request):
    jobs = request.path.parent / "fixtures" / "jobs"
    return ncclforensics.analyze(jobs / "torch-missing-rank-two-hosts" / "evidence")


def test_the_answer_is_at_hand(found):
    assert found.outcome == "failure"
    assert found.verdict.slug == "missing-rank"
    assert found.verdict.culprits.ranks == (6,)
    assert found.findings[0].role == "root"
    assert str(found).startswith("missing-rank: rank 6 on gpu0002 ")


def test_it_prints_as_text_also_where_rich_would_show_it(found, monkeypatch):
    plain = str(found)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(found) == plain
    assert repr(found) == (
        "<Incident missing-rank: rank 6 on gpu0002 certain: rank 6 never joined"
        " all_reduce SeqNum=5 on process group 0 (default_pg)>"
    )


def test_frames_are_plain_polars_frames(found):
    assert set(SCHEMAS) <= found.frames.keys()
    assert all(isinstance(frame, pl.DataFrame) for frame in found.frames.values())
    assert found.frames["calls"]["absent"].to_list() == [[6]]
    assert found.frames["message.c10d.gloo.timeout"].height


def test_a_notebook_shows_the_page_apart_from_its_own(found):
    shown = found._repr_html_()
    frame = re.fullmatch(
        r'<iframe sandbox srcdoc="([^"]*)" style="[^"]*"></iframe>', shown
    )
    assert frame
    page = html.unescape(frame[1])
    assert page.startswith("<!doctype html>")
    assert "How far the ranks came" in page
    assert found._repr_markdown_().startswith("**`missing-rank`: rank 6 on gpu0002**")


def test_it_saves_and_redacts(found, tmp_path):
    file = found.save(tmp_path / "a.md", redact="hosts")
    assert "rank 6 on host2" in file.read_text()
    with pytest.raises(UsageError, match="--force"):
        found.save(file)
    with pytest.raises(UsageError, match="suffix"):
        found.save(tmp_path / "a.docx")


def test_several_paths_are_one_incident(request):
    jobs = request.path.parent / "fixtures" / "jobs"
    folder = jobs / "torch-missing-rank-two-hosts" / "evidence"
    parts = sorted(folder.iterdir())
    found = ncclforensics.analyze(parts, world_size=8)
    assert found.verdict.culprits.ranks == (6,)


def test_the_import_is_light_and_strangers_are_errors():
    code = (
        "import sys, ncclforensics\n"
        "heavy = {'polars', 'rich', 'jinja2', 'click', 'msgspec', 'pyparsing'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "ncclforensics.analyze\n"
        "assert 'polars' in sys.modules\n"
        "assert not {'textual', 'httpx2', 'click', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'analyse'"):
        ncclforensics.analyse  # noqa: B018
