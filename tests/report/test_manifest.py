"""The table of files works at 80 columns and in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace as with_

from ncclforensics.report.manifest import render_manifest

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report

PIPED = """\
source                       kind                    rank  host     rows  why
fr/nccl_trace_rank_617       flight_recorder_pickle   617  gpu0078  2000  a pickled \
dict with entries
logs/attempt_0/3/stderr.log  log                        3  -           4  text with a \
torchrun layout
photo.jpg                    unknown                    -  -           -  binary

3 files: 1 flight_recorder_pickle, 1 log, 1 unknown; nothing was recognised in 1 of them

3 notes:
  fr/nccl_trace_rank_1:1  cut in entry 1 (parsers)
  fr/nccl_trace_rank_2:2  cut in entry 2 (parsers)
  fr/nccl_trace_rank_3:3  cut in entry 3 (parsers)
"""


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
    column = "".join(line[: lines[0].index("kind")].strip() for line in lines[1:-2])
    assert column == name


def test_nothing_at_all_is_still_an_answer(report: Report) -> None:
    assert render_manifest(with_(report, sources=(), notes=())) == "0 files\n"
