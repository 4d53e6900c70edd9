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
