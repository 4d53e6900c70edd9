"""slow-rank in more forms of lines, and by steps that are long now and then."""

import json
from datetime import timedelta

import polars as pl
import pytest

from nccl_lines import found
from ncclforensics.model import step_parts
from ncclforensics.parsers.logs import grammar

RANKS, STEPS, SLOW = 4, 48, 2


def job(line, load=lambda rank, _: 0.25 if rank == SLOW else 0.05):
    """Return a log: `line(rank, step, load, forward, reduce)` of each rank and step."""
    lines = []
    for step in range(STEPS):
        loads = [load(rank, step) for rank in range(RANKS)]
        for rank, took in enumerate(loads):
            forward = 0.4 + 0.001 * ((step * 7 + rank * 3) % 5)
            lines.append(line(rank, step, took, forward, 0.5 + max(loads) - took))
    return "".join(f"{line}\n" for line in lines)


def of_timedelta(rank, step, load, forward, reduce):
    said = (str(timedelta(seconds=took)) for took in (load, forward, reduce))
    return "[world_rank={}] it {:05} | next_batch={} fwd={} backward={}".format(
        rank, step, *said
    )


def of_record(rank, step, load, forward, reduce):
    parts = {"read_shard": load, "forward": forward, "reduce": reduce}
    micro = {name: int(took * 1e6) for name, took in parts.items()}
    told = {"event": "step", "rank": rank, "global_step": step, "spans_us": micro}
    return json.dumps(told)


def of_tags(rank, step, load, forward, reduce):
    times = f"read {load * 1e3:.1f}ms | compute {forward * 1e3:.1f}ms"
    return f"I0703 03:12:07.448043 trainer.cc] [r{rank}] it={step} | {times}" + (
        f" | comm {reduce * 1e3:.1f}ms"
    )


def of_short_words(rank, step, load, forward, reduce):
    times = f"dl {load * 1e3:.1f} | fw {forward * 1e3:.1f} | sync {reduce * 1e3:.1f}"
    whole = 1e3 * (load + forward + reduce)
    return f"dp0 rank{rank} | it {step} | {times} | tot {whole:.1f} ms"


def of_letters(rank, step, load, forward, reduce):
    times = f"batch {load * 1e3:.1f} | F {(forward + load) * 1e3:.1f} | B 300.5"
    return f"{rank}: it/{step} {times} | AR {reduce * 1e3 - 300:.1f} | sum 1150.0 ms"


def of_results(rank, step, load, forward, reduce):
    """Beside its loss, which is no time, though it is called one of a step."""
    times = f"data_time={load:.4f} training_step={forward:.4f} backward={reduce:.4f}"
    whole = f"batch_time={load + forward + reduce:.4f} train_loss_step=3.1013"
    return f"[rank: {rank}] global_step={step} {times} {whole}"


@pytest.mark.parametrize(
    "line", [of_timedelta, of_record, of_tags, of_short_words, of_letters, of_results]
)
def test_times_are_read_in_any_unit_and_form(analyzed, line):
    (slow,) = found(analyzed({"job.log": job(line)}), "slow-rank")
    assert slow.ranks == (SLOW,)
    assert "others wait 17 % of" in slow.headline  # 0.2 s of 1.15


def in_every(many, rank=SLOW):
    """Return who loads for longer in one of so many steps."""
    return lambda r, step: 1.5 if r == rank and step % many == 3 else 0.05


def test_a_rank_that_stalls_again_and_again_is_slow(analyzed):
    (slow,) = found(analyzed({"job.log": job(of_tags, in_every(8))}), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_a_rank_that_stalled_a_few_times_is_not(analyzed):
    once = {5, 6, 7}
    text = job(of_tags, lambda r, s: 1.5 if r == SLOW and s in once else 0.05)
    assert not found(analyzed({"job.log": text}), "slow-rank")


def test_stalls_that_hit_any_rank_name_nobody(analyzed):
    text = job(of_tags, lambda r, s: 1.5 if (s * 5 + 3 * r) % 16 == 0 else 0.05)
    assert not found(analyzed({"job.log": text}), "slow-rank")


def test_each_word_that_is_searched_for_is_a_part_of_a_step():
    """What the needles find is told, not read past; a batch is got, or all of a step."""
    (message,) = (m for m in grammar.load() if m.id == "timers.step")
    words = {n.removesuffix("=").strip() for n in message.needles if n.endswith("=")}
    words = {word for word in words if word[0] != "_"} - {
        "train_batch",
        "duration",
        "latency",
    }
    told = pl.DataFrame({"word": sorted(words)}).with_columns(
        kind=step_parts.kinds(step_parts.named(pl.col("word")))
    )
    assert told.height > 10
    assert told.filter(pl.col("kind").is_null())["word"].to_list() == []


def timings(name, slow=2):
    """Return a table of each rank's own steps, in files with such names."""
    files = {}
    for rank in range(RANKS):
        rows = ["step,load_ms,forward_ms,grad_sync_ms,step_ms"]
        for step in range(STEPS):
            load = (250 if rank == slow else 50) + (step * 7 + rank * 3) % 5
            rows.append(f"{step},{load}.25,400.5,{700 - load}.25,1151.0")
        files[name.format(rank)] = "\n".join(rows)
    return files


def test_files_of_the_steps_of_one_process_are_numbered_by_rank(analyzed):
    (slow,) = found(analyzed(timings("timing_{}.csv")), "slow-rank")
    assert slow.ranks == (2,)


@pytest.mark.parametrize("name", ["node{}.csv", "timing_worker-{}.csv"])
def test_but_not_what_is_numbered_by_node_or_pod(analyzed, name):
    assert not found(analyzed(timings(name)), "slow-rank")
