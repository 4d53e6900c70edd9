"""Steps that take twice as long to the end of the log: a slowdown of nobody knows what."""

import pytest

from nccl_lines import found

SLUG = "slow-network"
LINE = (
    " [2026-11-20 12:00:00] iteration {step:8}/ 500 | consumed samples: {step} | elapsed "
    "time per iteration (ms): {ms:.1f} | global batch size: {batch:5} | lm loss: 2.5 |\n"
)


def log(times, batch=lambda step: 64):
    steps = enumerate(times, 1)
    return "".join(LINE.format(step=s, ms=ms, batch=batch(s)) for s, ms in steps)


def told(analyzed, text):
    analysis = analyzed({"job.log": text})
    return analysis.ranked.outcome, found(analysis, SLUG)


def test_a_slowdown_to_the_end_is_told_and_names_nobody(analyzed):
    warm_up = [30_000, 4_000]
    text = log([*warm_up, *([1_000, 1_020] * 10), *([2_500, 2_480] * 10)])
    outcome, (finding,) = told(analyzed, text)
    assert outcome == "inconclusive"
    assert (finding.confidence, finding.ranks, finding.hosts) == ("possible", (), ())
    assert "since step 23" in finding.headline
    assert {cite.line for cite in finding.evidence} == {22, 23, 42}


@pytest.mark.parametrize(
    "text",
    [
        log([1_000] * 20 + [2_500] * 20, batch=lambda step: 64 if step < 21 else 160),
        log([1_000] * 20 + [2_500] * 10 + [1_000] * 9),  # it was over again
        log([2_500] * 20 + [1_000] * 20),
        log([1_000] * 20 + [1_700] * 20),
        log([1_000, 1_000, 1_000, 3_000] * 10),  # every fourth saves
        log([1_000] * 20 + [2_500] * 5),  # too few to say that it stays
    ],
)
def test_other_changes_are_none(analyzed, text):
    assert told(analyzed, text) == ("no-failure", [])


def test_a_hot_gpu_explains_it(analyzed):
    hot = (
        "GPU 00000000:9B:00.0\n    Clocks Event Reasons\n"
        "        HW Thermal Slowdown : Active\n"
    )
    slow = log([1_000] * 20 + [2_500] * 20)
    analysis = analyzed({"job.log": slow, "gpu0002/nvidia-smi.txt": hot})
    assert analysis.ranked.verdict.slug == "thermal-throttle"
    assert analysis.ranked.verdict.hosts == ("gpu0002",)
