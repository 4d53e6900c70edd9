"""slow-rank by tables: a row a rank that a loop gathers, or a row a step of one rank."""

import pytest

from nccl_lines import found

PIPED = " {:>4} | {:>6} | {:>6} | {:>7} | {:>6}"
PLAIN = "{:>6}  node{:03}  {:>8} {:>8} {:>9} {:>8}"


def took(rank, step, slow=2):
    """Return what a rank took to load, compute, and wait in a step of 750 ms, in ms."""
    own = 680.0 if rank == slow else 600.0 + (step * (rank + 1)) % 7
    return 30.0, own, 720.0 - own, 750.0


def piped(slow):
    text = ""
    for step in range(12):
        text += f"--- timing, steps {step}0..{step}9 (mean ms) ---\n"
        text += PIPED.format("rank", "data", "fwd", "ar wait", "step") + "\n"
        text += "------+--------+--------+---------+-------\n"
        for rank in range(8):
            text += PIPED.format(rank, *took(rank, step, slow)) + "\n"
        text += f"loss {5 - step / 10:.4f}\n"
    return {"train.log": text}


def plain(slow):
    text = ""
    for step in range(12):
        text += "per-rank timing, mean of the last 10 steps\n"
        text += "  rank  node         data  forward  all_reduce   total (ms)\n"
        for rank in range(8):
            text += PLAIN.format(rank, rank // 4, *took(rank, step, slow)) + "\n"
    return {"train.log": text}


def of_steps(slow):
    head = "step;data_ms;fwd_ms;wait_ms;total_ms\n"
    return {
        f"rank_{rank}.csv": head
        + "".join(
            ";".join(map(str, (step, *took(rank, step, slow)))) + "\n"
            for step in range(40)
        )
        for rank in range(8)
    }


@pytest.mark.parametrize("form", [piped, plain, of_steps])
def test_the_rank_that_computes_longest_in_a_table_is_named(analyzed, form):
    (slow,) = found(analyzed(form(slow=2)), "slow-rank")
    assert slow.ranks == (2,)
    assert "others wait 1" in slow.headline  # 77 of 750 ms
    assert not found(analyzed(form(slow=None)), "slow-rank")


HTA = "rank,idle_time(us),compute_time(us),non_compute_time(us),kernel_time(us)\n"


def profiled(slow, waits=True):
    """Return what HolisticTraceAnalysis tells of 16 ranks: a row of totals for each."""
    text = HTA
    for rank in range(16):
        compute = 9_600_000.5 if rank == slow else 6_400_000.5 + 7_000 * (rank % 5)
        rest = 9_700_000.5 - compute if waits else 3_300_000.5
        text += f"{rank},130000.5,{compute},{rest},{compute + rest}\n"
    return {"hta/temporal_breakdown.csv": text}


def test_a_row_of_totals_a_rank_tells_who_may_be_slow(analyzed):
    (slow,) = found(analyzed(profiled(slow=3)), "slow-rank")
    assert (slow.ranks, slow.confidence) == ((3,), "possible")
    assert "computes 3.2 s longer" in slow.headline
    assert slow.evidence[0].line == 5


COUNTS = {"sizes.csv": "rank,params,buffers\n" + "".join(
    f"{rank},{7_000 + 900 * (rank == 3)},12\n" for rank in range(16)
)}  # fmt: skip


@pytest.mark.parametrize("job", [profiled(None), profiled(3, waits=False), COUNTS])
def test_totals_of_ranks_that_wait_alike_name_nobody(analyzed, job):
    assert not found(analyzed(job), "slow-rank")
