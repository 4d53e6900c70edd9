"""The one rank that did not time out, and that srun had to end: whom it names."""

TIMED_OUT = (
    "{rank}: [rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/"
    "unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n"
)
ENDS = (
    "srun: error: gpu0001: tasks 0-3: Exited with exit code 1\n"
    "srun: Terminating StepId=50917.0\n"
    "slurmstepd: error: *** STEP 50917.0 ON gpu0001 CANCELLED AT 2026-11-20T12:40:00 "
    "***\n"
    "srun: error: gpu0002: tasks 4-5,7: Exited with exit code 1\n"
)
KILLED = "srun: error: gpu0002: task 6: Killed\n"


def log(silent="6: [rank6]: step 100 loss 2.5\n", ends=ENDS + KILLED, skipped=()):
    ready = "".join(f"{rank}: [rank{rank}]: step 99 loss 2.6\n" for rank in range(8))
    others = (r for r in range(8) if r != 6 and r not in skipped)
    return ready + silent + "".join(TIMED_OUT.format(rank=r) for r in others) + ends


def told(analysis):
    return [
        (f.slug, f.ranks)
        for _, f in analysis.ranked.findings
        if f.ranks and f.confidence != "possible"
    ]


def test_it_was_alive_and_silent_and_all_others_waited(analyzed):
    analysis = analyzed({"slurm-50917.out": log()})
    verdict = analysis.ranked.verdict
    assert told(analysis) == [("missing-rank", (6,))]
    assert verdict.confidence == "likely"
    assert verdict.evidence


def test_of_a_rank_that_was_not_ended_by_srun_nothing_is_known(analyzed):
    assert not told(analyzed({"slurm-50917.out": log(ends=ENDS)}))


def test_a_rank_of_which_no_line_was_kept_is_not_silent(analyzed):
    lines = [s for s in log(silent="").splitlines(True) if not s.startswith("6: ")]
    # all write to one stream, and nothing of it stands there
    found = told(analyzed({"slurm-50917.out": "".join(lines)}))
    assert found == [("missing-rank", (6,))]


def test_where_another_task_failed_without_a_word_that_one_may_be_the_cause(analyzed):
    assert not told(analyzed({"slurm-50917.out": log(skipped=(3,))}))


def test_ranks_that_waited_in_two_places_did_not_wait_for_one(analyzed):
    def waited(rank, line):
        return (
            f"{rank}: [rank{rank}]: Traceback (most recent call last):\n"
            f'{rank}: [rank{rank}]:   File "/job/train.py", line {line}, in step\n'
            + TIMED_OUT.format(rank=rank)
        )

    silent = "6: [rank6]: step 100 loss 2.5\n"
    ready = "".join(f"{r}: [rank{r}]: step 99 loss 2.6\n" for r in range(8))
    others = [r for r in range(8) if r != 6]
    one = ready + silent + "".join(waited(r, 8) for r in others) + ENDS + KILLED
    assert told(analyzed({"slurm-50917.out": one})) == [("missing-rank", (6,))]
    two = ready + silent + "".join(waited(r, 8 + r // 4) for r in others)
    found = analyzed({"slurm-50917.out": two + ENDS + KILLED}).ranked
    assert found.verdict.confidence != "certain"


AGENT = "W1121 09:00:09.500000 900 torch/distributed/elastic/multiprocessing/api.py:"
SIGNAL = AGENT + "1028] Sending process 712 closing signal SIGTERM\n"
FORCE = (
    AGENT + "1047] Unable to shutdown process 712 via 15, forcefully exiting via 9\n"
)
ENTRY = (
    "[{}]:\n  time      : 2026-11-21_09:00:09\n  host      : gpu0001\n"
    "  rank      : {} (local_rank: {})\n  exitcode  : {} (pid: {})\n"
    "  error_file: <N/A>\n  traceback : none\n"
)


def torchrun(told):
    """Print what torchrun does where three of four time out and rank 2 is killed."""
    cries = "".join(TIMED_OUT.format(rank=r)[3:] for r in (0, 1, 3))
    ends = [(1, 1, 1, 711), (2, 3, 1, 713), (3, 2, -9, 712)]
    others = "".join(ENTRY.format(n, r, r, code, pid) for n, r, code, pid in ends)
    return (
        f"{cries}{told}{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n{others}"
        f"{'-' * 60}\nRoot Cause (first observed failure):\n"
        f"{ENTRY.format(0, 0, 0, 1, 710)}{'=' * 60}\n"
    )


def test_who_had_to_be_ended_by_force_was_alive(analyzed):
    assert told(analyzed({"train.log": torchrun(SIGNAL + FORCE)})) == [
        ("missing-rank", (2,))
    ]
    # whom no agent told to end somebody else killed
    (first, *_) = told(analyzed({"train.log": torchrun("")}))
    assert first == ("crashed-rank", (2,))


STORE = "torch.distributed.DistStoreError: wait timeout after 8000ms, keys: {}\n"


def test_the_store_names_whose_address_never_came(analyzed):
    key = "/default_pg/0//cpu//0/2"
    assert told(analyzed({"train.log": STORE.format(key) * 3})) == [
        ("missing-rank", (2,))
    ]
    # of another group the number is none of the job
    for other in ("/mesh_tp/0//cpu//0/2", "/default_pg/0//nokey"):
        assert not told(analyzed({"train.log": STORE.format(other)}))
    own = "[rank2]: " + STORE.format(key)
    assert not told(analyzed({"train.log": own}))


def of_one_group(ends):
    """Ranks 4 to 7 of 8 are a group, and all but rank 6 time out in it."""
    text = "".join(f"{rank}: [rank{rank}]: step 99 loss 2.6\n" for rank in (0, 7))
    for rank in (4, 5, 7):
        text += (
            f"{rank}: [rank{rank}]:[E1120 12:39:58.100000000 ProcessGroupNCCL.cpp:632] "
            f"[Rank {rank - 4}] Watchdog caught collective operation timeout: WorkNCCL("
            "SeqNum=40, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) "
            "ran for 1800039 milliseconds before timing out.\n"
            f"{rank}: [rank{rank}]:[E1120 12:39:58.200000000 ProcessGroupNCCL.cpp:2268] "
            f"[PG ID 2 PG GUID 9(MODEL_PARALLEL_GROUP) Rank {rank - 4}] failure "
            "detected by watchdog at work sequence id: 40 PG status: last enqueued "
            "work: 40, last completed work: 39\n"
        )
    return {"slurm-50917.out": text + ends}


ABORTED = (
    "srun: error: gpu0002: tasks 4-5,7: Aborted (core dumped)\n"
    "srun: Terminating StepId=50917.0\n"
)


def test_a_member_that_srun_had_to_terminate_was_alive_and_did_not_come(analyzed):
    ended = ABORTED + (
        "srun: error: gpu0001: tasks 0-3: Terminated\n"
        "srun: error: gpu0002: task 6: Terminated\n"
    )
    found = analyzed(of_one_group(ended)).ranked.verdict
    assert (found.slug, found.ranks) == ("missing-rank", (6,))
    assert found.confidence == "possible"


def test_a_member_of_which_srun_tells_nothing_may_be_dead(analyzed):
    found = analyzed(of_one_group(ABORTED)).ranked
    assert ("missing-rank", (6,)) not in [(f.slug, f.ranks) for _, f in found.findings]
    assert [suspect.rank for suspect in found.suspects] == [6]
