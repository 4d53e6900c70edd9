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


@pytest.mark.parametrize(
    "line", [of_unknown_words, of_prose, of_ranks_in_hosts, of_bars]
)
def test_who_works_longer_is_named_whatever_the_words_are(analyzed, line):
    (slow,) = found(analyzed({"job.log": each(line)}), "slow-rank")
    assert slow.ranks == (SLOW,)


@pytest.mark.parametrize("line", [of_unknown_words, of_prose])
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
