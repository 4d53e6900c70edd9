"""slow-rank by the times that ranks log of the parts of their steps, without any dump."""

import itertools
import random
import re

import pytest

import slowness_logs
from nccl_lines import found
from ncclforensics.analysis import analyze
from ncclforensics.parsers.logs.message_parsers import rank_times


class Steady(slowness_logs.Job):
    """A job of eight ranks on four hosts, of which nothing is drawn by chance."""

    def __post_init__(self):
        super().__post_init__()
        self.world, self.per_host, self.steps, self.step = 8, 2, 40, 1.0
        self.data, self.spread, self.spikes, self.sigma = 0.02, 0.3, 0.0, 0.01
        self.slow = {5} if self.share else set()
        self.stages, self.weight = 4, [1.0, 0.9, 1.1, 1.3]


def report(tmp_path, fault, **other):
    """Analyze the logs of one job."""
    job = Steady(random.Random(1), fault)
    for name, value in other.items():
        setattr(job, name, value)
    told, _ = job.play()
    job.write(told, tmp_path)
    return analyze([str(tmp_path)]).report


@pytest.mark.parametrize("form", sorted(slowness_logs.SHOWS_DATA))
def test_a_rank_that_loads_longer_than_its_peers_is_named(tmp_path, form):
    told = report(tmp_path, "data 30 %", format=form)
    assert told.verdict.slug == "slow-rank"
    assert told.verdict.culprits.ranks == (5,)
    assert told.verdict.confidence in ("likely", "possible")
    (cite,) = told.verdict.evidence
    assert cite.line


@pytest.mark.parametrize("form", sorted(slowness_logs.SHOWS_COMPUTE))
def test_a_rank_that_computes_longer_is_possible(tmp_path, form):
    told = report(tmp_path, "compute 30 %", format=form)
    assert told.verdict.culprits.ranks == (5,)
    assert told.verdict.confidence == "possible"


def test_all_ranks_of_a_host_that_load_longer_are_named(tmp_path):
    told = report(tmp_path, "host 30 %", format="mmengine", slow={4, 5})
    assert told.verdict.culprits.ranks == (4, 5)
    assert told.verdict.culprits.hosts == ("gpu0002",)


def test_a_few_steps_are_enough_if_they_agree(tmp_path):
    told = report(tmp_path, "data 30 %", format="pairs", steps=6)
    assert told.verdict.culprits.ranks == (5,)


def test_two_steps_tell_nothing(tmp_path):
    told = report(tmp_path, "data 30 %", format="pairs", steps=2)
    assert told.verdict is None


@pytest.mark.parametrize("steps", [6, 40])
@pytest.mark.parametrize("fault", ["steady", "uneven", "leaders", "pipeline"])
@pytest.mark.parametrize("form", ["pairs", "megatron", "torchvision"])
def test_nobody_is_named_in_healthy_jobs(tmp_path, fault, form, steps):
    other = {"steps": steps} | ({"sigma": 0.25} if fault == "uneven" else {})
    told = report(tmp_path, fault, format=form, **other)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


@pytest.mark.parametrize("rank", [0, 7])
def test_the_first_and_the_last_rank_may_be_stages_that_compute_longer(tmp_path, rank):
    told = report(tmp_path, "compute 30 %", format="pairs", slow={rank})
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


def test_some_ranks_of_several_hosts_may_read_for_the_others(tmp_path):
    told = report(tmp_path, "data 30 %", format="pairs", slow={1, 5})
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


def test_who_alone_reads_at_all_has_no_peers(tmp_path):
    told = report(tmp_path, "data 30 %", format="json", data=1e-5)
    assert (told.outcome, told.fastest_gain) == ("no-failure", None)


LOOP = "INFO rank {} step {} data_time 0.010 fwd {:.3f} bwd {:.3f} {} {:.3f} step_time 1.0\n"


def loop(ranks, work, wait="grad_sync", steps=40):
    """Return the log of a loop: `work` has the seconds of each slow rank's forward."""
    lines = []
    for step, rank in itertools.product(range(steps), range(ranks)):
        forward = work.get(rank, 0.2) + 0.001 * ((step * 7 + rank * 3) % 5)
        rest = 0.99 - 3 * forward
        lines.append(LOOP.format(rank, step, forward, 2 * forward, wait, rest))
    return "".join(lines)


