"""What a sentence quotes is no record of the job: possible at most, and may be over."""

import pytest

from log_lines import traceback, verdict

GOT = (
    "NET/IB : Got completion from peer 10.20.0.12<54862> with status=12 opcode=0 "
    "len=0 vendor err 129 (Recv)"
)
RECORD = f"gpu0001:4121:4302 [4] transport/net_ib.cc:2123 NCCL WARN {GOT}"
BUS = "RuntimeError: DataLoader worker (pid 1219) is killed by signal: Bus error."
QUOTED = {
    "in backticks": f"After some steps we get `{GOT}` and then all ranks hang.",
    "with its header": f"After some steps it prints `{RECORD}` and hangs.",
    "in a list": f"- nodes 1 and 2 print `{RECORD}`, the others nothing",
    "without marks": f"In March there was the line {GOT} for a while.",
    "by a person": f"Every night I see {RECORD} there.",
}
RECORDS = {
    "alone": RECORD,
    "in backticks": f"`{RECORD}`",
    "below a heading": f"What it prints:\n{RECORD}",
    "behind another writer's words": f"the loader is ready {RECORD}",
    "in a list": f"- {RECORD}",
}


def told(analyzed, text):
    analysis = analyzed({"ticket.txt": f"{text}\n"})
    found = analysis.ranked.verdict
    return analysis.report.outcome, found and (found.slug, found.confidence)


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
def test_what_a_sentence_quotes_is_possible_and_says_so(analyzed, text):
    analysis = analyzed({"ticket.txt": f"{text}\n"})
    found = analysis.ranked.verdict
    assert (found.slug, found.confidence) == ("ib-error", "possible")
    assert found.hosts == ("10.20.0.12",)
    assert found.explanation.startswith("It is quoted inside a sentence")


@pytest.mark.parametrize("text", RECORDS.values(), ids=RECORDS)
def test_a_record_is_a_record_however_it_was_pasted(analyzed, text):
    assert told(analyzed, text) == ("failure", ("ib-error", "likely"))


@pytest.mark.parametrize(
    "text",
    [
        f"last week we saw `{GOT}` on this cluster, today's run finished.",
        f"Today's run finished: the messages {RECORD} are gone.",
        f"Last week the old job said:\n{RECORD}\nIt is mended. The job went through.",
    ],
)
def test_beside_the_word_that_a_run_ended_well_nobody_is_accused(analyzed, text):
    analysis = analyzed({"ticket.txt": f"{text}\n"})
    found = analysis.ranked.verdict
    assert (analysis.report.outcome, found.confidence) == ("inconclusive", "possible")
    assert (found.ranks, found.hosts) == ((), ())
    assert "10.20.0.12" not in " ".join((found.headline, *map(str, found.remedy)))


@pytest.mark.parametrize(
    "said",
    [
        "training finished",
        "before the run finished, rank 3 was gone",
        "the job finished with exit code 1",
        "the job has not finished",
    ],
)
def test_other_words_on_an_end_take_nothing_back(analyzed, said):
    assert told(analyzed, f"{RECORD}\n{said}") == ("failure", ("ib-error", "likely"))


def test_what_fails_below_the_word_that_a_run_ended_well_is_another_thing(analyzed):
    text = "Yesterday: the job finished.\n" + traceback(1, "ValueError: no data")
    assert told(analyzed, text)[0] == "failure"


def test_a_record_of_the_job_goes_before_what_a_sentence_quotes(analyzed):
    text = f"In March we had `{GOT}`.\n" + traceback(1, "ValueError: no data")
    analysis = analyzed({"ticket.txt": text})
    assert verdict(analysis)[:2] == ("crashed-rank", (1,))
    assert "nccl.ib.completion_error" not in analysis.frames.messages


def test_no_host_of_the_job_is_lent_to_a_quotation(analyzed):
    own = "gpu0001:4121:4302 [4] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:x<0>"
    text = f'In run 41 we got "{BUS}"; it is mended\n{own}\nstep 1 loss 0.5'
    analysis = analyzed({"slurm.out": f"{text}\n"})
    assert analysis.report.outcome == "inconclusive"
    assert analysis.ranked.verdict.hosts == ()


def test_a_program_that_quotes_another_writes_a_record(analyzed):
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation failed. Last "
        "NCCL warning(error) log entry (may be unrelated) 'Bootstrap : no socket "
        "interface found'."
    )
    assert told(analyzed, text) == ("failure", ("wrong-nic", "certain"))


def test_a_log_that_is_no_retelling_forbids_no_failure_only(analyzed):
    text = f"Before this run we got `{GOT}`.\n" + "a line of a program at work\n" * 4000
    analysis = analyzed({"job.log": text})
    assert analysis.report.outcome == "inconclusive"
    assert analysis.ranked.verdict is None


@pytest.mark.parametrize(
    ("head", "found"),
    [("gpu0001:11:11 [0] ras/ras.cc:241 NCCL WARN RAS: ", False), ("gpu0001: ", True)],
)
def test_what_a_program_prints_under_its_header_is_not_retold(analyzed, head, found):
    """NCCL does without the port of its RAS, and says so in these words."""
    line = f"{head}bind failed: Address already in use\n"
    slugs = {f.slug for _, f in analyzed({"a.log": line}).ranked.findings}
    assert ("port-in-use" in slugs) is found
