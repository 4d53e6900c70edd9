"""More evidence never turns a right verdict into a wrong one, or into nothing.

Of each job sources are taken away, and given back one by one. What a stranger leaves
beside it (an empty file, notes, a kernel that complains of a rank that waits, a stack of
one) changes nothing either.
"""

import random
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import polars as pl
import pytest

import removal
from known_jobs import explained, known, parsed
from ncclforensics import analysis
from ncclforensics.model.frames import Frames, join
from ncclforensics.parsers import parse_all
from ncclforensics.sources import discover

JOBS = Path(__file__).parent / "fixtures"
FOLDERS = [file.parent for file in sorted(JOBS.rglob("truth.toml"))]
TAKEN, GIVEN = 1, 3  # sets that lack something, and what is taken from them as well
STACK = """Process {pid}: python3 train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2810)
    wrapper (torch/distributed/c10d_logger.py:83)
    train (train.py:60)
    <module> (train.py:122)
"""
TEXT = "notes of the person on call\n- restarted the dashboard\n- asked for coffee\n"
ALWAYS = {"empty.log": "", "notes.txt": TEXT}


@dataclass(frozen=True)
class Job:
    """A job that is parsed."""

    folder: Path
    case: removal.Incident

    @cached_property
    def frames(self):
        """What is known of all of it."""
        if self.folder.parent.name == "jobs":
            return known(self.folder.name).frames
        return explained(self.folder)[0]

    @cached_property
    def report(self):
        """What is said of all of it."""
        return self.case.without(())[1]

    def without(self, *gone):
        """Whether what is left without some sources is judged rightly."""
        return is_right(self.case.truth, self.case.without({*gone})[1])

    def beside(self, strangers):
        """Return what is said of it beside strangers, by the path of their file."""
        always = tuple(path for path in ALWAYS if path in strangers)
        more = {path: strangers[path] for path in strangers if path not in ALWAYS}
        parts = [self.case.frames, alone(always), read(more)]
        return analysis.explain(join(parts))[2]


@cache
def alone(paths):
    """Read some of the files that are the same beside every job."""
    return read({path: ALWAYS[path] for path in paths})


def read(files):
    if not files:
        return Frames({})
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in files.items():
            file = Path(scratch, "in", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        found = discover([f"{scratch}/in"], Path(scratch))
        return parse_all(found.sources)


@pytest.fixture(params=FOLDERS, ids=[f.name for f in FOLDERS], scope="module")
def job(request):
    return Job(request.param, parsed(request.param))


def is_right(truth, report):
    """Whether class and ranks are those of the truth; of a job that runs, nobody."""
    if truth["outcome"] != "failure":
        return report.outcome != "failure"
    verdict = report.verdict
    return (
        report.outcome == "failure"
        and verdict.slug in {truth.get("class"), *truth.get("also_acceptable", ())}
        and verdict.culprits.ranks in ((), tuple(truth["ranks"]))
        and bool(verdict.culprits.ranks) >= is_named(truth)
    )


def is_named(truth):
    """Whether somebody has to be named for a verdict to be right."""
    return bool(truth["ranks"]) and not truth.get("may_name_nobody")


def ways(case):
    """Return what may be taken away: each source, kind, host, and each rank's."""
    of_rank = [
        tuple(n for n in case.names if f"/{rank}/" in n or n.endswith(f"rank_{rank}"))
        for rank in range(16)
    ]
    told = [*removal.removals(case), *of_rank]
    return [gone for gone in dict.fromkeys(told) if 0 < len(gone) < len(case.names)]


def worse(job, taken, given):
    """Return what turns a right verdict of a smaller set into a wrong one.

    That all of it is judged rightly is another test's.
    """
    dice = random.Random(job.case.slug)
    every = ways(job.case)
    some = dice.sample(every, min(taken, len(every)))
    found = [gone for gone in some if not job.without(*gone)]
    return [
        (gone, more)
        for gone in found
        for more in dice.sample(every, min(given, len(every)))
        if not {*more} <= {*gone}
        and len({*more, *gone}) < len(job.case.names)
        and job.without(*more, *gone)
    ]


def test_what_is_added_never_turns_a_right_verdict_into_a_wrong_one(job):
    assert worse(job, TAKEN, GIVEN) == []


def strangers(job):
    """Return files that a stranger leaves beside the evidence of a job."""
    truth, told = job.case.truth, job.frames["ranks"]
    known = told.drop_nulls(["rank", "host", "pid"]).filter(
        ~pl.col("rank").is_in(truth.get("ranks", []))
    )
    found = dict(ALWAYS)
    waits = job.frames["calls"]["waiting"].explode().drop_nulls()
    for host, pid in known.sort("rank").select("host", "pid").head(1).iter_rows():
        line = f"INFO: task python3:{pid} blocked for more than 120 seconds."
        found[f"dmesg-{host}.log"] = f"[ 1843.305512] {line}\n"
    held = known.filter(pl.col("rank").is_in(waits.implode())).sort("rank")
    for host, pid in held.select("host", "pid").head(1).iter_rows():
        found[f"spy/{host}/{pid}.txt"] = STACK.format(pid=pid)
    return found


def test_strangers_beside_it_change_no_right_verdict(job):
    files = strangers(job)
    if is_right(job.case.truth, job.beside(files)):
        return
    if not is_right(job.case.truth, job.report):
        pytest.skip("judged wrongly without them")
    one_by_one = {
        path: job.beside({path: text}).verdict for path, text in files.items()
    }
    wrong = {p: v and v.headline for p, v in one_by_one.items()}
    pytest.fail(f"{job.report.verdict and job.report.verdict.headline}: {wrong}")