def test_who_works_longer_and_waits_less_is_likely_slow(analyzed):
    (slow,) = found(analyzed({"job.log": loop(8, {5: 0.25})}), "slow-rank")
    assert (slow.ranks, slow.confidence) == ((5,), "likely")


def within_backward(line):
    """Return a line of `loop` whose backward takes as long as its waits besides."""
    backward, wait = (float(x) for x in re.findall(r"(?:bwd|sync) (\S+)", line))
    return re.sub(r"bwd \S+", f"bwd {backward + wait:.3f}", line)


@pytest.mark.parametrize(("work", "who"), [({5: 0.25}, [(5,)]), ({}, [])])
def test_waits_that_a_backward_holds_are_not_work(analyzed, work, who):
    lines = loop(8, work).splitlines(keepends=True)
    report = analyzed({"job.log": "".join(map(within_backward, lines))})
    assert [slow.ranks for slow in found(report, "slow-rank")] == who


def test_who_waits_as_long_as_others_is_only_possible(analyzed):
    """What is logged as a wait is not all of it, or the longer part is no work."""
    text = re.sub(r"grad_sync \S+", "grad_sync 0.05", loop(8, {5: 0.25}))
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert (slow.ranks, slow.confidence) == ((5,), "possible")


def test_the_last_rank_is_no_stage_where_all_waits_are_collectives(analyzed):
    (slow,) = found(analyzed({"job.log": loop(8, {7: 0.25})}), "slow-rank")
    assert slow.ranks == (7,)
    assert not found(analyzed({"job.log": loop(8, {7: 0.25}, "comm")}), "slow-rank")


def test_a_backward_that_holds_the_waits_may_hide_two_thirds(analyzed):
    text = re.sub(r"bwd \S+ grad_sync", "bwd", loop(8, {5: 0.24}))
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert (slow.ranks, slow.confidence) == ((5,), "possible")
    assert re.search(r"wait [34](\.\d)? to 1[12] % of the time", slow.headline)


def test_a_list_that_one_rank_prints_tells_of_all(analyzed):
    line = "iter {:4} | compute ms by rank: {} | wait ms by rank: {} | loss 2.1\n"
    text = ""
    for step in range(40):
        work = [200 + (step * 7 + rank * 3) % 5 for rank in range(8)]
        work[5] += 40
        text += line.format(step, work, [250 - took for took in work])
    (slow,) = found(analyzed({"rank0.log": text}), "slow-rank")
    assert (slow.ranks, slow.confidence) == ((5,), "likely")


def group(slow, ranks=16, steps=40):
    """Return the log of a job in which the reduction of some ranks takes longer."""
    line = "rank {} step {} fwd 0.20 bwd 0.40 grad_sync {:.3f} clip_time {:.3f}\n"
    text = ""
    for step, rank in itertools.product(range(steps), range(ranks)):
        sync = 0.15 if rank in slow else 0.05
        text += line.format(rank, step, sync + 0.001 * (step % 3), 0.2 - sync)
    return text


def test_a_group_whose_reduction_takes_longer_has_a_slow_network(analyzed):
    (slow,) = found(analyzed({"job.txt": group({1, 5, 9, 13})}), "slow-network")
    assert (slow.ranks, slow.confidence) == ((), "likely")
    assert {cite.counts for cite in slow.evidence} == {"line"}
    assert "grad_sync of ranks 1,5,9,13 takes 150.0 ms, 50.0 elsewhere" in slow.headline


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param({1, 5, 9}, id="no group: the fourth may let them wait"),
        pytest.param({3, 4, 5, 6}, id="neighbours, but no group"),
        pytest.param(set(range(0, 16, 2)), id="half of the ranks"),
        pytest.param(set(), id="none"),
    ],
)
def test_other_ranks_whose_reduction_takes_longer_are_no_slow_group(analyzed, slow):
    assert not found(analyzed({"job.log": group(slow)}), "slow-network")


