"""The zip: every form of a report, excerpts, frames; bounded, and what is cut said."""

from __future__ import annotations

import io
import zipfile

import polars as pl
import pytest

from ncclforensics.analysis import analyze
from ncclforensics.diagnosers import CLASSES
from ncclforensics.model.errors import UsageError
from ncclforensics.report.bundle import check, paper, write
from ncclforensics.report.formats import archive
from ncclforensics.report.formats.as_json import decode


@pytest.fixture
def made(jobs):
    folder = jobs / "torch-missing-rank-two-hosts" / "evidence"
    found = analyze([str(folder)], quote=True)
    return paper(found.report, found.frames, found.excerpts, CLASSES)


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_it_holds_every_form_the_excerpts_and_the_frames(made):
    data, cut = made.render(".zip")
    found = members(data)
    assert cut == ()
    for name in ("report.md", "report.html", "report.json"):
        assert found[name] == made.render(f".{name.partition('.')[2]}")[0]
    assert decode(found["report.json"]) == made.report
    frame = pl.read_parquet(io.BytesIO(found["frames/calls.parquet"]))
    assert frame.equals(made.frames["calls"])
    assert (
        found["excerpts/001.txt"]
        .splitlines()[-1]
        .endswith(b"saving checkpoint to /job/ckpt")
    )
    listed = found["README.txt"].decode()
    assert all(name in listed for name in found if name != "README.txt")


def test_long_frames_are_cut_and_said(made, monkeypatch):
    monkeypatch.setattr(archive, "MOST_ROWS", 3)
    data, cut = made.render(".zip")
    assert "collectives: 3 of 39 rows" in cut
    found = members(data)
    assert pl.read_parquet(io.BytesIO(found["frames/collectives.parquet"])).height == 3
    assert b"cut: collectives: 3 of 39 rows" in found["README.txt"]


def test_a_saved_report_has_no_frames_and_says_so(made):
    data, _ = paper(made.report, None, (), CLASSES).render(".zip")
    found = members(data)
    assert not [name for name in found if "/" in name]
    assert b"no frames and no excerpts" in found["README.txt"]


def test_the_fingerprint_is_the_evidence_s_own(made):
    assert made.fingerprint() == made.fingerprint()
    assert len(made.fingerprint()) == 12
    assert (
        made.fingerprint()
        != paper(
            type(made.report)(
                **{f: getattr(made.report, f) for f in made.report.__struct_fields__}
                | {"sources": made.report.sources[1:]}
            ),
            None,
            (),
            CLASSES,
        ).fingerprint()
    )


def test_a_file_is_not_overwritten_unasked(tmp_path):
    file = tmp_path / "a.md"
    write(file, b"one", force=False)
    with pytest.raises(UsageError, match="exists; --force overwrites it"):
        write(file, b"two", force=False)
    assert file.read_bytes() == b"one"
    write(file, b"two", force=True)
    assert [f.name for f in tmp_path.iterdir()] == ["a.md"]
    assert file.read_bytes() == b"two"


@pytest.mark.parametrize("name", ["a.pdf", "a", "none/a.md", "."])
def test_a_bad_place_is_said_before_any_work(tmp_path, name):
    with pytest.raises(UsageError):
        check(tmp_path / name, force=True)
