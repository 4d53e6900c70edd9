"""slow-rank names who makes a job slow that runs, and never a clock or a bubble."""

import random

import pytest

import simulated
import slowness
import slowness_streams
from ncclforensics.analysis import analyze
from ncclforensics.report.formats.text import render_text


class Steady(slowness.Job):
    """A job of eight ranks on two hosts, of which nothing is drawn by chance."""

    def __post_init__(self):
        super().__post_init__()
        self.world, self.per_host, self.step, self.steps = 8, 4, 1.0, 60
        self.calls, self.even, self.sigma, self.spikes = 2, False, 0.01, 0.0
        self.transfer, self.tensor, self.timed, self.often = 0.02, 1, False, 1.0
        self.offset = self.drift = [0.0] * 8
        self.bias = [0.0] * 8
        self.slow = {5} if self.share else set()


def report(tmp_path, fault="slow 10 %", trainers=(), **other):
    """Analyze the dumps of one job. `trainers` make their calls in another function."""
    job = Steady(random.Random(1), fault)
    for name, value in other.items():
        setattr(job, name, value)
    played = slowness.Recorder(job, job.share)
    played.play()
    for rank, made in enumerate(played.entries):
        name = "train" if rank in trainers else "generate"
        for entry in made:
            entry["frames"] = [{"name": name, "filename": f"{name}.py", "line": 7}]
    played.write(tmp_path)
    return analyze([str(tmp_path)]).report


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("tensor", [1, 2])
def test_a_rank_that_is_slower_than_its_peers_is_named(tmp_path, timed, tensor):
    told = report(tmp_path, timed=timed, tensor=tensor)
    assert told.outcome == "failure"
    assert told.verdict.slug == "slow-rank"
    assert told.verdict.culprits.ranks == (5,)
    assert told.verdict.culprits.hosts == ("gpu0002",)
    assert "GPU hours a day" in told.verdict.headline


def test_a_rank_that_is_a_little_slower_is_the_fastest_gain(tmp_path):
    told = report(tmp_path, "slow 5 %")
    assert (told.outcome, told.verdict) == ("no-failure", None)
    assert told.fastest_gain.ranks == (5,)
    assert 0.03 < told.fastest_gain.share < 0.05
    assert "rank 5 on gpu0002 costs " in told.fastest_gain.text


def test_all_ranks_of_a_host_are_named_with_their_host(tmp_path):
    told = report(tmp_path, slow={4, 5, 6, 7}, timed=True)
    assert told.verdict.culprits.ranks == (4, 5, 6, 7)
    assert "all of gpu0002" in told.verdict.headline


@pytest.mark.parametrize("timed", [True, False])
def test_nobody_is_named_in_a_steady_or_an_uneven_job(tmp_path, timed):
    for n, sigma in enumerate((0.01, 0.3)):
        told = report(tmp_path / str(n), "steady", sigma=sigma, timed=timed)
        assert (told.outcome, told.fastest_gain) == ("no-failure", None)


NOW_AND_THEN = {"calls": 6, "even": True, "steps": 100, "timed": True}


def test_ranks_of_another_program_have_more_to_do_and_are_not_slow(tmp_path):
    """Trainers and actors meet in the same calls, made at other places of the code."""
    trainers = (0, 1, 2)
    told = report(tmp_path, slow=trainers, per_host=3)
    assert told.verdict.culprits.ranks == trainers
    told = report(tmp_path, trainers=trainers, slow=trainers, per_host=3)
    assert told.verdict is None


def test_a_rank_that_stands_still_now_and_then_is_named(tmp_path):
    told = report(tmp_path, "now and then 30 %", often=0.2, **NOW_AND_THEN)
    assert told.verdict.culprits.ranks == (5,)


def test_who_is_late_by_chance_in_one_of_many_teams_is_not_named():
    """In a job of uneven steps a fifth of whose dumps are lost, some rank is."""
    case, found_, _ = simulated.one("uneven", 16, "full", 0, False, 0.2)
    assert (case.outcome, found_.report.outcome) == ("no-failure", "no-failure")


def test_long_steps_of_anybody_are_nobodys_fault(tmp_path):
    told = report(tmp_path, "steady", spikes=0.01, **NOW_AND_THEN)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


def test_a_clock_that_is_off_and_drifts_is_no_slow_rank(tmp_path):
    off = {"offset": [0.0, 0.3], "drift": [0.0, 2e-5]}
    told = report(tmp_path, "steady", **off)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


def test_a_clock_that_is_off_does_not_hide_a_slow_rank(tmp_path):
    told = report(tmp_path, offset=[0.3, 0.0], drift=[0.0, 2e-5])
    assert told.verdict.culprits.ranks == (5,)


def test_a_stage_that_is_always_last_is_a_bubble_and_said_so(tmp_path):
    told = report(tmp_path, "pipeline", stages=2, weight=[0.8, 1.2])
    assert told.outcome == "no-failure"
    said = {r.slug: r.why for r in told.ruled_out}
    assert "no fault of a rank" in said["slow-rank"]


