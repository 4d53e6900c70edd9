"""Where all ranks time out, the one that did so at another place makes its own call."""

import pytest

from nccl_lines import found

SLUG = "rank-conditional-collective"
RAISED = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/job/train.py", line {line}, in main\n'
    "[rank{rank}]:     step()\n{within}"
    "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/"
    "unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n"
)
MESSAGE = (
    '[rank{}]:   File "/opt/venv/lib/python3.12/site-packages/torch/distributed/'
    'distributed_c10d.py", line 2799, in recv\n'
)


def log(lines, within=""):
    """Print the tracebacks of ranks that waited at these lines of their program."""
    return "".join(
        RAISED.format(rank=rank, line=line, within=within.format(rank))
        for rank, line in enumerate(lines)
        if line
    )


def named(analyzed, text):
    return [(f.ranks, f.collective.call_site) for f in found(analyzed(text), SLUG)]


def test_the_one_at_another_place_is_named_with_its_place(analyzed):
    text = {"train.log": log([57, 57, 52, 57])}
    assert named(analyzed, text) == [((2,), "train.py:52")]


@pytest.mark.parametrize(
    "text",
    [
        log([57, 57, 57, 57]),
        # two of each: nobody is odd
        log([57, 57, 52, 52]),
        # of two ranks either may be
        log([57, 52]),
        # one did not time out: the others may wait for it
        log([57, 57, 52, 0, 57]),
        # stages of a pipeline wait at places of their own
        log([57, 57, 52, 57], MESSAGE),
    ],
)
def test_it_is_silent_where_ranks_may_wait_at_several_places(analyzed, text):
    assert not named(analyzed, {"train.log": text + "[rank0]: step 3 loss 2.0\n"})
