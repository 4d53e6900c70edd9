"""The last line is the true one of the culprit's own log, before anybody noticed."""

import pytest

from cites import cites, unresolved
from log_lines import traceback
from ncclforensics.analysis import analyze
from ncclforensics.report.formats.text import render_text
from ncclforensics.report.redact import KINDS, Redactor

STEPS = "".join(f"2026-11-20 11:31:4{n},800 step {n} loss 0.5\n" for n in range(3))
SAVING = "2026-11-20 11:31:43,100 saving checkpoint to /home/alice/ckpt\n"


def waited(rank):
    """Return the end of the log of a rank that waited for a peer."""
    return traceback(
        rank,
        "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] "
        "Timed out waiting 10000ms for recv operation to complete",
    )


@pytest.fixture
def told(tmp_path):
    """Return the report of four ranks, of which rank 2 wrote `text` and no more."""

    def report(text):
        for rank in (0, 1, 3):
            own = f"{STEPS}{SAVING.replace('saving', 'joined')}{waited(rank)}"
            (tmp_path / f"rank_{rank}.log").write_text(own, "utf-8")
        head = STEPS.encode() if isinstance(text, bytes) else STEPS
        data = head + text if isinstance(text, bytes) else (head + text).encode()
        (tmp_path / "rank_2.log").write_bytes(data)
        found = analyze([str(tmp_path)]).report
        assert found.verdict.culprits.ranks == (2,)
        assert unresolved(cites(found), tmp_path) == []
        return found

    return report


def test_it_is_a_line_that_no_grammar_knows(told):
    found = told(SAVING)
    assert found.last_line.place == "rank_2.log:4"
    assert found.last_line.text == "saving checkpoint to /home/alice/ckpt"
    assert found.verdict.remedy[0] == "less +4 rank_2.log"
    assert "saving checkpoint" in render_text(found)


def test_blank_lines_at_the_end_are_none(told):
    assert told(f"{SAVING}\n  \n\n" + "\n" * 600).last_line.line == 4


def test_what_follows_trouble_is_not_the_last_line():
    found = analyze(["tests/fixtures/jobs/torch-apart-rank-conditional/evidence"])
    assert found.report.last_line.place == "logs/rank_0.log:7"
    assert found.report.last_line.text == "gathering the scores of the validation set"


def test_a_line_without_an_end_is_shown_as_it_is(told):
    assert told("writing shard 3 of 1").last_line.text == "writing shard 3 of 1"


def test_a_line_far_behind_the_last_known_one_is_found(told):
    assert told("busy\n" * 400_000).last_line.line == 400_003


def test_hostile_bytes_are_escaped_and_cut(told):
    found = told(b"\x1b]52;c;YQ==\x07\xff\xfe ok \xe2\x80\xae" + b"x" * 5000 + b"\n")
    text = found.last_line.text
    assert len(text) <= 400
    assert not set(text) & {"\x1b", "\x07", "\u202e"}


def test_redaction_reaches_it(told):
    found = told(SAVING)
    redactor = Redactor(KINDS)
    redactor.learn(found)
    assert "alice" not in redactor.struct(found).last_line.text


def test_of_a_file_that_several_ranks_write_the_known_line_stays(tmp_path):
    lines = "".join(
        f"{rank}: 2026-11-20 11:31:4{n},800 step {n} loss 0.5\n"
        for n in range(3)
        for rank in range(4)
    )
    ends = "".join(
        f"{r}: {line}\n" for r in (0, 1, 3) for line in waited(r).splitlines()
    )
    (tmp_path / "job.out").write_text(f"{lines}{ends}slurmstepd: bye\n", "utf-8")
    found = analyze([str(tmp_path)]).report
    last = found.last_line
    assert last is None or last.text.startswith("step")


def test_a_file_that_went_away_leaves_the_known_line(tmp_path, told):
    from ncclforensics import analysis
    from ncclforensics.parsers import parse_all
    from ncclforensics.sources import discover

    told(SAVING.replace("saving checkpoint", "writing shards"))
    sources = discover([str(tmp_path)], tmp_path / "scratch").sources
    frames = parse_all(sources)
    found = analysis.explain(frames, sources=sources)[2]
    assert found.last_line.text.startswith("writing shards")
    (tmp_path / "rank_2.log").unlink()
    found = analysis.explain(frames, sources=sources)[2]
    assert found.last_line.text == "step 2 loss 0.5"
