"""Ranks that made fewer calls than their peers are suspects where only counts tell."""

COUNTS = "Rank {rank} - Last enqueued NCCL work: {made}, last completed: {done}\n"


def test_the_rank_of_the_fewest_calls_is_the_suspect(analyzed):
    made = {0: 2, 1: 2, 2: 2, 3: 1}
    text = "".join(
        COUNTS.format(rank=rank, made=n, done=n - 2) for rank, n in made.items()
    )
    report = analyzed({"note.txt": text}).report
    assert (report.outcome, report.verdict) == ("inconclusive", None)
    [suspect] = report.suspects
    assert suspect.rank == 3
    assert suspect.evidence[0].line == 4
    assert report.clue.text == (
        "rank 3: its last call is SeqNum=1, and 3 ranks came further, up to SeqNum=2"
    )


def test_two_ranks_of_one_retold_line_are_compared(analyzed):
    text = "Rank 7: SequenceNumber=18, Rank 0: SequenceNumber=30\n"
    report = analyzed({"note.txt": text}).report
    assert [suspect.rank for suspect in report.suspects] == [7]
    assert report.outcome == "inconclusive"


def test_ranks_of_equal_counts_are_no_suspects(analyzed):
    text = "".join(COUNTS.format(rank=rank, made=2, done=1) for rank in range(4))
    assert analyzed({"note.txt": text}).report.suspects == ()


def test_where_most_made_the_fewest_calls_nobody_is_the_suspect(analyzed):
    made = {0: 9, 1: 2, 2: 2, 3: 2}
    text = "".join(
        COUNTS.format(rank=rank, made=n, done=n - 1) for rank, n in made.items()
    )
    assert analyzed({"note.txt": text}).report.suspects == ()


WAITED = (
    "RuntimeError: [{}] is setting up NCCL communicator and retrieving ncclUniqueId from "
    "[0] via c10d key-value store by key '0', but store->get('0') got error: {}\n"
)
REACHED = (
    "RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors "
    "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
)
OTHER = "wait timeout after 600000ms, keys: /default_pg/7//cuda//0"


def test_the_first_rank_of_what_may_be_all_ranks_is_the_suspect(analyzed):
    for text in (WAITED.format(3, "Socket Timeout"), REACHED):
        report = analyzed({"note.txt": text}).report
        assert (report.outcome, report.verdict) == ("inconclusive", None)
        assert [suspect.rank for suspect in report.suspects] == [0]


def test_that_of_another_group_is_not_known(analyzed):
    logs = (
        WAITED.format(3, OTHER),
        "[rank7]: " + WAITED.format(3, "Socket Timeout"),
        WAITED.format(3, "Connection reset by peer"),
        WAITED.format(0, "Socket Timeout"),
    )
    for text in logs:
        assert analyzed({"note.txt": text}).report.suspects == ()
