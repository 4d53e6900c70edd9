"""Exported frames can be read back; metrics parse as OpenMetrics and as Prometheus."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace as replaced

import polars as pl
import pytest
from msgspec.structs import replace

from known_jobs import known
from ncclforensics.diagnosers import CLASSES
from ncclforensics.model.frames import Frames
from ncclforensics.report.bundle import paper
from ncclforensics.report.contract import Culprits
from ncclforensics.report.export import FORMS, files
from ncclforensics.report.formats.openmetrics import MOST, render_openmetrics


@pytest.fixture(scope="module")
def made():
    found = known("torch-missing-rank-two-hosts")
    return paper(found.report, found.frames, (), CLASSES)


def test_parquet_is_the_frame(made):
    written = {name: data for name, data, _ in files(made, "parquet")}
    for name, data in written.items():
        frame = pl.read_parquet(io.BytesIO(data))
        table = name.removesuffix(".parquet")
        if not table.startswith("message."):
            assert frame.equals(made.frames[table])
    assert {"calls.parquet", "events.parquet", "message.c10d.gloo.timeout.parquet"} <= (
        written.keys()
    )


def test_csv_holds_lists_as_json(made):
    written = {name: data for name, data, _ in files(made, "csv")}
    frame = pl.read_csv(io.BytesIO(written["calls.csv"]))
    assert json.loads(frame["waiting"][0]) == [0, 1, 2, 3, 4, 5, 7]
    shapes = pl.read_csv(io.BytesIO(written["collectives.csv"]))["in_sizes"]
    assert json.loads(shapes[1]) == [[1024]]


def test_csv_holds_nothing_that_steers_a_terminal(made):
    told = "a\x1b[31mred\x1b[0m\x9b2Jb\x1b]0;title\x07c\rd\u202ee"
    events = made.frames["events"].with_columns(text=pl.lit(told))
    frames = Frames({"events": events})
    written = {
        name: data for name, data, _ in files(replaced(made, frames=frames), "csv")
    }
    frame = pl.read_csv(io.BytesIO(written["events.csv"]))
    assert set(frame["text"]) == {"aredbc de"}
    for data in written.values():
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", data.decode())


@pytest.mark.parametrize("form", FORMS)
def test_the_same_evidence_gives_the_same_bytes(made, form):
    assert list(files(made, form)) == list(files(made, form))


def test_a_saved_report_exports_metrics_only(made):
    saved = paper(made.report, None, (), CLASSES)
    assert [name for name, _, _ in files(saved, "openmetrics")] == [
        "ncclforensics.prom"
    ]
    with pytest.raises(ValueError, match="a saved report has no frames"):
        list(files(saved, "parquet"))


LABEL = r"[a-z]+=\"(?:[^\"\\\n]|\\[\\n\"])*\",?"
SAMPLE = re.compile(rf"(ncclforensics_[a-z_]+)(?:\{{(?:{LABEL})+\}})? \d+")


def test_metrics_are_families_of_gauges_with_an_end(made):
    lines = render_openmetrics(made.report)[0].decode().splitlines()
    assert lines[-1] == "# EOF"
    family, seen = "", set()
    for line in lines[:-1]:
        if line.startswith("# TYPE "):
            family = line.split()[2]
            assert line == f"# TYPE {family} gauge"
            assert family not in seen
            seen.add(family)
        elif not line.startswith(f"# HELP {family} "):
            match = SAMPLE.fullmatch(line)
            assert match
            assert match[1] == family
    assert 'ncclforensics_outcome{outcome="failure"} 1' in lines
    assert 'ncclforensics_culprit_rank_info{rank="6"} 1' in lines


def test_a_label_is_escaped_and_culprits_are_bounded(made):
    ranks = tuple(range(MOST + 5))
    who = Culprits(ranks, "", ('a"\\b',), ())
    verdict = replace(made.report.verdict, culprits=who)
    data, cut = render_openmetrics(replace(made.report, verdict=verdict))
    assert b'ncclforensics_culprit_host_info{host="a\\"\\\\b"} 1' in data
    assert data.count(b"culprit_rank_info{") == MOST
    assert cut == ("5 culprits have no series of their own",)
