"""The Python API: light to import, shown by a notebook, with plain frames."""

from __future__ import annotations

import html
import pydoc
import re
import subprocess
import sys
from datetime import UTC, datetime

import polars as pl
import pytest

import ncclforensics
from ncclforensics.model.errors import UsageError
from ncclforensics.model.frame_docs import ROWS
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


def test_help_tells_every_frame_with_its_columns(found):
    shown = pydoc.render_doc(found.frames, renderer=pydoc.plaintext)
    lines = [line.strip(" |") for line in shown.splitlines()]
    assert ROWS.keys() == SCHEMAS.keys()
    for name, schema in SCHEMAS.items():
        at = lines.index(f"{name}: {ROWS[name]}")
        told = lines[at + 1 : at + 1 + len(schema)]
        assert [line.split(maxsplit=1) for line in told] == [
            [column, str(dtype)] for column, dtype in schema.items()
        ]


def test_the_frames_show_as_a_list_of_those_with_rows(found):
    assert "exits " not in repr(ncclforensics.api.Tables({"exits": pl.DataFrame()}))
    height = found.frames["calls"].height
    assert re.search(rf"^calls +{height} rows$", repr(found.frames), re.M)


def test_options_are_checked(found, jobs):
    folder = jobs / "torch-missing-rank-two-hosts" / "evidence"
    with pytest.raises(UsageError, match="did you mean missing-rank"):
        ncclforensics.analyze(folder, select="missing-rnk")
    with pytest.raises(UsageError, match="is not a time such as"):
        ncclforensics.analyze(folder, since="yesterday")
    with pytest.raises(TypeError, match="world_sise"):
        ncclforensics.analyze(folder, world_sise=4)
    later = datetime(2100, 1, 1, tzinfo=UTC)
    assert found.outcome == "failure"
    assert ncclforensics.analyze(folder, since=later).outcome != "failure"
    without = ncclforensics.analyze(folder, ignore=["missing-rank"])
    assert "missing-rank" not in {finding.slug for finding in without.findings}


def test_tab_offers_what_is_not_imported_yet():
    code = (
        "import sys, rlcompleter, ncclforensics\n"
        "names = dir(ncclforensics)\n"
        "assert 'polars' not in sys.modules\n"
        "print(*names)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["Incident", "__version__", "analyze"]


def test_a_notebook_shows_the_page_apart_from_its_own(found):
    shown = found._repr_html_()
    frame = re.fullmatch(
        r'<iframe sandbox srcdoc="([^"]*)" style="[^"]*"></iframe>', shown
    )
    assert frame
    page = html.unescape(frame[1])
    assert page.startswith("<!doctype html>")
    assert "What each rank did" in page
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
