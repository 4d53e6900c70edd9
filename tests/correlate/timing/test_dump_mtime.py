"""The time of a dump's file: written as a timeout passed, early, or a copy's."""

import io
import os
import tarfile
import zipfile

import pytest

import judging
import simulate
import simulate_faults
from ncclforensics.analysis import analyze
from ncclforensics.correlate.timing import dump_mtime
from ncclforensics.correlate.traces.call_summary import outline
from ncclforensics.theory import standstill

pytestmark = pytest.mark.usefixtures("trusted")

TIMEOUT, MINUTE = 600.0, 60.0


@pytest.fixture
def folder(tmp_path):
    """Return where dumps are written."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    return folder


@pytest.fixture
def barrier(folder):
    """Write dumps of four ranks of which one does not come to the barrier at the end.

    Nothing but time tells whether it is still about to save its part.
    """
    job, _ = simulate.job(1, 1, 4)
    end = simulate.Op(0, "barrier", "epoch_end", (1,), (1,), "Byte", syncs=True)
    for run in job.runs:
        run.program = [*run.program, end]
    job.runs[2].stops = len(job.runs[2].program) - 1
    return since(simulate_faults.finished(job, [], 0), folder)


def since(case, folder):
    """Write a case's dumps; return when its first rank began to wait."""
    found = judging.analysis(case, folder)
    return found.frames["calls"]["t"].min()


def written(folder, call, seconds):
    """Analyze the dumps as if they had been written so long after a call was made."""
    at = call.timestamp() + seconds
    for file in folder.iterdir():
        os.utime(file, (at, at))
    return analyze([str(folder)])


def told(found):
    """Return whom a verdict names, and how sure it is."""
    return *judging.named(found), found.ranked.verdict.confidence


@pytest.mark.parametrize("seconds", [-1e6, 3 * MINUTE, 1e4, 1e7])
def test_a_copy_has_a_time_that_tells_nothing(folder, barrier, seconds):
    found = written(folder, barrier, seconds)
    assert standstill.standing(found.frames).answer == "unknown"
    assert standstill.motion(found.frames).answer == "unknown"
    assert told(found) == ("missing-rank", (2,), "possible")


def test_dumps_that_were_written_as_a_timeout_passed_are_of_a_job_that_stands(
    folder, barrier
):
    found = written(folder, barrier, TIMEOUT + 2)
    assert judging.named(found) == ("missing-rank", (2,))
    assert found.ranked.verdict.confidence != "possible"
    assert standstill.standing(found.frames).name == "written"
    proof = standstill.standing(found.frames).cites[0]
    assert (proof.source, proof.line, proof.text) in {
        (c.source, c.line, c.text) for c in found.ranked.verdict.evidence
    }
    assert "timeout 10 min" in proof.text


def test_dumps_that_are_as_old_as_their_calls_are_of_a_job_that_goes_on(folder):
    case = judging.played("absent", 1)
    call = since(case, folder)
    for seconds in (MINUTE + 1, TIMEOUT / 2):
        assert judging.named(written(folder, call, seconds))[1] == tuple(case.ranks)
    found = written(folder, call, 3)
    assert standstill.motion(found.frames).name == "early"
    assert judging.named(found) == (None, ())


@pytest.mark.parametrize(("seconds", "answer"), [(0.5, "yes"), (5, "unknown")])
def test_a_call_that_one_rank_had_just_begun_is_no_standstill(folder, seconds, answer):
    """All others had gone on by then: a rank on Gloo notes that a call ended later."""
    call = since(judging.played("absent", 1), folder)
    found = written(folder, call, seconds)
    ages = dump_mtime.ages(
        found.frames["held"], outline(found.frames), found.frames["sources"]
    )
    last = dump_mtime.last_calls(outline(found.frames), found.frames["sources"])
    assert dump_mtime.are_early(ages.head(1), last) is (answer == "yes")
    assert not dump_mtime.are_early(ages.clear(), last)
    assert not dump_mtime.are_early(ages.head(1), last.head(1))


def test_what_all_have_joined_is_stuck_and_nobody_is_named_for_it(folder):
    call = since(judging.played("stuck", 3), folder)
    for age, outcome in ((1e7, "inconclusive"), (TIMEOUT + 30, "failure")):
        ranked = written(folder, call, age).ranked
        assert ranked.outcome == outcome
        assert (ranked.verdict.slug, ranked.verdict.ranks) == (
            "stuck-in-collective",
            (),
        )


def test_a_tar_keeps_the_times_of_files_and_a_zip_does_not(folder, barrier, tmp_path):
    written(folder, barrier, TIMEOUT + 2)
    tar, packed = tmp_path / "dumps.tar", tmp_path / "dumps.zip"
    with tarfile.open(tar, "w") as to:
        to.add(folder, "dumps")
    with zipfile.ZipFile(packed, "w") as to:
        for file in folder.iterdir():
            to.write(file, file.name)
    assert judging.named(analyze([str(tar)])) == ("missing-rank", (2,))
    found = analyze([str(packed)])
    assert told(found) == ("missing-rank", (2,), "possible")
    assert found.frames["sources"]["modified"].is_null().all()


@pytest.mark.parametrize("time", [-1e18, -5, 1e18, float("inf"), float("nan")])
def test_a_member_of_an_impossible_time_has_none(tmp_path, time):
    with tarfile.open(tmp_path / "logs.tar", "w", format=tarfile.PAX_FORMAT) as to:
        member = tarfile.TarInfo("rank0.log")
        data = b"[rank0]: Traceback (most recent call last):\n"
        member.size, member.mtime = len(data), 0
        member.pax_headers = {"mtime": str(time)}
        to.addfile(member, io.BytesIO(data))
    found = analyze([str(tmp_path / "logs.tar")])
    assert found.frames["sources"]["modified"].to_list() == [None]
    assert found.frames["sources"]["bytes"].to_list() == [len(data)]
