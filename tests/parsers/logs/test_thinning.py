"""Of what ranks print in each step, the same steps are read of all of them."""

import math
import random
from itertools import pairwise

import polars as pl
import pytest

from log_lines import timeout
from ncclforensics.parsers.logs import log_reader, thinning
from ncclforensics.parsers.logs.lines import decoded
from ncclforensics.parsers.logs.needles import in_bulk
from ncclforensics.parsers.logs.search_terms import ALL_STEPS as ALL
from ncclforensics.parsers.logs.thinning import UNTOLD, Thinning
from ncclforensics.sources import Source

MANY = 16_000
DEEPSPEED = (
    "[2026-11-20 12:00:00,512] [INFO] [logging.py:96:log_dist] [Rank {rank}] time (ms)"
    " | fwd_microstep: {ms}.22 | bwd_microstep: 762.81 | step_microstep: 50.1\n"
)
PAIRS = "INFO rank={rank} step={step} loss=1.9 data_time=0.{ms:03} step_time=0.5s\n"


@pytest.fixture
def read(tmp_path):
    def parsed(name, text):
        path = tmp_path / name
        path.write_text(text)
        return log_reader.read(Source(name, path, "log", "", bytes=len(text)))

    return parsed


def chosen(chooser, lines, each):
    """Return the numbers of the chosen lines, given `each` of them at a time."""
    found = []
    for start in range(0, len(lines), each):
        some = lines[start : start + each]
        block = decoded("".join(f"{line}\n" for line in some).encode(), 1)
        at = in_bulk(block.data, b"_time")
        left = chooser.left_out(block, at, block.rows_of(at))
        found += sorted({*range(start, start + len(some))} - {*(left + start)})
    return found


@pytest.mark.parametrize("interval", [1, 10, 16, 100, 256])
def test_all_steps_at_first_then_half_as_many_each_time_there_are_twice(interval):
    lines = [f"step {i * interval} data_time 0.1" for i in range(MANY)]
    found = chosen(Thinning(), lines, 700)
    assert found[: ALL - 1] == list(range(ALL - 1))
    doublings = round(math.log2(MANY / ALL))
    assert len(found) == pytest.approx(ALL + ALL // 2 * doublings, rel=0.1)
    # no gap is much wider than those of a random choice are
    late = [place for place in found if place > MANY // 2]
    gaps = [b - a for a, b in pairwise(late)]
    assert max(gaps) < 9 * sum(gaps) / len(gaps)


def test_ranks_of_one_stream_and_of_files_of_their_own_give_the_same_steps(read):
    chance = random.Random(1)
    steps = range(3000)
    told = [
        [PAIRS.format(rank=rank, step=s, ms=chance.randrange(1000)) for s in steps]
        for rank in range(4)
    ]
    shared = "".join(told[rank][step] for step in steps for rank in range(4))
    lines = read("job.log", shared).message("timers.step")
    by_rank = [set(lines.filter(pl.col("rank") == rank)["step"]) for rank in range(4)]
    assert ALL < len(by_rank[0]) < len(steps) / 2
    alone = read("rank_2.log", "".join(told[2])).message("timers.step")
    # but for what is read beside, of the time of whole steps
    assert all(len(own ^ set(alone["step"])) < 8 for own in by_rank)


def test_without_a_step_the_place_among_the_lines_of_its_rank_tells(read):
    steps = range(3000)
    shared = [DEEPSPEED.format(rank=r, ms=s) for s in steps for r in range(4)]
    found = read("job.log", "".join(shared))
    text = found["events"].filter(pl.col("message") == "timers.step")["text"]
    told = text.str.extract_groups(r"Rank (?<rank>\d+).*fwd_microstep: (?<ms>\d+)")
    lines = told.struct.unnest()
    by_rank = [
        lines.filter(pl.col("rank") == str(rank))["ms"].to_list() for rank in range(4)
    ]
    assert ALL < len(by_rank[0]) < len(steps) / 2
    # the last line of a log is read in any case
    least = min(map(len, by_rank))
    assert [own[:least] for own in by_rank] == [by_rank[0][:least]] * 4
    assert max(map(len, by_rank)) <= least + 1


def test_how_long_a_step_took_is_no_number_of_a_step(read):
    """DeepSpeed's line of a whole step ends in the time of its optimizer."""
    line = "[Rank 3] time (ms) | fwd: {}.40 | bwd: 49.73 | step: {}.66\n"
    text = "".join(line.format(300 + i % 9, 80 + i % 5) for i in range(8 * ALL))
    lines = read("job.log", text).message("timers.step")
    assert ALL < lines.height < 4 * ALL


def test_lines_that_tell_no_step_and_no_rank_are_read_up_to_a_limit():
    found = chosen(Thinning(), ["data_time 0.1"] * (UNTOLD + 100), 1000)
    assert found == list(range(UNTOLD))


def test_trouble_among_the_steps_is_read_and_what_is_left_out_is_told(read):
    lines = [PAIRS.format(rank=3, step=step, ms=7) for step in range(4000)]
    lines.insert(3333, timeout(3))
    found = read("job.log", "".join(lines))
    assert found.message("c10d.watchdog.timeout")["line"].to_list() == [3334]
    (note,) = (t for t in found["notes"]["text"] if "more lines with" in t)
    left_out = len(lines) - 1 - found.message("timers.step").height
    told = int(note.partition(" ")[0].replace(",", ""))
    # a few are read for another reason: beside trouble, or as the last line
    assert left_out <= told < left_out + 10


def test_a_step_told_behind_known_words_is_not_taken_for_none(monkeypatch):
    """The words from the rank to the needle are the same, and then a step is told."""
    lines = [f"[Rank {i % 2}] the data_time is {i}" for i in range(2000)]
    lines += [f"[Rank {i % 2}] the data_time of step {i * 7}" for i in range(6000)]
    known = Thinning()
    found = chosen(known, lines, 500)
    monkeypatch.setattr(thinning, "LESSON", 0)
    assert found == chosen(Thinning(), lines, 500)
    # of steps, both ranks' lines are chosen or none
    late = [place for place in found if place >= 2000]
    steps = {lines[place].rpartition(" ")[2] for place in late}
    assert len(steps) == len(late) > 500
    assert known._texts.many == 0


@pytest.mark.parametrize("each", [1, 7, 500, 20_000])
def test_lines_known_by_their_words_are_chosen_as_if_they_were_parsed(
    monkeypatch, each
):
    chance = random.Random(each)
    lines = [
        chance.choice(
            (
                DEEPSPEED.format(rank=chance.randrange(4), ms=i).strip(),
                f"rank {chance.randrange(12)} took a data_time of {i}",
                f"fwd_time {i} of rank {chance.randrange(4)}",
                f"step {i} data_time 3",
                "a compute_time of nobody",
            )
        ).replace("fwd_microstep", "fwd_time")
        for i in range(6000 if each > 1 else 1500)
    ]
    found = chosen(Thinning(), lines, each)
    monkeypatch.setattr(thinning, "LESSON", 0)
    assert found == chosen(Thinning(), lines, each)
