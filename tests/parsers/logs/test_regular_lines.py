"""Which lines of a log are regular: repeated, with numbers, in its end."""

import pytest

from ncclforensics.parsers import parse
from ncclforensics.parsers.logs import regular_lines
from ncclforensics.sources import discover

STEP = "rank=3 step={} forward={:.3f}s\n"


@pytest.fixture
def read(tmp_path):
    def of(text, name="job.log"):
        (tmp_path / name).write_text(text)
        (source,) = discover([str(tmp_path / name)], tmp_path / "scratch").sources
        return parse(source).message(regular_lines.MESSAGE)

    return of


def test_a_line_that_is_there_again_with_other_numbers_is_regular(read):
    lines = read("starting\n" + "".join(STEP.format(n, n / 7) for n in range(6)))
    assert lines["line"].to_list() == [2, 3, 4, 5, 6, 7]
    assert lines["shape"].unique().to_list() == ["rank=# step=# forward=#s"]


@pytest.mark.parametrize(
    "text",
    [
        "".join(STEP.format(n, n / 7) for n in range(3)),  # too few
        "the job goes on\n" * 20,  # no number
        "gpu0001:41:42 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P\n" * 20,
        "",
    ],
)
def test_others_are_not(read, text):
    assert read(text).is_empty()


def test_lines_of_the_end_of_a_large_log_have_their_numbers(read, monkeypatch):
    monkeypatch.setattr(regular_lines, "MOST_BYTES", 2000)
    text = "".join(STEP.format(n, n / 7) for n in range(1, 501))
    lines = read(text)
    assert lines["line"].max() == 500
    assert lines.height < 100
    for line, said in lines.select("line", "text").iter_rows():
        assert f"step={line} " in said


def test_a_table_has_the_names_above_its_rows(read):
    rows = "".join(f"{n},{n % 2},0.{n}\n" for n in range(8))
    table = f"started\nstep,rank,forward_s,\n{rows}".replace("forward_s,", "forward_s")
    wide = table.replace(",0.", ",7,0.").replace("rank,", "rank,epoch,")
    lines = read(wide)
    assert lines["names"].unique().to_list() == ["step,rank,epoch,forward_s"]
