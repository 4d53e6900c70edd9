"""An exit or an exception of which too little is left names nobody."""

import pytest

FAILED = (
    "E0801 13:23:11.366000 900 torch/distributed/elastic/multiprocessing/api.py:900] "
    "failed (exitcode: {code}) local_rank: 0 (pid: 77) of binary: /usr/bin/python\n"
)
HEAD = 'Traceback (most recent call last):\n  File "/job/train.py", line 3, in f\n'
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]\n"
)


def verdict(analysis):
    found = analysis.ranked.verdict
    return found and (found.slug, found.ranks)


@pytest.mark.parametrize(("code", "named"), [(3, True), (1, False)])
def test_code_1_is_that_of_every_exception_also_of_a_victims(analyzed, code, named):
    analysis = analyzed({"torchrun.log": FAILED.format(code=code)})
    assert (verdict(analysis) is not None) is named
    assert analysis.ranked.outcome == ("failure" if named else "inconclusive")


@pytest.mark.parametrize(("cut", "named"), [(0, False), (40, False)])
def test_an_error_about_a_peer_that_is_cut_is_no_error_of_its_own(analyzed, cut, named):
    text = HEAD + LOST
    analysis = analyzed({"rank_2.log": text[: len(text) - cut]})
    assert (verdict(analysis) is not None) is named


def test_an_error_far_before_the_cut_is_whole(analyzed):
    text = HEAD + "ValueError: x\n" + "step\n" * 100 + "gpu0001:1:1 [0] NCCL IN"
    assert verdict(analyzed({"rank_2.log": text})) == ("crashed-rank", (2,))


def test_an_exception_whose_text_was_wrapped_away_is_nobodys(analyzed):
    wrapped = (
        'Traceback (most recent call last):\n  File "/job/tra\nin.py", line 3, in f\n'
    )
    analysis = analyzed({"rank_0.log": wrapped, "torchrun.log": FAILED.format(code=1)})
    assert verdict(analysis) is None
