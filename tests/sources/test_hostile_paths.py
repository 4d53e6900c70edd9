"""Paths that were made to harm: numbers that no column holds, names without end."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from ncclforensics import analysis
from ncclforensics.sources import layouts, limits

LINE = b"gpu1:1:2 [0] NCCL INFO Using network IB\n"
DIGITS = "9" * 30
NAMES = (
    f"attempt_{DIGITS}/0/stderr.log",
    f"attempt_0/{DIGITS}/stderr.log",
    f"nccl.gpu001.{DIGITS}.log",
    f"worker-{'a' * 20}-{'b' * 8}-{DIGITS}.log",
    f"nemo_log_globalrank-{DIGITS}_localrank-{DIGITS}.txt",
    f"pods/ns_pod_aaaaaaaa/c/{DIGITS}.log",
)
ENDLESS = (
    "x" + ".log" * 10_000,
    "x" + ".gz" * 10_000,
    "attempt_" + "9" * 5000 + "/0/stderr.log",
    "gpu-node-" * 10_000 + "1.log",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_number_without_end_in_a_path_is_none(name):
    numbers = [v for v in layouts.read(name, "log").values() if isinstance(v, int)]
    assert all(number < 10**limits.MAX_DIGITS for number in numbers)


def test_numbers_that_no_column_holds_are_read_past(tmp_path):
    for name in NAMES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(LINE)
    assert analysis.analyze([str(tmp_path)]).frames["sources"].height == len(NAMES)


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_member_whose_path_nobody_can_open_is_refused_and_said(tmp_path, form):
    file = tmp_path / f"evidence.{form}"
    if form == "tar":
        with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as packed:
            for name in (*ENDLESS, "rank_0.log"):
                member = tarfile.TarInfo(name)
                member.size = len(LINE)
                packed.addfile(member, io.BytesIO(LINE))
    else:
        with zipfile.ZipFile(file, "w") as packed:
            for name in (*(n[:60_000] for n in ENDLESS), "rank_0.log"):
                packed.writestr(name, LINE)
    report = analysis.analyze([str(file)]).report
    assert [s.source for s in report.sources] == [f"evidence.{form}!rank_0.log"]
    told = [note.text for note in report.notes if "refused: its path has" in note.text]
    assert len(told) == len(ENDLESS)
