"""The JSON is the contract: keys in order, the same bytes, readable back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ncclforensics.model.errors import UsageError
from ncclforensics.report.formats import as_json
from ncclforensics.report.formats.as_json import (
    decode,
    load,
    render_json,
    render_jsonl,
    schema,
)

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report

SCHEMA = Path(__file__).parents[3] / "schemas" / "report-v1.json"


def test_keys_stand_in_the_order_of_the_contract(report: Report) -> None:
    document = json.loads(render_json(report))
    assert list(document) == [
        "schema_version",
        "tool",
        "outcome",
        "verdict",
        "suspects",
        "findings",
        "ruled_out",
        "not_checked",
        "job",
        "sources",
        "notes",
        "chain",
        "onset",
        "others",
        "clue",
        "last_line",
        "earlier",
        "fastest_gain",
    ]
    assert list(document["verdict"]) == [
        "class",
        "family",
        "confidence",
        "headline",
        "culprits",
        "collective",
        "first_seen",
        "evidence",
        "explanation",
        "remedy",
        "references",
        "domain",
        "restart",
    ]
    assert list(document["findings"][0]) == [
        *document["verdict"],
        "role",
        "explained_by",
    ]


def test_values_are_what_was_found(report: Report) -> None:
    document = json.loads(render_json(report))
    assert document["verdict"]["class"] == "missing-rank"
    assert document["verdict"]["culprits"] == {
        "ranks": [617],
        "ranks_folded": "617",
        "hosts": ["gpu0078"],
        "devices": ["1"],
    }
    assert document["verdict"]["collective"]["seq"] == 84925
    assert document["verdict"]["first_seen"] == "2026-01-02T03:04:05.678901234Z"
    assert [f["role"] for f in document["findings"]] == ["root", "echo"]
    assert document["findings"][1]["culprits"]["ranks_folded"] == "0-616,618-1023"
    assert document["job"]["ranks_seen"] == 1023


def test_json_reads_back_to_the_same_report(report: Report) -> None:
    text = render_json(report)
    assert text.endswith("}\n")
    assert decode(text.encode()) == report


def test_an_unknown_key_is_refused(report: Report) -> None:
    document = json.loads(render_json(report))
    document["verdict"]["severity"] = 5
    with pytest.raises(msgspec.ValidationError, match="severity"):
        decode(json.dumps(document).encode())


def test_the_committed_schema_is_the_generated_one() -> None:
    # to renew it: ncclforensics schema > schemas/report-v1.json
    assert SCHEMA.read_text("utf-8") == schema()


def test_jsonl_has_a_line_per_finding_and_never_none(report: Report) -> None:
    lines = [json.loads(text) for text in render_jsonl(report).splitlines()]
    assert [text["finding"]["class"] for text in lines] == [
        "missing-rank",
        "timeout-masking",
    ]
    healthy = msgspec.structs.replace(
        report, outcome="no-failure", verdict=None, findings=()
    )
    (only,) = render_jsonl(healthy).splitlines()
    assert json.loads(only)["outcome"] == "no-failure"
    assert json.loads(only)["finding"] is None


def test_a_saved_report_is_loaded_and_other_files_are_not(
    report: Report, tmp_path: Path
) -> None:
    saved = tmp_path / "report.json"
    saved.write_text(render_json(report))
    assert load(saved) == report
    other = tmp_path / "error.json"
    other.write_text('{"message": {"schema_version": 1}}')
    assert load(other) is None
    assert load(tmp_path) is None
    saved.write_text('{"schema_version": 2}')
    with pytest.raises(UsageError, match=r"report\.json is no report of this version"):
        load(saved)


@pytest.mark.parametrize("damaged", [b'"\xe5"', b"[" * 100_000, b"9" * 5000, b"NaN"])
def test_a_saved_report_with_any_bytes_is_no_report(
    tmp_path: Path, damaged: bytes
) -> None:
    saved = tmp_path / "report.json"
    saved.write_bytes(b'{"schema_version": 1, "tool": {"name": ' + damaged)
    with pytest.raises(UsageError, match=r"report\.json is no report"):
        load(saved)


def test_a_strangers_report_brings_no_escapes(report: Report, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    told = json.loads(render_json(report))
    told["verdict"]["headline"] += "\x1b]52;c;aGk=\x07\x9b2J\u202e\n# here"
    told["verdict"]["explanation"] = "one\n\x1b[2Jtwo"
    saved.write_text(json.dumps(told))
    verdict = load(saved).verdict
    assert verdict.headline == report.verdict.headline + " # here"
    assert verdict.explanation == "one\ntwo"


def test_a_report_that_is_too_large_is_not_read(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "report.json"
    saved.write_text(render_json(report))
    monkeypatch.setattr(as_json, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="more than 0 MiB"):
        load(saved)


def test_what_cannot_be_opened_is_left_to_the_search_for_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    saved = tmp_path / "report.json"
    saved.write_text('{"schema_version": 1}')
    monkeypatch.setattr(Path, "open", refused)
    assert load(saved) is None
