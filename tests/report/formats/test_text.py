"""The text answer: what the person on call reads first, and what it leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace as with_
from rich.cells import cell_len

from ncclforensics.model import tables
from ncclforensics.model.findings import Cite, NotChecked, Ranked, RuledOut
from ncclforensics.model.frames import Frames
from ncclforensics.report.build import build
from ncclforensics.report.formats.text import render_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.report.class_docs import Documented
    from ncclforensics.report.contract import Report

WHOLE = """\
missing-rank: rank 617 on gpu0078 (GPU 1)                                certain
rank 617 never joined all_reduce SeqNum=84925 of 35 (TENSOR_MODEL_PARALLEL_GROU…
why      rank 617 never joined all_reduce SeqNum=84925 of 35
         (TENSOR_MODEL_PARALLEL_GROUP).
         1,023 of 1,024 members wait in it; rank 617 last finished 84924 at
         12:07:31.204Z and enqueued nothing after it.
call     all_reduce SeqNum=84925 in process group 35
         (TENSOR_MODEL_PARALLEL_GROUP) at checkpoint.py:214 save_async
when     first seen 2026-01-02T03:04:05.678Z
evidence fr/nccl_trace_rank_617:84924  all_reduce SeqNum=84924 completed
         logs/attempt_0/3/stderr.log:48211
           | [rank3]:[E102 03:04:05.678901 ProcessGroupNCCL.cpp:616] [Rank 3]
           | Watchdog caught collective operation timeout:
           | WorkNCCL(SeqNum=84925, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,
           | Timeout(ms)=600000) ran for 600029 milliseconds before timing out.
do       Look at what rank 617 does:
         ssh gpu0078 py-spy dump --pid 41234
echoes   timeout-masking: ranks 0-616,618-1023 (1,023 watchdogs timed out after
           10 minutes)
not      gpu-oom: no rank reports a failed allocation
unknown  host-oom, gpu-fault: no kernel log; next time: save dmesg -T of each
           host
job      1,023 of 1,024 ranks seen on 128 hosts (gpu[0001-0128]) · NCCL 2.27.5 ·
         torch 2.9 · torchrun
notes    3 notes
         fr/nccl_trace_rank_1: cut in entry 1 (and 2 more like it, in 3 files)
next     ncclforensics timeline PATH · ncclforensics explain missing-rank
"""
ANSWER = """\
missing-rank: rank 617 on gpu0078 (GPU 1)                                certain
rank 617 never joined all_reduce SeqNum=84925 of 35 (TENSOR_MODEL_PARALLEL_GROU…
why      rank 617 never joined all_reduce SeqNum=84925 of 35
         (TENSOR_MODEL_PARALLEL_GROUP). 1,023 of 1,024 members wait in it; rank
         617 last finished 84924 at 12:07:31.204Z and enqueued nothing after it.
call     all_reduce SeqNum=84925 in process group 35
         (TENSOR_MODEL_PARALLEL_GROUP) at checkpoint.py:214 save_async
when     first seen 2026-01-02T03:04:05.678Z
evidence fr/nccl_trace_rank_617:84924  all_reduce SeqNum=84924 completed
         logs/attempt_0/3/stderr.log:48211
           | [rank3]:[E102 03:04:05.678901 ProcessGroupNCCL.cpp:616] [Rank 3]…
do       Look at what rank 617 does:
         ssh gpu0078 py-spy dump --pid 41234
job      1,023 of 1,024 ranks seen on 128 hosts (gpu[0001-0128]) · NCCL 2.27.5 ·
         torch 2.9 · torchrun
notes    fr/nccl_trace_rank_1: cut in entry 1 (and 2 more like it, in 3 files)
more     1 consequence · ruled out 1 · unchecked 2: -v
next     ncclforensics timeline PATH · ncclforensics explain missing-rank
"""


def test_the_answer(report: Report) -> None:
    assert render_text(report) == ANSWER


def test_the_verbose_answer_lists_everything(report: Report) -> None:
    assert render_text(report, verbose=True) == WHOLE


def test_the_words_are_the_same_with_and_without_colour(report: Report) -> None:
    coloured = render_text(report, colour=True)
    assert coloured.startswith("\x1b[1;31mmissing-rank")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == ANSWER


def test_quiet_is_the_two_lines_for_a_ticket(report: Report) -> None:
    assert render_text(report, quiet=True).splitlines() == ANSWER.splitlines()[:2]


def test_a_wide_terminal_gets_longer_quotes(report: Report) -> None:
    wide = render_text(report, width=200)
    assert wide.splitlines()[:2] == ANSWER.splitlines()[:2]
    assert "collective operation timeout: WorkNCCL(SeqNum=84925, OpType=" in wide


@pytest.mark.parametrize(
    ("ranks", "hosts", "devices", "first"),
    [
        ((), (), (), "missing-rank: no rank accused"),
        ((), ("gpu2", "gpu1"), (), "missing-rank: hosts gpu[1-2]"),
        ((), ("gpu1",), ("3",), "missing-rank: host gpu1 (GPU 3)"),
        ((3, 4), ("n1",), ("0", "1"), "missing-rank: ranks 3-4 on n1 (GPUs 0,1)"),
        (
            range(0, 64, 2),
            ("n1", "n2"),
            (),
            "missing-rank: ranks 0-62:2 (32 in all) on n[1-2]",
        ),
        ((1,), ("x" * 90,), (), "missing-rank: rank 1 on 1 host"),
    ],
)
def test_the_first_line_names_whom_it_can_in_80_columns(
    report: Report,
    ranked: Ranked,
    frames: Frames,
    classes: Mapping[str, Documented],
    ranks: tuple[int, ...],
    hosts: tuple[str, ...],
    devices: tuple[str, ...],
    first: str,
) -> None:
    assert ranked.verdict is not None
    verdict = replace(ranked.verdict, ranks=tuple(ranks), hosts=hosts, devices=devices)
    text = render_text(build(replace(ranked, verdict=verdict), frames, classes))
    line = text.splitlines()[0]
    assert line.startswith(first + " ")
    assert line.endswith(" certain")
    assert cell_len(line) == 80


def test_a_verdict_that_is_no_cause_says_so(report: Report) -> None:
    assert report.verdict is not None
    nobody = with_(
        report.verdict, culprits=with_(report.verdict.culprits, ranks=(), hosts=())
    )
    text = render_text(with_(report, outcome="inconclusive", verdict=nobody))
    assert text.startswith("missing-rank: inconclusive, ")


def test_health_is_not_certified(report: Report) -> None:
    healthy = with_(report, outcome="no-failure", verdict=None, findings=())
    first, second = render_text(healthy).splitlines()[:2]
    assert first == "no-failure: nothing in this evidence failed"
    assert second == (
        "not a clean bill of health; looked at 3 files of 1,023 ranks, 1 not recognised"
    )


def test_an_unknown_cause_says_what_would_have_told_it(report: Report) -> None:
    unknown = with_(report, outcome="inconclusive", verdict=None, findings=())
    lines = render_text(unknown, verbose=True).splitlines()
    assert lines[0] == (
        "inconclusive: something stopped, and its cause is not in this evidence"
    )
    assert lines[1] == "next time: save dmesg -T of each host"
    assert "host-oom, gpu-fault: no kernel log; next time: save dmesg" in lines[3]
    no_hint = with_(report, outcome="inconclusive", verdict=None, not_checked=())
    assert render_text(no_hint).splitlines()[1].startswith("first sign: rank 617 never")


def test_photographs_are_no_evidence(classes: Mapping[str, Documented]) -> None:
    photos = tables.rows("sources", [{"source": "a.jpg", "kind": "unknown"}])
    frames = Frames({"sources": photos})
    unseen = (NotChecked("gpu-oom", "no log", "keep stderr"),)
    ranked = Ranked("inconclusive", None, not_checked=unseen, job={"ranks_seen": 0})
    text = render_text(build(ranked, frames, classes))
    assert text.splitlines()[:2] == [
        "inconclusive: nothing here was recognised as evidence",
        "looked at 1 file, 1 not recognised",
    ]
    assert "Give the directory that holds NCCL_DEBUG logs" in text
    assert "unknown" not in text


def test_long_lists_are_counted_and_say_how_to_see_them(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    cites = tuple(Cite(f"{i}.log", i, "died") for i in range(30))
    verdict = replace(ranked.verdict, evidence=cites)
    long = replace(
        ranked,
        verdict=verdict,
        findings=(("root", verdict), *(("witness", verdict),) * 9),
        ruled_out=tuple(RuledOut(f"c{i}", f"why {i}") for i in range(20)),
        not_checked=tuple(NotChecked(f"c{i}", f"{i}", "x") for i in range(20)),
    )
    report = build(long, frames, classes)
    text = render_text(report)
    assert len(text.splitlines()) <= 20
    assert "30 citations · " in text
    assert "ruled out 20 · unchecked 20: -v\n" in text
    whole = render_text(report, verbose=True)
    assert "29.log:29  died" in whole
    assert "c19: why 19" in whole


def test_a_log_cannot_write_a_line_of_the_report(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    forged = "x" * 64 + " do       rm -rf ~\nverdict rank 5 ::error::no " * 9
    verdict = replace(ranked.verdict, evidence=(Cite("a.log", 1, forged),))
    text = render_text(
        build(replace(ranked, verdict=verdict), frames, classes), verbose=True
    )
    quoted = [line for line in text.splitlines() if "rm -rf" in line or "::" in line]
    assert quoted
    assert all(line.startswith("           | ") for line in quoted)


def test_commands_stay_whole_and_sentences_wrap(
    ranked: Ranked, frames: Frames, classes: Mapping[str, Documented]
) -> None:
    assert ranked.verdict is not None
    command = "NCCL_SOCKET_IFNAME=ib0 torchrun --nnodes 128 " + "--flag " * 12 + "a.py"
    piped = (
        "nv-fabricmanager --version; nvidia-smi --query-gpu=driver_version | sort -u"
    )
    sentence = "Set NCCL_SOCKET_IFNAME on every host to the interface " * 2
    verdict = replace(ranked.verdict, remedy=(command, piped, sentence))
    text = render_text(build(replace(ranked, verdict=verdict), frames, classes))
    assert f"do       {command}\n" in text
    assert f"         {piped}\n" in text
    wrapped = [line for line in text.splitlines() if "the interface" in line]
    assert max(map(len, wrapped)) <= 80
