"""Lines that are alike but for their numbers: what each number is, by what it does."""

import json

import pytest

from nccl_lines import found
from ncclforensics.correlate.steps import regular_forms

RANKS, STEPS, SLOW = 4, 40, 2
UNKNOWN = {"tick": "tick", "seat": "seat", "us": "us"}


def times(rank, step):
    """Load, work and wait of a rank, in seconds: all leave the step together."""
    work = 0.4 + 0.001 * ((step * 7 + rank * 3) % 5) + (0.2 if rank == SLOW else 0.0)
    return 0.02 + 0.001 * ((step + rank) % 3), work, 0.75 - work


def each(line):
    return "".join(
        line(rank, step, *times(rank, step)) + "\n"
        for step in range(STEPS)
        for rank in range(RANKS)
    )


def of_unknown_words(rank, step, load, work, wait):
    told = {"feed": load, "think": work, "gossip": wait}
    told = {name: round(1e6 * took) for name, took in told.items()}
    return json.dumps({"tick": 100 + step, "seat": rank, "us": told})


def of_prose(rank, step, load, work, wait):
    return (
        f"worker {rank}/{RANKS} round {step}: next batch {load:.4f}s, local compute "
        f"{work:.4f}s, blocked on peers {wait:.4f}s"
    )


def of_ranks_in_hosts(rank, step, load, work, wait):
    host = f"rack{1 + rank // 2}-u{10 + rank // 2}"
    return f"node={host} gr={rank} stp={step} t_in={load:.4f} t_busy={work:.4f}"


def of_bars(rank, step, load, work, wait):
    return f"{step}/99 [00:15, 0.77s/it, rank={rank}, py={work:.3f}s, nccl={wait:.3f}s]"


def behind_a_label_and_a_header(rank, step, load, work, wait):
    return (
        f"[node0{1 + rank // 2}:{rank % 2}] I0928 15:05:{step:02}.268627 {1056114 + rank} "
        f"loop.py:318] <{rank}> update {step} (dequeue {load:.3f} s, device {work:.3f} s, "
        f"peers {wait:.3f} s)"
    )


def of_a_rank_in_parentheses(rank, step, load, work, wait):
    return (
        f"Aug  1 08:00:{step:02} node01 trainer[{4000 + rank}]: ({rank}/{RANKS}) batch "
        f"{step}: input {load:.3f} s; fwd {work:.3f} s; blocked in allreduce {wait:.3f} s"
    )


def in_the_unit_that_suits(rank, step, load, work, wait):
    """Waits of less than 0.2 s in milliseconds."""
    waited = f"{1e3 * wait:.1f}ms" if wait < 0.2 else f"{wait:.3f}s"
    return (
        f"level=info msg=step rank={rank} step={step} compute={work:.3f}s wait={waited}"
    )


def in_epochs(rank, step, load, work, wait):
    epoch, batch = divmod(step, 10)
    return (
        f"Part {rank} | Epoch {epoch:02} | Step {batch} | sample {load:.3f} s | forward "
        f"{work:.3f} s | gradsync {wait:.3f} s"
    )


def of_names_with_parentheses(rank, step, load, work, wait):
    return f"rank {rank} step {step}: F={work:.3f}s idle(F)={wait / 2:.3f}s idle(B)={wait / 2:.3f}s"


@pytest.mark.parametrize(
    "line",
    [
        *(of_unknown_words, of_prose, of_ranks_in_hosts, of_bars),
        *(behind_a_label_and_a_header, of_a_rank_in_parentheses),
        *(in_the_unit_that_suits, in_epochs, of_names_with_parentheses),
    ],
)
def test_who_works_longer_is_named_whatever_the_words_are(analyzed, line):
    (slow,) = found(analyzed({"job.log": each(line)}), "slow-rank")
    assert slow.ranks == (SLOW,)


@pytest.mark.parametrize("line", [of_unknown_words, of_prose, in_epochs])
def test_where_all_work_alike_nobody_is_named(analyzed, line):
    text = each(lambda rank, step, *_: line(rank, step, *times(0, step + rank)))
    analysis = analyzed({"job.log": text})
    assert not found(analysis, "slow-rank")
    assert analysis.report.outcome == "no-failure"


def test_names_of_hosts_that_blocks_of_ranks_share_are_theirs(analyzed):
    (slow,) = found(analyzed({"job.log": each(of_ranks_in_hosts)}), "slow-rank")
    assert slow.hosts == ("rack2-u11",)


