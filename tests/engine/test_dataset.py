"""What hosts ingested side by side is analyzed as the evidence itself."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from known_jobs import known
from log_lines import traceback
from ncclforensics import analysis
from ncclforensics.cli import commands
from ncclforensics.engine import dataset, pool, reading, untrusted
from ncclforensics.model.errors import UsageError
from ncclforensics.model.tables import TIME
from ncclforensics.parsers.logs import captures
from ncclforensics.report.formats.as_json import render_json
from ncclforensics.sources import discover

JOBS = Path(__file__).parents[1] / "fixtures" / "jobs"
ALL = sorted(folder.name for folder in JOBS.iterdir() if folder.is_dir())
SLUGS = ALL[::4]
HUNG = JOBS / "torch-missing-rank-two-hosts" / "evidence"
pytestmark = pytest.mark.usefixtures("trusted")


def report(*paths) -> str:
    if paths == (HUNG,):
        return known_report(HUNG.parent.name)
    return render_json(analysis.analyze([str(path) for path in paths]).report)


def known_report(slug) -> str:
    return render_json(known(slug).report)


def ingest(path, name="", *, to):
    assert commands.main(["ingest", str(path), "-q", "-o", str(to), "--as", name]) == 0


@pytest.mark.parametrize("slug", SLUGS)
def test_a_dataset_says_what_its_evidence_says(tmp_path, slug, monkeypatch):
    # that a process of its own reads it is the matter of the tests below
    monkeypatch.setattr(untrusted, "apart", pool.here)
    evidence = JOBS / slug / "evidence"
    ingest(evidence, to=tmp_path / "set")
    assert report(tmp_path / "set") == known_report(slug)


LAST = "torch-apart-rank-conditional"  # its last line is one that no grammar knows


def test_the_last_line_of_a_log_is_kept(tmp_path):
    ingest(JOBS / LAST / "evidence", to=tmp_path)
    last = analysis.analyze([str(tmp_path)]).report.last_line
    assert last.place == "logs/rank_0.log:7"
    assert last.text == "gathering the scores of the validation set"


def test_of_a_log_that_ranks_share_no_line_is_kept(tmp_path):
    (tmp_path / "a.log").write_text(f"{traceback(0, 'E: x')}{traceback(1, 'E: x')}end")
    (tmp_path / "b.log").write_text(f"at work\n{traceback(2, 'E: x')}end")
    ingest(tmp_path / "a.log", to=tmp_path / "set", name="a")
    ingest(tmp_path / "b.log", to=tmp_path / "set", name="b")
    told = dataset.load([str(tmp_path / "set")], is_ours=True)["last_lines"]
    assert told.select("source", "line", "text").rows() == [("b/b.log", 1, "at work")]


def test_shares_of_hosts_are_one_job_in_any_order(tmp_path):
    whole = report(HUNG)
    parts = sorted(HUNG.iterdir())
    for order in (parts, parts[::-1]):
        root = tmp_path / order[0].name
        names = [part.name if part.is_dir() else "" for part in order]
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(ingest, to=root), order, names))
        assert len(list((root / "shares").iterdir())) == len(parts)
        assert report(root) == whole


def test_a_dataset_beside_evidence_and_another_dataset(tmp_path):
    first, *others = sorted(HUNG.iterdir())
    ingest(first, to=tmp_path / "a", name=first.name)
    for other in others:
        ingest(other, other.name if other.is_dir() else "", to=tmp_path / "b")
    alone = analysis.analyze([str(tmp_path / "a"), *map(str, others)])
    both = analysis.analyze([str(tmp_path / "a"), str(tmp_path / "b")])
    assert render_json(alone.report) == render_json(both.report)
    assert (
        both.frames["sources"].height
        == known(HUNG.parent.name).frames["sources"].height
    )


def test_the_same_share_twice_is_one(tmp_path):
    once = tmp_path / "once"
    ingest(HUNG, to=once)
    ingest(HUNG, to=once)
    ingest(HUNG / "fr", to=once, name="fr")
    assert len(list((once / "shares").iterdir())) == 2
    assert report(once) == report(HUNG)


def test_two_files_of_one_name_are_not_mixed(tmp_path):
    for host in "ab":
        (tmp_path / host).mkdir()
        (tmp_path / host / "x.log").write_text(f"gpu{host}:1:2 [0] NCCL INFO x\n")
        ingest(tmp_path / host, to=tmp_path / "set")
        ingest(tmp_path / host, to=tmp_path / "named", name=host)
    with pytest.raises(UsageError, match=r"a file called x\.log: ingest with --as"):
        report(tmp_path / "set")
    named = analysis.analyze([str(tmp_path / "named")]).frames["sources"]
    assert named["source"].to_list() == ["a/x.log", "b/x.log"]


def test_a_share_that_was_broken_off_is_not_there(tmp_path):
    ingest(HUNG / "fr", to=tmp_path, name="fr")
    before = report(tmp_path)
    frames = reading.read(analysis.discover([str(HUNG)], tmp_path).sources)
    share = dataset.name(frames)
    (tmp_path / "exits").mkdir(exist_ok=True)
    frames["exits"].write_parquet(tmp_path / "exits" / f"{share}.parquet")
    assert report(tmp_path) == before


@pytest.mark.parametrize("damage", ["cut", "gone", "of another schema"])
def test_a_damaged_dataset_is_said_in_one_line(tmp_path, damage, capsys):
    ingest(HUNG, to=tmp_path)
    (file,) = (tmp_path / "events").iterdir()
    match damage:
        case "cut":
            file.write_bytes(file.read_bytes()[:100])
        case "gone":
            file.unlink()
        case _:
            pl.DataFrame({"source": ["x"], "stranger": [1]}).write_parquet(file)
    assert commands.main(["analyze", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ncclforensics: error: ")
    assert "cannot be read" in error
    assert error.count("\n") == 1


def test_a_file_that_changed_is_named_and_never_given_to_polars(tmp_path, monkeypatch):
    ingest(HUNG / "fr", to=tmp_path)
    (file,) = (tmp_path / "positions").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    read = pl.read_parquet
    given = []

    def noted(path, **options):
        given.append(str(path))
        return read(path, **options)

    monkeypatch.setattr(pl, "read_parquet", noted)
    with pytest.raises(UsageError, match=f"{file} was changed or damaged"):
        dataset.load([str(tmp_path)], is_ours=True)
    assert given
    assert str(file) not in given


def test_a_share_without_hashes_is_read(tmp_path):
    ingest(HUNG / "fr", to=tmp_path)
    before = report(tmp_path)
    (file,) = (tmp_path / "shares").iterdir()
    pl.read_parquet(file).drop("sha256").write_parquet(file)
    assert report(tmp_path) == before


def test_a_share_that_names_a_file_elsewhere_is_not_read(tmp_path, capsys):
    ingest(HUNG / "fr", to=tmp_path, name="fr")
    before = analysis.analyze([str(tmp_path)]).report
    evil = pl.DataFrame({"frame": ["../../events", "sources"], "rows": [1, 1]})
    evil.write_parquet(tmp_path / "shares" / "0123456789abcdef.parquet")
    found = analysis.analyze([str(tmp_path)]).report
    assert found.verdict == before.verdict
    told = [note.text for note in found.notes if note not in before.notes]
    assert len(told) == 1
    assert "share 0123456789abcdef" in told[0]
    assert "it names files elsewhere" in told[0]


def test_a_folder_with_a_name_like_a_pattern_is_that_folder(tmp_path):
    ingest(HUNG / "fr", to=tmp_path / "run[1]")
    (tmp_path / "run1").mkdir()
    assert report(tmp_path / "run[1]") == report(HUNG / "fr")


def test_evidence_in_a_folder_called_shares_is_evidence(tmp_path):
    shutil.copytree(HUNG / "fr", tmp_path / "shares")
    assert '"missing-rank"' in report(tmp_path)


def test_a_dataset_is_not_ingested_again(tmp_path):
    ingest(HUNG, to=tmp_path)
    assert commands.main(["ingest", str(tmp_path), "-o", str(tmp_path / "b")]) == 2


def test_an_address_of_a_store_is_read_through_polars(tmp_path):
    ingest(HUNG, to=tmp_path)
    address = tmp_path.as_uri()
    assert report(address) == report(HUNG)
    copy = tmp_path / "copy"
    shutil.copytree(HUNG, copy)
    ingest(copy, to=(tmp_path / "second").as_uri())
    assert report((tmp_path / "second").as_uri()) == report(HUNG)


@pytest.mark.parametrize("lost", ["sources", "templates"])
def test_a_share_without_what_others_stand_on_is_said(tmp_path, lost, capsys):
    ingest(HUNG / "fr", to=tmp_path)
    (file,) = (tmp_path / "shares").iterdir()
    told = pl.read_parquet(file)
    told.filter(pl.col("frame") != lost).write_parquet(file)
    assert commands.main(["analyze", str(tmp_path)]) == 2
    assert f"holds no {lost}" in capsys.readouterr().err


def test_captures_of_another_type_are_said_in_one_line(tmp_path, capsys):
    ingest(HUNG, to=tmp_path)
    (file,) = next(tmp_path.glob("message.*")).iterdir()
    pl.read_parquet(file).with_columns(pl.lit(1).alias("text")).write_parquet(file)
    assert commands.main(["analyze", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "names", [pl.lit(None, pl.String), pl.lit([1], pl.List(pl.Int64))]
)
def test_files_whose_names_are_none_are_said_in_one_line(tmp_path, names, capsys):
    ingest(HUNG / "fr", to=tmp_path)
    (file,) = (tmp_path / "sources").iterdir()
    pl.read_parquet(file).with_columns(names.alias("source")).write_parquet(file)
    assert commands.main(["analyze", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_on_which_polars_panics_is_said(tmp_path, monkeypatch):
    def panics(*_, **__):
        raise pl.exceptions.PanicException("a None value")

    ingest(HUNG / "fr", to=tmp_path)
    monkeypatch.setattr(pl, "read_parquet", panics)
    with pytest.raises(UsageError, match="cannot be read: a None value"):
        dataset.load([str(tmp_path)], is_ours=True)


def forge(share, name, frame):
    """Put another frame into a share, which knows the hash of it."""
    file = share.parent.parent / name / share.name
    frame.write_parquet(file)
    told = pl.read_parquet(share)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    is_it = pl.col("frame") == name
    told.with_columns(
        pl.when(is_it).then(pl.lit(sha256)).otherwise("sha256").alias("sha256")
    ).write_parquet(share)


def test_a_share_that_ends_its_reader_is_a_note_and_the_others_are_read(
    tmp_path, monkeypatch, capfd
):
    ingest(HUNG / "fr", to=tmp_path, name="fr")
    before = analysis.analyze([str(tmp_path)]).report
    (tmp_path / "a.log").write_text("[rank3]: ValueError: bad batch\n")
    ingest(tmp_path / "a.log", to=tmp_path)
    (first,) = (tmp_path / "positions").iterdir()
    (share,) = (f for f in (tmp_path / "shares").iterdir() if f.name != first.name)
    bomb = pl.select(pl.repeat("x", 1 << 26).alias("source"))
    forge(share, "sources", bomb)
    assert len((tmp_path / "sources" / share.name).read_bytes()) < 1 << 20
    monkeypatch.setattr(untrusted, "MAX_SHARE_BYTES", 1 << 29)
    found = analysis.analyze([str(tmp_path)]).report
    assert found.verdict == before.verdict
    (told,) = (note.text for note in found.notes if note not in before.notes)
    assert f"share {share.stem}" in told
    assert "was ended by SIG" in told
    assert capfd.readouterr().err == ""


def test_whatever_a_message_captures_a_share_may_hold(tmp_path):
    """Of all jobs: a structure's type that is not declared is found here."""
    evidence = [str(JOBS / slug / "evidence") for slug in ALL]
    frames = reading.read(discover(evidence, tmp_path).sources)
    for message, frame in frames.messages.items():
        captures.conform(message, frame)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("groups", "size", 2**62),
        ("groups", "members", [0, 2**40]),
        ("sources", "rank", 2**31),
        ("entries", "t", 2**63 - 1),
        ("entries", "t_started", -(2**63) + 1),
    ],
)
def test_a_share_with_numbers_that_no_job_has_is_refused(tmp_path, name, column, value):
    ingest(HUNG / "fr", to=tmp_path)
    (share,) = (tmp_path / "shares").iterdir()
    frame = pl.read_parquet(tmp_path / name / share.name)
    kind = frame.schema[column]
    told = pl.lit(value, pl.Int64).cast(kind) if kind == TIME else pl.lit(value, kind)
    forge(share, name, frame.with_columns(told.alias(column)))
    with pytest.raises(UsageError, match=f"it holds an impossible {column}"):
        dataset.load([str(tmp_path)], is_ours=True)


@pytest.mark.parametrize(
    ("name", "key"), [("sources", "source"), ("templates", "template")]
)
def test_a_share_that_would_multiply_its_rows_is_refused(tmp_path, name, key):
    ingest(HUNG / "fr", to=tmp_path)
    (share,) = (tmp_path / "shares").iterdir()
    frame = pl.read_parquet(tmp_path / name / share.name)
    forge(share, name, pl.concat([frame, frame]))
    with pytest.raises(UsageError, match=f"it holds a {key} twice"):
        dataset.load([str(tmp_path)], is_ours=True)
