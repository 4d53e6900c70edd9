"""Where a log ends as ranks announce themselves: some did not come, or all came twice."""

import pytest

from log_lines import verdict

FORMS = ("initializing ddp: ", "Initializing distributed: ")
REGISTERED = "All distributed processes registered. Starting with 8 processes\n"


def announced(*ranks, size=8, form=FORMS[1]):
    line = "{}GLOBAL_RANK: {}, MEMBER: {}/{}\n"
    return "".join(line.format(form, rank, rank + 1, size) for rank in ranks)


@pytest.mark.parametrize("form", FORMS)
def test_a_log_that_ends_before_all_came_is_a_possible_failure(analyzed, form):
    analysis = analyzed({"job.out": announced(2, 0, 1, form=form)})
    top = analysis.ranked.verdict
    assert (top.slug, top.ranks) == ("rendezvous-failed", ())
    assert top.confidence == "possible"
    assert "ranks 0-2 of a world of 8" in analysis.ranked.verdict.headline


@pytest.mark.parametrize(
    "text",
    [
        announced(*range(8)),
        announced(2, 0, 1) + REGISTERED,
        announced(2, 0, 1) + "  | Name  | Type  | Params\n",
        "step 12 loss 3.2\n" + announced(2, 0, 1),
    ],
    ids=["all came", "all met", "went on", "began again"],
)
def test_a_log_that_goes_on_is_none(analyzed, text):
    assert verdict(analyzed({"job.out": text})) == "no-failure"


def test_logs_of_several_nodes_are_not_put_together(analyzed):
    files = {"node0.out": announced(0, 1), "node1.out": announced(2, 3)}
    assert verdict(analyzed(files)) == "no-failure"


@pytest.mark.parametrize("behind", ["", "```\n"], ids=["to the end", "a paste"])
def test_two_processes_for_each_rank_are_two_nodes_that_believe_to_be_the_first(
    analyzed, behind
):
    analysis = analyzed({"job.out": announced(1, 1, 2, 2, 0, 3, 3, 0) + behind})
    assert verdict(analysis) == ("split-rendezvous", (), ())
    assert analysis.ranked.verdict.confidence == "likely"


@pytest.mark.parametrize(
    "ranks", [(1, 0, 2, 3, 1, 0, 2, 3), (1, 1, 0, 2, 3)], ids=["a restart", "in part"]
)
def test_a_restart_announces_all_ranks_one_after_the_other(analyzed, ranks):
    top = analyzed({"job.out": announced(*ranks)}).ranked.verdict
    assert (top.slug, top.confidence) == ("rendezvous-failed", "possible")
