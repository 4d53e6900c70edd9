"""What an agent may ask: bounded answers, and nothing outside of what was named."""

from __future__ import annotations

import pytest

from ncclforensics.model.errors import UsageError
from ncclforensics.servers.tools import MOST, MOST_LINES, Tools


@pytest.fixture
def tools(jobs, tmp_path):
    def made(*names, **options):
        folder = tmp_path / "scratch"
        folder.mkdir(exist_ok=True)
        return Tools(
            [str(jobs / name / "evidence") for name in names], folder, **options
        )

    return made


def test_the_answer_is_text_and_a_report_without_its_files(tools):
    told = tools("torch-missing-rank").analyze()
    assert told["text"].startswith("missing-rank: rank 2")
    assert told["report"]["verdict"]["class"] == "missing-rank"
    assert "sources" not in told["report"]
    assert len(told["report"]["not_checked"]) <= MOST


def test_a_list_that_is_cut_is_named(tools, monkeypatch):
    asked = tools("torch-missing-rank")
    assert asked.analyze()["cut"] == []
    monkeypatch.setattr("ncclforensics.servers.tools.MOST", 1)
    told = asked.analyze()
    assert {"evidence", "not_checked"} <= set(told["cut"])
    assert len(told["report"]["not_checked"]) == 1


def test_a_cited_line_can_be_read_and_so_can_an_entry(tools):
    asked = tools("torch-missing-rank")
    verdict = asked.analyze()["report"]["verdict"]
    cite = verdict["evidence"][0]
    dump = asked.lines(cite["source"], cite["line"], cite["line"])
    assert "seq=5" in dump["lines"][str(cite["line"])]
    files = asked.evidence(contains="stderr")["files"]
    assert files
    text = asked.lines(files[0]["source"], contains="Traceback")["lines"]
    assert text
    assert all("Traceback" in line for line in text.values())


def test_long_answers_say_where_to_go_on(tools, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank_0.log").write_text(
        "x" * 300_000 + "\n" + "".join(f"step {n} loss 0.5\n" for n in range(1000))
    )
    asked = tools()
    asked.named = [str(tmp_path / "logs")]
    told = asked.lines("rank_0.log", 1, 5000)
    assert len(told["lines"]) == MOST_LINES
    assert max(map(len, told["lines"].values())) <= 400
    assert told["lines"]["2"] == "step 0 loss 0.5"
    on = asked.lines("rank_0.log", told["next"], 5000)
    assert next(iter(on["lines"])) == str(MOST_LINES + 1)


def test_nothing_outside_is_read(tools, jobs, tmp_path):
    asked = tools("torch-missing-rank")
    inside = f"{asked.named[0]}/fr"
    assert asked.analyze(inside)["report"]["verdict"]["class"] == "missing-rank"
    link = tmp_path / "link"
    link.symlink_to("/etc")
    outside = [
        *(f"{inside}/../../..", f"{inside}/*/../../../..", f"{asked.named[0]}2"),
        *(str(jobs / "torch-healthy"), "/etc", str(link), ".", "..", "-", "\0"),
    ]
    for path in outside:
        with pytest.raises(UsageError, match="not in what was named"):
            asked.analyze(path)
    with pytest.raises(UsageError, match="no file"):
        asked.lines("../../../../pyproject.toml")
    with pytest.raises(UsageError, match="no file"):
        asked.lines("/etc/passwd")


def test_names_are_hidden_everywhere_and_still_found(tools):
    asked = tools("torch-missing-rank-two-hosts", redact=frozenset({"hosts"}))
    told = asked.analyze()
    assert "gpu000" not in str(told)
    files = asked.evidence()["files"]
    assert "gpu000" not in str(files)
    logs = [file["source"] for file in files if file["kind"] == "log"]
    assert "gpu000" not in str([asked.lines(name) for name in logs])


def test_evidence_that_grows_is_read_again_only_if_asked(tools, tmp_path):
    log = tmp_path / "rank_0.log"
    log.write_text("step 1 loss 0.5\n")
    asked = tools()
    asked.named = [str(log)]
    assert asked.evidence()["files"][0]["lines"] == 1
    log.write_text("step 1 loss 0.5\nstep 2 loss 0.5\n")
    assert asked.evidence()["files"][0]["lines"] == 1
    asked.analyze(again=True)
    assert asked.evidence()["files"][0]["lines"] == 2


def test_classes_are_explained(tools):
    assert "What to do" in tools().explain("missing-rank")
    assert "straggler" in tools().explain()
    with pytest.raises(UsageError, match="did you mean missing-rank"):
        tools().explain("missing-rnk")