def test_without_a_history_it_is_not_checked(tmp_path):
    told = report(tmp_path, steps=2)
    assert told.outcome == "no-failure"
    assert "slow-rank" in {n.slug for n in told.not_checked}


def within_a_call(tmp_path, absent):
    """Analyze a slow job whose ranks wait in a call to which some have not come."""
    job = Steady(random.Random(1), "slow 30 %")
    played = slowness.Recorder(job, job.share)
    played.play()
    for rank, made in enumerate(played.entries):
        if rank not in absent:
            last = made[-1]
            number = last["collective_seq_id"] + 1
            made.append({**last, "collective_seq_id": number, "retired": False})
            made[-1]["record_id"] += 1
    played.write(tmp_path)
    return analyze([str(tmp_path)]).report


def test_a_job_that_hangs_has_its_own_verdict(tmp_path):
    told = within_a_call(tmp_path, absent={2})
    assert "slow-rank" not in {f.slug for f in told.findings}
    assert told.fastest_gain is None


def test_a_slow_job_that_is_dumped_within_a_call_is_slow(tmp_path):
    """Two ranks have not come to the last call: the slow one and another."""
    told = within_a_call(tmp_path, absent={2, 5})
    assert (told.verdict.slug, told.verdict.confidence) == ("slow-rank", "likely")
    assert told.verdict.culprits.ranks == (5,)


def streams(tmp_path, fault="gpu 10 %", ended=False, **other):
    """Analyze a job whose calls are asynchronous, and tell what its fault costs."""
    job = slowness_streams.Job(fault, "1")
    given = {"backend": "timed", "shape": "ddp", "width": 1, "world": 8, "calls": 4}
    given |= {"per_host": 4, "step": 0.6, "steps": 60, "syncs": 1, "sigma": 0.01}
    given |= {"spikes": 0.0, "transfer": 0.03, "spread": 1.5, "keeps_mtime": False}
    given |= {"alike": False}
    given |= {"off": [0.0] * 4, "drift": [0.0] * 4, "bias": [0.0] * 16}
    for name, value in {**given, "slow": {5} if job.share else set(), **other}.items():
        setattr(job, name, value)
    played, usual = (slowness_streams.Play(job, s) for s in (job.share, 0.0))
    seconds, before = played.play(), usual.play()
    played.write(tmp_path, ended=ended)
    return analyze([str(tmp_path)]).report, 1 - before / seconds


PIPELINE = {"shape": "pp", "width": 4, "step": 0.2, "weight": [1.15, 1.15, 1.04, 1.03]}


def test_who_sends_to_a_slow_stage_waits_for_it_or_not_and_is_not_named(tmp_path):
    told, _ = streams(tmp_path, "pipeline 30 %", **PIPELINE)
    assert told.verdict.slug == "slow-rank"
    assert told.verdict.culprits.ranks == (5,)


def test_a_stage_that_messages_of_gloo_may_hold_up_is_not_named(tmp_path):
    gloo = {**PIPELINE, "backend": "gloo", "ended": True}
    told, _ = streams(tmp_path, "pipeline 30 %", **gloo)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


def test_the_first_stage_of_a_pipeline_waits_for_no_other_alone(tmp_path):
    gloo = {**PIPELINE, "backend": "gloo", "ended": True}
    told, _ = streams(
        tmp_path, "pipeline 30 %", **gloo | {"width": 2, "slow": {6}, "per_host": 2}
    )
    assert told.verdict.culprits.ranks == (6,)


def test_groups_of_one_rank_make_no_stages(tmp_path):
    told, _ = streams(tmp_path, shape="tp", world=4, width=4, per_host=2, slow={1})
    assert told.verdict.culprits.ranks == (1,)


def test_late_in_overlapping_calls_is_counted_once(tmp_path):
    told, lost = streams(tmp_path, ended=True, calls=8)
    assert told.verdict.culprits.ranks == (5,)
    said = float(told.verdict.headline.partition("wait ")[2].partition(" %")[0])
    assert said == pytest.approx(100 * lost, rel=0.35)


@pytest.mark.parametrize("backend", ["timed", "gloo"])
def test_dumps_that_pass_each_other_are_of_a_job_that_runs(tmp_path, backend):
    told, _ = streams(tmp_path, "cpu 30 %", backend=backend)
    assert told.verdict.slug == "slow-rank"
    assert told.verdict.culprits.ranks == (5,)


@pytest.mark.parametrize("calls", [2, 4])
def test_of_the_same_calls_in_a_row_ranks_wait_in_the_last(tmp_path, calls):
    alike = {"backend": "nccl", "alike": True, "calls": calls, "ended": True}
    told, _ = streams(tmp_path / "slow", "cpu 30 %", **alike)
    assert told.verdict.culprits.ranks == (5,)
    told, _ = streams(tmp_path / "steady", "steady", **alike)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


