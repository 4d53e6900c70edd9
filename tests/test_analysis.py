"""The whole way holds together: any order, any executor, any damage, same bytes."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from known_jobs import known
from ncclforensics import report
from ncclforensics.analysis import analyze
from ncclforensics.engine.reading import read
from ncclforensics.model.errors import UsageError
from ncclforensics.report.formats.as_json import render_json
from ncclforensics.report.opening_lines import opening
from ncclforensics.sources import discover

JOBS = ("torch-chain", "torch-crashed-rank-record", "nccl-docker0")


@pytest.mark.parametrize("slug", JOBS)
def test_the_same_evidence_gives_the_same_bytes(jobs, slug):
    path = str(jobs / slug / "evidence")
    first = render_json(known(slug).report)
    with ThreadPoolExecutor(2) as pool:
        assert render_json(analyze([path], executor=pool).report) == first


@pytest.mark.parametrize("slug", JOBS)
def test_the_order_in_which_files_are_given_does_not_matter(jobs, slug):
    root = jobs / slug / "evidence"
    files = sorted(str(f) for f in root.rglob("*") if f.is_file())
    shuffled = random.Random(7).sample(files, len(files))
    assert render_json(analyze(shuffled).report) == render_json(analyze(files).report)


def test_a_path_that_does_not_exist_is_a_mistake_of_the_caller(tmp_path):
    with pytest.raises(UsageError):
        analyze([str(tmp_path / "nothing")])


def test_an_empty_directory_is_no_clean_bill_of_health(tmp_path):
    found = analyze([str(tmp_path)])
    assert (found.report.outcome, found.report.verdict) == ("inconclusive", None)


def test_progress_counts_up_to_all_files(jobs):
    seen = []
    analyze(
        [str(jobs / "torch-chain" / "evidence")], progress=lambda *n: seen.append(n)
    )
    total = seen[-1][1]
    assert seen == [(done, total) for done in range(1, total + 1)]


def interrupting(after):
    """Progress that is interrupted as by Ctrl-C after some files."""

    def show(done, _):
        if done == after:
            raise KeyboardInterrupt

    return show


def test_an_interrupted_reading_is_analyzed_as_far_as_it_came(jobs, monkeypatch):
    monkeypatch.setattr(
        "ncclforensics.engine.reading.BATCH_BYTES", 0
    )  # a file at a time
    path = str(jobs / "torch-missing-rank-two-hosts" / "evidence")
    whole = analyze([path])
    part = analyze([path], progress=interrupting(5))
    assert not whole.interrupted
    assert part.interrupted
    # its times are those of one clock, which all files together set
    told = [(s.source, s.rows, s.sha256) for s in part.report.sources]
    assert told == [(s.source, s.rows, s.sha256) for s in whole.report.sources[:5]]
    total = len(whole.report.sources)
    (note,) = (n for n in part.report.notes if n.stage == "interrupted")
    assert note.text == f"reading was interrupted: 5 of {total} files were read"


def test_what_was_not_read_is_not_known_to_be_well(jobs, monkeypatch):
    monkeypatch.setattr("ncclforensics.engine.reading.BATCH_BYTES", 0)
    path = str(jobs / "torch-healthy" / "evidence")
    assert analyze([path]).report.outcome == "no-failure"
    part = analyze([path], progress=interrupting(2)).report
    assert part.outcome == "inconclusive"
    assert opening(part)[0].startswith("inconclusive: reading was interrupted")


def test_an_interrupt_before_anything_was_read_is_one(jobs, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ncclforensics.engine.reading.parse_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        analyze([str(jobs / "torch-healthy" / "evidence")])


def test_of_logs_that_are_read_together_those_are_kept_that_were_read(
    tmp_path, monkeypatch
):
    from ncclforensics.parsers.logs import log_reader

    for rank in range(3):
        (tmp_path / f"rank_{rank}.log").write_text(f"[rank{rank}]: step 1 loss 2.0\n")
    scanned = log_reader._scanned

    def interrupted(*arguments):
        logs = scanned(*arguments)
        yield from (next(logs), next(logs))
        raise KeyboardInterrupt

    monkeypatch.setattr(log_reader, "_scanned", interrupted)
    report = analyze([str(tmp_path)]).report
    assert [s.source for s in report.sources] == ["rank_0.log", "rank_1.log"]
    (note,) = (n for n in report.notes if n.stage == "interrupted")
    assert note.text == "reading was interrupted: 2 of 3 files were read"


def test_every_row_says_where_it_was_read(jobs, tmp_path):
    found = discover([str(jobs / "torch-chain" / "evidence")], tmp_path)
    names = {source.name for source in found.sources}
    frames = read(found.sources)
    for name in ("events", "collectives", "groups", "positions", "exits"):
        assert set(frames[name]["source"]) <= names


def damaged(data, cut, flips):
    broken = bytearray(data[: int(len(data) * cut)])
    for place, value in flips:
        if broken:
            broken[int(place * (len(broken) - 1))] = value
    return bytes(broken)


FLIPS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8)


@pytest.mark.parametrize("slug", ["torch-chain", "torch-crashed-rank", "nccl-docker0"])
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cut=st.floats(0, 1), flips=FLIPS, chosen=st.integers(0, 99))
def test_no_damage_raises(jobs, tmp_path_factory, slug, cut, flips, chosen):
    folder = tmp_path_factory.mktemp("damaged")
    files = sorted(f for f in (jobs / slug / "evidence").rglob("*") if f.is_file())
    for number, file in enumerate(files):
        copy = folder / file.relative_to(jobs / slug / "evidence")
        copy.parent.mkdir(parents=True, exist_ok=True)
        hit = number == chosen % len(files)
        data = file.read_bytes()
        copy.write_bytes(damaged(data, cut, flips) if hit else data)
    found = analyze([str(folder)])
    assert isinstance(found.report, report.contract.Report)
    assert render_json(found.report)
