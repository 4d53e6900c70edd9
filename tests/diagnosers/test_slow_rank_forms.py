"""slow-rank in more forms of lines, and by steps that are long now and then."""

import json
from datetime import timedelta

import pytest

from nccl_lines import found

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


def of_other_words(rank, step, load, forward, reduce):
    """The parts are named by what nobody else calls them; one is as long as all."""
    times = f"loader_stall {load * 1e3:.1f}ms | net {forward * 1e3:.1f}ms"
    rest = f"drain {reduce * 1e3:.1f}ms | total_wall {1e3 * (load + forward + reduce):.1f}ms"
    return f"rank {rank} it={step:06} :: {times} | {rest}"


def of_another_language(rank, step, load, forward, reduce):
    times = f"lecture {load * 1e3:.1f} ms, avant {forward * 1e3:.1f} ms"
    rest = (
        f"arrière {reduce * 1e3:.1f} ms, durée {1e3 * (load + forward + reduce):.1f} ms"
    )
    return f"[rank{rank}] pas : {times}, {rest}"


def of_spans(rank, step, load, forward, reduce):
    """A line a part."""
    parts = {"train.dl": load, "train.fw": forward, "train.red": reduce}
    told = (
        {"kind": "span", "rank": rank, "name": name, "step": step, "dur_ms": 1e3 * took}
        for name, took in parts.items()
    )
    return "\n".join(map(json.dumps, told))


def of_moments(rank, step, load, forward, reduce):
    """Times of day, as a table of a loop's own has them."""
    at = 1_795_000_000 + 1.2 * step
    ends = (at, at + load, at + load + forward, at + load + forward + reduce)
    names = ("t_begin", "t_batch", "t_fwd_end", "t_grads_reduced")
    return f"rank={rank} step={step} " + " ".join(
        f"{name}={end:.4f}" for name, end in zip(names, ends, strict=True)
    )


def of_bare_numbers(rank, step, load, forward, reduce):
    """No unit but that of the step, which they make up."""
    times = f"input {load * 1e3:.2f} mlp {forward * 1e3:.2f} a2a {reduce * 1e3:.2f}"
    whole = 1e3 * (load + forward + reduce)
    return (
        f"rank {rank}: Finished it {step}/3000, {whole:.2f} ms/it, loss 0.19 [{times}]"
    )


def of_a_unit_in_front(rank, step, load, forward, reduce):
    times = f"timing_s/next_batch:{load:.3e} - timing_s/generate:{forward:.4f}"
    whole = f"timing_s/step:{load + forward + reduce:.4f}"
    rest = f"timing_s/wait_peers:{reduce:.4f} - {whole} - response_length/mean:755.1"
    return f"[rank={rank}] step:{step} - {times} - {rest}"


FORMS = (
    *(of_timedelta, of_record, of_tags, of_short_words, of_letters, of_results),
    *(of_other_words, of_another_language, of_spans, of_moments, of_bare_numbers),
    of_a_unit_in_front,
)


@pytest.mark.parametrize("line", FORMS)
def test_times_are_read_in_any_unit_and_form(analyzed, line):
    (slow,) = found(analyzed({"job.log": job(line)}), "slow-rank")
    assert slow.ranks == (SLOW,)
    assert "others wait 17 % of" in slow.headline  # 0.2 s of 1.15


@pytest.mark.parametrize("line", FORMS)
def test_where_all_load_alike_nobody_is_slow(analyzed, line):
    log = job(line, lambda rank, step: 0.05 + 0.004 * ((3 * rank + step) % 4))
    assert not found(analyzed({"job.log": log}), "slow-rank")


def test_half_of_the_ranks_may_wait_in_what_has_no_known_name(analyzed):
    """The others compute for longer, which this loop does not time."""
    line = "rank {} step {} | data 5.0ms | stall_x {}ms | grad_sync 10.{}ms | total 200.0ms\n"
    log = "".join(
        line.format(rank, step, 80.5 if rank < 2 else 10.5, step % 5)
        for step in range(STEPS)
        for rank in range(RANKS)
    )
    assert not found(analyzed({"job.log": log}), "slow-rank")


def counters(slow=SLOW, looks=8):
    """Return a file of counters for each rank, as Prometheus' text format has them."""
    name = 'train_phase_seconds_total{{phase="{}",rank="{}",node="gpu{:04}"}} {:.6f}\n'
    files = {}
    for rank in range(RANKS):
        load = 7.5 if rank == slow else 1.5
        grows = {"fetch": load, "forward": 12.0, "allreduce": 23.0 - load}
        files[f"metrics/rank{rank}.prom"] = "".join(
            name.format(phase, rank, rank // 2, (look + 1) * more)
            for look in range(looks)
            for phase, more in grows.items()
        )
    return files


def test_counters_of_seconds_tell_who_is_slow_and_where(analyzed):
    (slow,) = found(analyzed(counters()), "slow-rank")
    assert (slow.ranks, slow.hosts) == ((SLOW,), ("gpu0001",))
    assert not found(analyzed(counters(slow=None)), "slow-rank")


def profile(kernels, nccl):
    """Return a table as `key_averages().table()` of torch.profiler prints it."""
    rows = [
        ("-" * 40, *(("-" * 12,) * 3)),
        ("Name", "Self CUDA", "CUDA total", "# of Calls"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", *((f"{nccl:.3f}ms",) * 2), "40"),
        ("void gemm_kernel<8, ...>", *((f"{kernels:.3f}ms",) * 2), "1920"),
        ("ProfilerStep*", "9.900s", "9.900s", "10"),
    ]
    cells = ((name.rjust(40), *(c.rjust(12) for c in row)) for name, *row in rows)
    lines = ["".join(f"{cell}  " for cell in row) for row in cells]
    return "".join(f"{line}\n" for line in (*lines, "Self CUDA time total: 2.9s"))


def test_a_profile_of_kernels_tells_whose_gpu_computes_longer(analyzed):
    times = {rank: (1390.0 + rank, 1550.0 - rank) for rank in range(RANKS)}
    files = {f"rank{r}.txt": profile(*took) for r, took in times.items()}
    assert not found(analyzed(files), "slow-rank")
    files["rank2.txt"] = profile(2080.0, 170.0)
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (2,)
    # who computes longer while nobody waits for it has other work
    files["rank2.txt"] = profile(2080.0, 1550.0)
    assert not found(analyzed(files), "slow-rank")


def test_a_table_of_known_parts_needs_no_units(analyzed):
    """Tab-separated, a file a rank, without the time of the whole step."""

    def table(load):
        rows = ["it\tinput\tmodel_fwd\tmodel_bwd\tdp_reduce\tgradnorm_world\tadam"]
        for step in range(STEPS):
            reduce = 0.35 - load + 0.002 * (step % 3)
            rows.append(f"{step}\t{load}\t0.1561\t0.2913\t{reduce:.4f}\t0.0010\t0.0335")
        return "\n".join(rows)

    files = {f"rank{r}/phases.tsv": table(0.004) for r in range(RANKS)}
    assert not found(analyzed(files), "slow-rank")
    files["rank1/phases.tsv"] = table(0.204)
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (1,)


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
