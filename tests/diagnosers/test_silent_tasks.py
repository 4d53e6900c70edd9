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
    return [(f.slug, f.ranks) for _, f in analysis.ranked.findings if f.ranks]


def test_it_was_alive_and_silent_and_all_others_waited(analyzed):
    analysis = analyzed({"slurm-50917.out": log()})
    verdict = analysis.ranked.verdict
    assert told(analysis) == [("missing-rank", (6,))]
    assert verdict.confidence == "likely"
    assert verdict.evidence[0].line == log().count("\n")


def test_of_a_rank_that_was_not_ended_by_srun_nothing_is_known(analyzed):
    assert not told(analyzed({"slurm-50917.out": log(ends=ENDS)}))


def test_a_rank_of_which_no_line_was_kept_is_not_silent(analyzed):
    lines = [s for s in log(silent="").splitlines(True) if not s.startswith("6: ")]
    assert not told(analyzed({"slurm-50917.out": "".join(lines)}))


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
    assert not told(analyzed({"slurm-50917.out": two + ENDS + KILLED}))