def test_a_bar_that_is_redrawn_in_one_line_is_read_piece_by_piece(analyzed):
    files = {}
    for rank in range(RANKS):
        pieces = (of_bars(rank, step, *times(rank, step)) for step in range(STEPS))
        files[f"rank_{rank}.err"] = "\r".join(pieces) + "\n"
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_columns_of_one_rank_each_are_told_apart(analyzed):
    names = ["step"]
    names += [
        f"rank_{r}/{part}_s" for r in range(RANKS) for part in ("compute", "sync")
    ]
    rows = [",".join(names)]
    for step in range(STEPS):
        cells = [times(rank, step)[1:] for rank in range(RANKS)]
        rows.append(
            ",".join([str(step), *(f"{t:.4f}" for both in cells for t in both)])
        )
    (slow,) = found(analyzed({"export.csv": "\n".join(rows) + "\n"}), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_a_table_is_read_by_the_names_above_its_rows(analyzed):
    text = ""
    for step in range(STEPS):
        text += f"== update {step}\n┃ rank ┃ batch_in ┃ compute ┃ sync ┃\n"
        for rank in range(RANKS):
            load, work, wait = (1e3 * took for took in times(rank, step))
            text += f"│ {rank} │ {load:.1f}ms │ {work:.1f}ms │ {wait:.1f}ms │\n"
    (slow,) = found(analyzed({"console.txt": text}), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_totals_of_times_are_told_by_what_they_grow(analyzed):
    text, sums = "", {rank: [0.0, 0.0] for rank in range(RANKS)}
    for step in range(STEPS):
        for rank, total in sums.items():
            total[0] += times(rank, step)[1]
            total[1] += times(rank, step)[2]
            text += "rank={} step={} cum_compute_s={:.3f} cum_sync_s={:.3f}\n".format(
                rank, step, *total
            )
    (slow,) = found(analyzed({"job.log": text}), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_tables_of_one_part_each_are_one_table(analyzed):
    files = {}
    for place, part in enumerate(("input_wait", "device_fwd", "reduce_tail")):
        rows = ["step," + ",".join(f"r{rank}" for rank in range(RANKS))]
        for step in range(STEPS):
            told = (f"{1e3 * times(rank, step)[place]:.1f}" for rank in range(RANKS))
            rows.append(f"{1200 + step}," + ",".join(told))
        files[f"tables/{part}_ms.csv"] = "\n".join(rows) + "\n"
    (slow,) = found(analyzed(files), "slow-rank")
    assert (slow.ranks, slow.confidence) == ((SLOW,), "likely")
    (cite,) = slow.evidence
    assert cite.source == "tables/device_fwd_ms.csv"


def test_a_row_of_a_part_is_named_by_its_tag(analyzed):
    files = {}
    for rank in range(RANKS):
        rows = ["Wall time,Step,Tag,Value"]
        for step in range(STEPS):
            load, work, wait = times(rank, step)
            for part, took in (
                ("end_to_end", load + work + wait),
                ("data_loading", work),
            ):
                at = f"{1794655837 + step}.5,{step},time_metrics/{part}"
                rows += [f"{at}(s),{took:.4f}", f"{at}(%),{100 * took:.2f}"]
        files[f"export/rank_{rank}.csv"] = "\n".join(rows) + "\n"
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (SLOW,)
    assert "others wait 2" in slow.headline  # 0.2 s of 0.8


def test_how_long_a_part_took_is_told_by_its_begin_and_end(analyzed):
    files = {}
    for rank in range(RANKS):
        now, lines = 1749650865.0, []
        for step in range(STEPS):
            parts = zip(("fetch", "model", "reduce"), times(rank, step), strict=True)
            for name, took in parts:
                ends = f"begin={now:.4f} end={now + took:.4f}"
                lines.append(f"step={step} phase={name} {ends}")
                now += took
        files[f"spans/rank{rank}.txt"] = "\n".join(lines) + "\n"
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_a_shipper_s_record_is_no_line_of_the_program(analyzed):
    files = {}
    for rank in range(RANKS):
        lines = []
        for step in range(STEPS):
            _, work, wait = times(rank, step)
            said = f"it {step} | compute {work:.3f} s | reduce-wait {wait:.3f} s\n"
            at = f"2026-11-07T17:{step:02}:41.537250159Z"
            lines.append(json.dumps({"log": said, "stream": "stderr", "time": at}))
        files[f"pods/job-worker-{rank // 2}_node0{rank // 2}/proc-{rank % 2}.log"] = (
            "\n".join(lines) + "\n"
        )
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (SLOW,)


def test_marks_are_told_by_a_clock_of_the_program_itself(analyzed):
    files = {}
    for rank in range(RANKS):
        now, lines = 9.0 + rank, []
        for step in range(STEPS):
            load, work, wait = times(rank, step)
            for name, took in (("pull", load), ("graph", work), ("flush", wait)):
                lines.append(f"+{now:012.6f} B {name} #{step}")
                now += took
                lines.append(f"+{now:012.6f} E {name} #{step}")
        files[f"spans/r0{rank}.evt"] = "\n".join(lines) + "\n"
    (slow,) = found(analyzed(files), "slow-rank")
    assert slow.ranks == (SLOW,)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("GET /shard/{} 200 {:.3f}", id="requests, of no rank"),
        pytest.param("sensor 3 reads {} {:.3f}", id="one that counts nothing else"),
    ],
)
def test_lines_of_something_else_are_no_steps(analyzed, line):
    text = "".join(f"{line.format(n % 7, 0.1 + n % 3)}\n" for n in range(60))
    analysis = analyzed({"other.log": text})
    assert regular_forms.LINES not in analysis.frames.messages
    assert analysis.report.outcome == "inconclusive"