def test_neighbours_at_an_end_may_be_a_stage(analyzed):
    (inner,) = found(analyzed({"job.txt": group({4, 5, 6, 7})}), "slow-network")
    (end,) = found(analyzed({"job.txt": group({12, 13, 14, 15})}), "slow-network")
    assert (inner.confidence, end.confidence) == ("likely", "possible")


def test_a_job_that_failed_has_its_own_verdict(analyzed):
    line = "[rank{}]: step {} step_time: 1.0 data_time: {}\n"
    text = "".join(
        line.format(rank, step, 0.4 if rank == 2 else 0.01)
        for step in range(30)
        for rank in range(4)
    )
    assert found(analyzed({"job.log": text}), "slow-rank")
    text += (
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    assert not found(analyzed({"job.log": text}), "slow-rank")


def test_the_number_of_a_step_is_no_time(analyzed):
    line = "rank={} step={} compute_ms={} comm_wait_ms={}\n"
    text = "".join(
        line.format(rank, 2000 + step, 690.5 if rank == 2 else 420.5, 290.5)
        for step in range(40)
        for rank in range(4)
    )
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert slow.ranks == (2,)


def test_a_stage_that_waits_within_a_whole_phase_is_not_at_work_there(analyzed):
    """Rank 2 computes longer; all of the first stage wait within its phase."""
    step = (
        " [2026-05-27 10:13:{:02d}.289788] iteration {:8d}/  500000 | consumed samples: "
        "      512 | elapsed time per iteration (ms): 633.9 | lm loss: 2.0E+00 |\n"
        "times across ranks (ms):\n"
    )
    parts = {
        "forward-backward": [590.0, 590.0, 590.0, 590.0, 455.0, 455.0, 455.0, 455.0],
        "forward-compute": [140.0, 140.0, 172.0, 140.0, 140.0, 140.0, 140.0, 140.0],
        "backward-compute": [270.0, 270.0, 330.0, 270.0, 270.0, 270.0, 270.0, 270.0],
    }
    text = ""
    for n in range(20):
        text += step.format(n, 100 + n)
        for name, times in parts.items():
            text += f"  {name}:\n"
            text += "".join(f"     rank {r:2d}: {t}\n" for r, t in enumerate(times))
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert slow.ranks == (2,)


def test_megatrons_list_ends_at_a_line_of_another_form():
    text = "times across ranks (ms):\n  forward-compute:\n     rank  0: 812.20\n"
    rows = rank_times.parse(f"{text}     rank 10: 9.5\nelse\n     rank 11: 9.5\n")
    assert rows == [
        {"timer": "forward-compute", "of_rank": 0, "took_us": 812_200, "below": 2},
        {"timer": "forward-compute", "of_rank": 10, "took_us": 9_500, "below": 3},
    ]


@pytest.mark.parametrize(
    "text", ["", "a", "a\n rank 0: 1.0", "a\n b:\n rank x: 1", "a\n b:\n rank 0: 1e9"]
)
def test_garbage_is_no_list(text):
    assert rank_times.parse(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "rank={} step={} dur_compute={:.3f}s dur_sync={:.3f}s dur_step=1.00s\n",
        '{{"rank": {}, "step": {}, "t": {{"compute": {:.3f}, "sync": {:.3f}, '
        '"step": 1.0}}}}\n',
    ],
)
def test_a_step_that_is_as_long_as_its_parts_is_the_whole(analyzed, line):
    text = "".join(
        line.format(rank, step, *((0.8, 0.2) if rank == 2 else (0.6, 0.4)))
        for step in range(40)
        for rank in range(4)
    )
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert slow.ranks == (2,)
    assert "others wait 20 % of the time" in slow.headline


def loading(line):
    """Return a log of four ranks of which rank 2 loads for longer."""
    return "".join(
        line.format(rank, step, 0.25 if rank == 2 else 0.05)
        for step in range(40)
        for rank in range(4)
    )


def test_of_data_alone_nothing_tells_its_share_of_a_step(analyzed):
    line = '{{"rank": {}, "step": {}, "time_metrics/data_loading(s)": {}'
    assert not found(analyzed({"job.log": loading(line + "}}\n")}), "slow-rank")
    whole = line + ', "time_metrics/end_to_end(s)": 1.0}}\n'
    (slow,) = found(analyzed({"job.log": loading(whole)}), "slow-rank")
    assert "others wait 20 % of the time" in slow.headline