REPLICAS = {"backend": "nccl", "shape": "tp", "width": 4, "world": 16, "ended": True}


@pytest.mark.parametrize("off", [0.0, 0.3])
def test_who_is_late_to_a_row_of_calls_of_several_groups_is_named(tmp_path, off):
    """Its team waits for it on the GPU alone, and the others in calls without it."""
    clocks = {"off": [0.0, off, -off, 0.0]}
    told, _ = streams(tmp_path / "slow", "cpu 30 %", **REPLICAS, **clocks)
    assert told.verdict.culprits.ranks == (5,)
    told, _ = streams(tmp_path / "steady", "steady", **REPLICAS, **clocks)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


def test_a_slow_rank_is_told_from_its_team_where_other_teams_wait_elsewhere(tmp_path):
    told, _ = streams(tmp_path, "gpu 30 %", **REPLICAS | {"backend": "timed"})
    assert told.verdict.culprits.ranks == (5,)
    assert told.verdict.confidence == "certain"


def test_of_a_job_that_runs_nothing_stopped_and_nobody_waits_in_one_call(tmp_path):
    told, _ = streams(tmp_path, "cpu 30 %")
    assert told.verdict.collective.op == "all_reduce"
    assert told.verdict.collective.seq is None
    assert told.onset is None
    assert [step.part for step in told.chain] == ["cause"]
    assert "SeqNum" not in render_text(told)


def test_at_one_moment_a_hang_looks_the_same_and_the_slow_rank_is_likely(tmp_path):
    """All ranks are in one call, of which nothing shows how long it takes."""
    moment = {"spread": 0.001, "shape": "fsdp", "step": 2.0, "calls": 1}
    told, _ = streams(tmp_path, "gpu 30 %", **moment)
    assert (told.verdict.slug, told.verdict.confidence) == ("slow-rank", "likely")
    assert told.verdict.culprits.ranks == (5,)


def test_one_older_dump_beside_a_hang_proves_no_motion(tmp_path):
    job = Steady(random.Random(1), "steady")
    played = slowness.Recorder(job, job.share)
    played.play()
    for rank, made in enumerate(played.entries):
        if rank == 5:
            del made[-3:]
        elif rank != 2:
            number = made[-1]["collective_seq_id"] + 1
            made.append({**made[-1], "collective_seq_id": number, "retired": False})
            made[-1] |= {"state": "scheduled", "record_id": made[-1]["record_id"] + 1}
    played.write(tmp_path)
    assert analyze([str(tmp_path)]).report.outcome != "no-failure"


def test_of_a_slow_gpu_times_of_the_cpu_tell_nothing_and_that_is_said(tmp_path):
    told, _ = streams(tmp_path, "gpu 30 %", backend="nccl", ended=True)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)
    said = {n.slug: n.next_time for n in told.not_checked}
    assert "TORCH_NCCL_ENABLE_TIMING=1" in said["slow-rank"]


@pytest.mark.parametrize("every", [1, 7])
def test_the_inspector_tells_it_without_dumps(tmp_path, every):
    job = Steady(random.Random(1), "slow 10 %")
    job.timed, job.steps = True, 60 * every
    played = slowness.Recorder(job, job.share)
    played.play()
    played.inspected(tmp_path)
    for log in tmp_path.iterdir():
        lines = log.read_text().splitlines(keepends=True)
        kept = [line for n, line in enumerate(lines) if n // 2 % every == 0]
        log.write_text("".join(kept))
    told = analyze([str(tmp_path)]).report
    assert told.verdict.slug == "slow-rank"
    assert told.verdict.culprits.ranks == (5,)
    assert told.verdict.culprits.hosts == ("gpu0002",)
    share = float(told.verdict.headline.partition("wait ")[2].partition(" %")[0])
    assert share == pytest.approx(8, abs=2)
    assert {cite.counts for cite in told.verdict.evidence} == {"line"}


def test_the_inspector_of_a_steady_job_accuses_nobody(tmp_path):
    job = Steady(random.Random(1), "steady")
    job.timed = True
    played = slowness.Recorder(job, 0.0)
    played.play()
    played.inspected(tmp_path)
    told = analyze([str(tmp_path)]).report
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


@pytest.mark.parametrize(("fault", "least"), [("cpu 30 %", 0.8), ("gpu 30 %", 0.3)])
def test_of_what_is_lost_in_rows_of_calls_never_too_much_is_told(
    tmp_path, fault, least
):
    """A GPU's lateness grows along a row, and other ranks work beside its calls."""
    told, lost = streams(tmp_path, fault, ended=True, calls=8, world=16, per_host=8)
    assert told.verdict.culprits.ranks == (5,)
    said = float(told.verdict.headline.partition("wait ")[2].partition(" %")[0])
    assert 100 * least * lost < said < 120 * lost
