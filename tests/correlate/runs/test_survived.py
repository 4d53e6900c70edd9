"""Which printed exceptions ended a process, and which its program caught."""

import pytest

from log_lines import found, table, timeout, verdict

CAUGHT = "2026-08-20 09:58:00,100 [rank 3] ERROR data: sample 88123 is skipped\n"
RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/job/data.py", line 67, in pull\n    image = decode(buffer)\n'
    "ValueError: cannot identify image\n"
)
FAILED = table((3, -6, 4003), (0, -6, 4000))


def steps(rank, *seconds):
    return "".join(
        f"2026-08-20 09:58:{n:02d},500 [rank {rank}] INFO train: step {n} loss 1.5\n"
        for n in seconds
    )


def crashed(analysis):
    return [f.ranks for _, f in found(analysis, "crashed-rank")]


def logs(out="", err="", launcher=FAILED, others=""):
    """A job of four ranks: rank 3's streams, rank 0 that times out, the launcher."""
    rank_0 = steps(0, 1, 2, 3) + others
    return {
        "rank_3.out.log": out,
        "rank_3.err.log": CAUGHT + RAISED + err,
        "rank_0.log": rank_0,
        "torchrun.log": launcher,
    }


def test_steps_of_the_rank_by_the_clock_prove_that_it_went_on(analyzed):
    assert crashed(analyzed(logs(out=steps(3, 1, 2, 3)))) == []


def test_steps_before_the_exception_prove_nothing(analyzed):
    earlier = steps(3, 1, 2, 3).replace("09:58", "09:57")
    assert (3,) in crashed(analyzed(logs(out=earlier)))


def test_last_words_after_an_exception_prove_nothing_where_the_job_fails(analyzed):
    words = "2026-08-20 09:58:01,000 [rank 3] INFO train: closes its files\n"
    assert (3,) in crashed(analyzed(logs(out=words)))


def test_a_rank_that_exits_with_an_error_code_did_not_survive(analyzed):
    ended = table((3, 1, 4003), (0, -6, 4000))
    analysis = analyzed(logs(out=steps(3, 1, 2, 3), launcher=ended))
    assert (3,) in crashed(analysis)


def test_a_call_that_the_rank_began_later_proves_that_it_went_on(analyzed):
    # it is reported at 10:10:00 after 600 s
    assert crashed(analyzed(logs(err=timeout(3), others=timeout(0)))) == []


def test_what_torchs_hook_prints_was_not_caught_whatever_follows(analyzed):
    hooked = "".join(f"[rank3]: {line}\n" for line in RAISED.splitlines())
    files = logs(out=steps(3, 1, 2, 3))
    analysis = analyzed({**files, "rank_3.err.log": CAUGHT + hooked})
    assert (3,) in crashed(analysis)


@pytest.mark.parametrize("launcher", ["", FAILED])
def test_steps_of_others_prove_nothing_if_none_is_before(analyzed, launcher):
    assert (3,) in crashed(analyzed(logs(launcher=launcher)))


EARLIER = steps(0, *range(5)).replace("09:58", "09:57")
AGAIN = steps(0, 1, 2, 3, 4).replace("step 1 ", "step 0 ")  # its count went back


def test_new_steps_of_others_prove_that_the_job_went_on_if_nothing_else_fails(analyzed):
    files = logs(launcher="")
    files["rank_0.log"] = EARLIER + steps(0, 10, 11, 12, 13)
    analysis = analyzed(files)
    assert crashed(analysis) == []
    assert analysis.ranked.outcome == "no-failure"


@pytest.mark.parametrize(
    ("launcher", "more"), [("", steps(0, 10, 11)), ("", AGAIN), (FAILED, "")]
)
def test_steps_prove_nothing_if_too_few_or_again_or_if_the_job_failed(
    analyzed, launcher, more
):
    files = logs(launcher=launcher)
    files["rank_0.log"] = EARLIER + (more or steps(0, 10, 11, 12, 13))
    assert (3,) in crashed(analyzed(files))


