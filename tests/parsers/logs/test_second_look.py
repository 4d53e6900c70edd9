"""Small logs without a cause are read again: lines joined, and retold ones."""

import pytest

from log_lines import verdict

BROKEN = {
    "preempted": (
        "slurmstepd: error: *** JOB 50917 ON\n"
        "   gpu0002 CANCELLED AT 2026-08-20T10:00:00 DUE TO PREEMPTION ***\n"
    ),
    "missing-env": (
        "ValueError: Error initializing torch.distributed using env:// rendezvous:\n"
        "environment variable MASTER_PORT expected, but not set\n"
    ),
}
RETOLD = {
    "shape-mismatch": (
        "RuntimeError: Detected mismatch between collectives on ranks.\n"
        "Rank 2: _REDUCE_SCATTER_BASE, TensorShape=[4096]\n"
        "Rank 1: _REDUCE_SCATTER_BASE, TensorShape=[512]\n"
    ),
    "collective-mismatch": (
        "Rank 2: ALLREDUCE, TensorShape=[8]\nRank 1: BROADCAST, TensorShape=[8]\n"
    ),
}


@pytest.mark.parametrize(("slug", "text"), BROKEN.items(), ids=BROKEN)
def test_a_line_that_was_broken_by_hand_is_read(analyzed, slug, text):
    analysis = analyzed({"note.txt": text})
    assert verdict(analysis)[0] == slug
    assert analysis.ranked.verdict.evidence[0].line == 1


@pytest.mark.parametrize(("slug", "text"), RETOLD.items(), ids=RETOLD)
def test_what_was_retold_is_possible_at_most_and_says_so(analyzed, slug, text):
    told = analyzed({"note.txt": text}).ranked.verdict
    assert (told.slug, told.confidence) == (slug, "possible")
    assert "condensed by hand" in told.explanation


@pytest.mark.parametrize(
    "line",
    [
        "Rank 7: SequenceNumber=18, Rank 0: SequenceNumber=30",
        "[Rank 9]  last enqueued: 10, last completed: 10",
        "1/16 clients joined.",
    ],
)
def test_numbers_alone_accuse_nobody_and_forbid_no_failure(analyzed, line):
    report = analyzed({"note.txt": f"we saw this:\n{line}\n"}).report
    assert report.outcome == "inconclusive"


def test_a_file_in_which_it_finds_something_counts_as_recognised(analyzed):
    sources = analyzed({"note.txt": RETOLD["shape-mismatch"]}).report.sources
    (note,) = (source for source in sources if source.source == "note.txt")
    assert note.kind == "log"
    assert note.rows


def test_where_a_strict_message_tells_a_cause_nothing_is_read_twice(analyzed):
    oom = (
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    analysis = analyzed({"note.txt": oom + RETOLD["shape-mismatch"]})
    assert verdict(analysis)[0] == "gpu-oom"
    assert "condensed.fingerprint" not in analysis.frames.messages


def test_a_large_log_is_not_read_again(analyzed):
    text = "a line of a program at work\n" * 4000 + RETOLD["shape-mismatch"]
    assert "condensed.fingerprint" not in analyzed({"job.log": text}).frames.messages
