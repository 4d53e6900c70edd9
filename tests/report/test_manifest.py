"""The table of files works at 80 columns and in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace as with_

from ncclforensics.report.manifest import render_manifest

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report

PIPED = """\
source                       kind                    ranks  hosts     rows  first  \
lasts  dialect
fr/nccl_trace_rank_617       flight_recorder_pickle    617  gpu0078  2,000  -      \
-      a pickled dict with entries
logs/attempt_0/3/stderr.log  log                         3  -            4  -      \
-      text with a torchrun layout
photo.jpg                    unknown                     -  -            -  -      \
-      binary

3 files: 1 flight_recorder_pickle, 1 log, 1 unknown; nothing was recognised in 1 of them

3 notes:
  fr/nccl_trace_rank_1:1  cut in entry 1 (parsers)
  fr/nccl_trace_rank_2:2  cut in entry 2 (parsers)
  fr/nccl_trace_rank_3:3  cut in entry 3 (parsers)
"""
RUN = """\
dumps/rank_[0-2]
  3 files · flight_recorder_pickle · a pickled dict with entries ·
  ranks 0-2 on gpu[0001-0002] · 6,000 rows · 2026-01-02T03:04:05Z for 1 min 30 s
dumps/rank_3
  empty · 0 bytes
logs/train.log
  log · NCCL, c10d · ranks 0-3 · 1 row

5 files: 1 empty, 3 flight_recorder_pickle, 1 log; nothing was recognised in 1 of them
"""


@pytest.fixture
def run(report: Report) -> Report:
    """A report on three dumps of a run, an empty file beside them, and a log."""
    dumps = [
        with_(
            report.sources[0],
            source=f"dumps/rank_{rank}",
            rank=rank,
            host=f"gpu000{1 + rank // 2}",
            first=f"2026-01-02T03:04:0{5 + rank}.000000000Z",
            last="2026-01-02T03:05:35.000000000Z",
        )
        for rank in range(3)
    ]
    empty = with_(report.sources[2], source="dumps/rank_3", kind="empty", why="0 bytes")
    log = with_(
        report.sources[1],
        source="logs/train.log",
        rank=None,
        rows=1,
        ranks="0-3",
        dialects=("NCCL", "c10d"),
    )
    return with_(report, notes=(), sources=(*dumps, empty, log))


def test_a_run_of_alike_files_is_one_row_and_fits_a_terminal(run: Report) -> None:
    assert render_manifest(run, width=80) == RUN


def test_all_lists_every_file_of_a_run(run: Report) -> None:
    for width in (None, 80):
        folded = render_manifest(run, width=width)
        whole = render_manifest(run, width=width, whole=True)
        names = [file.source for file in run.sources]
        assert all(name in whole for name in names)
        assert "dumps/rank_[0-2]" in folded
        assert "dumps/rank_1" not in folded


def test_a_pipe_gets_one_whole_line_per_file(report: Report) -> None:
    assert render_manifest(report) == PIPED


def test_a_long_name_is_never_cut_in_a_pipe(report: Report) -> None:
    name = "x" * 500
    long = with_(report, sources=(with_(report.sources[0], source=name),))
    assert f"{name}  flight_recorder_pickle" in render_manifest(long)


def test_a_terminal_gets_its_width(report: Report) -> None:
    name = "logs/" + "x" * 200
    long = with_(report, notes=(), sources=(with_(report.sources[0], source=name),))
    lines = render_manifest(long, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(line for line in lines if not line.startswith(" ")).startswith(name)


def test_nothing_at_all_is_still_an_answer(report: Report) -> None:
    assert render_manifest(with_(report, sources=(), notes=())) == "0 files\n"