def test_a_step_that_is_shorter_than_its_parts_is_one_of_them(analyzed):
    line = "rank={} step={} compute={:.3f}s sync={:.3f}s step={:.3f}s\n"
    text = "".join(
        line.format(rank, step, *((0.8, 0.15) if rank == 2 else (0.6, 0.35)), 0.05)
        for step in range(40)
        for rank in range(4)
    )
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert "others wait 20 % of the time" in slow.headline


def test_the_time_of_a_line_is_no_part_of_its_step(analyzed):
    line = (
        "time=2026-11-20T12:{:02}:{:02}Z level=info rank={} step={} "
        "compute_ms={} comm_wait_ms=290.5 step_ms=1000.0\n"
    )
    text = "".join(
        line.format(step // 60, step % 60, r, step, 690.5 if r == 2 else 420.5)
        for step in range(80)
        for r in range(4)
    )
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert (slow.ranks, "others wait 27 % of the" in slow.headline) == ((2,), True)


def marked(forms, slow=2, more=0.1):
    """Return logs of four ranks that mark their parts: each with what it took."""
    texts = {}
    for rank in range(4):
        now, text = 0.0, ""
        for step in range(40):
            own = 0.3 + more * (rank == slow) + 0.001 * (step * (rank + 1) % 5)
            # all leave the reduction as the slow rank comes to it
            for form, took in zip(forms, (0.01, own, 0.7 - own, 0.02), strict=True):
                now += took
                at = f"{int(now) // 60:02}:{now % 60:09.6f}"
                text += f"2026-11-20 12:{at} [rank {rank}] step {step}: {form}\n"
        texts[f"{rank}.log"] = text
    return texts


ENDS = ("batch ready", "forward done", "allreduce done", "optimizer step done")
EDGES = ("batch_ready", "allreduce_enter", "allreduce_leave", "step_end")
SAID = ("batch on device", "forward end", "allreduce returned", "optimizer end")


@pytest.mark.parametrize("forms", [ENDS, EDGES, SAID])
def test_the_time_between_two_marks_is_a_part_of_the_step(analyzed, forms):
    (slow,) = found(analyzed(marked(forms)), "slow-rank")
    assert slow.ranks == (2,)
    assert "others wait 14 % of the time" in slow.headline


def test_the_time_between_the_last_mark_of_a_step_and_the_first_of_the_next(analyzed):
    """Of two marks a step, all that lies outside the reduction is work."""
    texts = {}
    for rank in range(4):
        now, text = 0.0, ""
        for step in range(40):
            own = 0.4 if rank == 2 else 0.3
            for form, took in (("entering", own), ("left", 0.7 - own)):
                now += took
                at = f"{int(now) // 60:02}:{now % 60:09.6f}"
                text += (
                    f"2026-11-20 12:{at} [rank {rank}] step {step}: {form} barrier\n"
                )
        texts[f"{rank}.log"] = text
    (slow,) = found(analyzed(texts), "slow-rank")
    assert slow.ranks == (2,)
    assert "others wait 14 % of the time" in slow.headline


@pytest.mark.parametrize("forms", [ENDS, EDGES])
def test_marks_of_ranks_that_work_alike_name_nobody(analyzed, forms):
    assert not found(analyzed(marked(forms, more=0.0)), "slow-rank")


def test_marks_that_are_missing_make_no_longer_part(analyzed):
    texts = marked(ENDS, more=0.0)
    lost = {2, 3, 4}  # between two `forward done` of every fifth step
    kept = [
        line
        for number, line in enumerate(texts["2.log"].splitlines(keepends=True))
        if number % 20 not in lost
    ]
    assert not found(analyzed({**texts, "2.log": "".join(kept)}), "slow-rank")


def test_a_list_may_number_its_ranks(analyzed):
    line = (
        "12:00:{:02} INFO step={} busy_ms per rank: 0:571.2 1:574.1 2:690.3 3:570.5\n"
    )
    text = "".join(line.format(step, step) for step in range(40))
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert slow.ranks == (2,)