def test_an_error_that_is_retried_is_survived_as_an_exception_is(analyzed):
    log = (
        "2026-08-20 09:58:00,100 [rank 3] WARNING train: out of memory, tries half\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 0 "
        "has a total capacity of 47.43 GiB of which 1.17 GiB is free.\n"
    )
    alone = analyzed({"rank_3.err.log": log})
    assert verdict(alone)[0] == "gpu-oom"
    went_on = analyzed({"rank_3.err.log": log, "rank_3.out.log": steps(3, 1, 2, 3)})
    assert verdict(went_on) == "no-failure"


def test_a_note_says_so(analyzed):
    notes = analyzed(logs(out=steps(3, 1, 2, 3))).frames["notes"]
    told = notes.filter(notes["text"].str.contains("rank 3 printed an exception"))
    assert told["source"].to_list() == ["rank_3.err.log"]


LOGGED = "2026-08-20 09:58:02.868 | INFO     | s3:run:61 - part read after retry\n"


def test_a_record_below_an_exception_proves_that_the_process_went_on(analyzed):
    """Where nothing else in the job is wrong."""
    files = {f"rank_{r}.log": "2026-08-20 09:57:00 starts\n" for r in range(3)}
    assert verdict(analyzed({**files, "rank_3.log": RAISED}))[:2] == (
        "crashed-rank",
        (3,),
    )
    went_on = analyzed({**files, "rank_3.log": RAISED + LOGGED})
    assert verdict(went_on) == "no-failure"


def test_what_a_destructor_raises_ends_no_process(analyzed):
    ignored = "Exception ignored in: <function _ConnectionBase.__del__ at 0x7f0af920>\n"
    files = {f"rank_{r}.log": "2026-08-20 09:57:00 starts\n" for r in range(3)}
    assert verdict(analyzed({**files, "rank_3.log": ignored + RAISED})) == "no-failure"
    apart = analyzed({**files, "rank_3.log": f"{ignored}\n{RAISED}"})
    assert verdict(apart)[:2] == ("crashed-rank", (3,))


def test_it_proves_nothing_where_others_lost_their_peer(analyzed):
    analysis = analyzed({"rank_3.log": RAISED + LOGGED, "rank_0.log": timeout(0)})
    assert (3,) in crashed(analysis)


@pytest.mark.parametrize(
    ("epochs", "survived"), [((0.5, 0.75, 1.0), True), ((0.5, 0.5, 0.5), False)]
)
def test_epochs_that_grow_below_an_exception_prove_that_the_job_went_on(
    analyzed, epochs, survived
):
    """Trainer's console tells no step, and whose exception it was."""
    lines = [
        f"{{'loss': 1.5, 'learning_rate': 2e-05, 'epoch': {epoch}}}\n"
        for epoch in (0.25, *epochs)
    ]
    console = lines[0] + RAISED + "".join(lines[1:])
    assert (crashed(analyzed({"train.log": console})) == []) == survived


IN_THREAD = "Exception in thread prefetch:\n" + RAISED


def of_four(code):
    """A job in which rank 3's thread dies, and the others time out."""
    timeouts = {f"rank_{r}.log": steps(r, 1, 2, 3) + timeout(r) for r in range(3)}
    ends = table((3, code, 4003), (0, 1, 4000), (1, 1, 4001), (2, 1, 4002))
    return {**timeouts, "rank_3.log": steps(3, 1) + IN_THREAD, "torchrun.log": ends}


def test_an_exception_that_ends_a_thread_does_not_end_its_rank(analyzed):
    analysis = analyzed(of_four(-15))
    assert crashed(analysis) == []
    assert verdict(analysis)[:2] == ("missing-rank", (3,))


def test_a_rank_that_exits_with_an_error_code_may_have_died_of_its_thread(analyzed):
    assert (3,) in crashed(analyzed(of_four(1)))
