"""Of a bar that is redrawn in one line, its ends and all that is not the bar are read."""

import polars as pl

from ncclforensics.parsers.logs import framing, redraws

BAR = "Epoch 3: {0:3d}%|{1:10}| {0}/100 [00:{0:02d}<03:02, 3.{0}it/s, loss=0.{0}]"


def pieces(*raw):
    told = pl.DataFrame({"line": range(1, len(raw) + 1), "raw": raw})
    return redraws.parted(told).rows()


def bars(*steps):
    return [BAR.format(step, "#" * (step // 10)) for step in steps]


def test_of_redraws_the_first_and_the_last_of_each_line_are_read():
    one, other = bars(*range(50)), bars(*range(50, 100))
    found = pieces("\r".join(one), "no bar", "\r".join(other))
    assert found == [
        *((1, one[0]), (1, one[-1]), (2, "no bar")),
        *((3, other[0]), (3, other[-1])),
    ]


def test_what_is_printed_between_redraws_is_read():
    lost = "[rank1]: RuntimeError: lost"
    first, second, third, last = bars(1, 2, 3, 4)
    told = (first, second + lost, third, f"{third} saved", "step 4 is saved", last)
    found = [raw for _, raw in pieces("\r".join(told))]
    assert found == [first, lost, f"{third} saved", "step 4 is saved", last]


def test_lines_of_ranks_that_differ_in_numbers_are_no_bar():
    told = [f"[rank {rank}] 40% | loss 0.{rank}" for rank in range(9)]
    assert [raw for _, raw in pieces("\r".join(told))] == told
    text = framing.frame(pl.DataFrame({"line": [1], "raw": ["\r".join(told)]}))
    assert text.height == len(told)
