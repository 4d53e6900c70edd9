"""The host whose agent was started with a setting of its own did not meet the others."""

import pytest

COMMAND = (
    "+ torchrun --nnodes={nodes} --nproc-per-node=2 --rdzv-backend=c10d "
    "--rdzv-endpoint={at}:29400 --rdzv-id={run} train.py\n"
)
ENDED = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
USUAL = {"nodes": "3", "at": "worker-1", "run": "lm-41"}


def told(analyzed, *settings):
    logs = {
        f"worker-{n}.log": COMMAND.format(**{**USUAL, **own}) + ENDED
        for n, own in enumerate(settings, 1)
    }
    return analyzed(logs).ranked.verdict


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"run": "lm-40"}, "run id lm-40, the others with lm-41"),
        ({"at": "head"}, "endpoint head:29400, the others with worker-1:29400"),
        ({"nodes": "2:4"}, "number of nodes 4, the others with 3"),
    ],
)
def test_the_host_with_another_setting_is_named(analyzed, own, words):
    found = told(analyzed, {}, own, {})
    assert found.slug == "rendezvous-failed"
    assert found.hosts == ("worker-2",)
    assert found.headline.endswith(words)


@pytest.mark.parametrize(
    "settings",
    [
        ({}, {}, {}),
        ({}, {"run": "lm-40"}),  # of two, neither is the odd one
        ({}, {"run": "lm-40"}, {"run": "lm-39"}),
        ({"run": "$SLURM_JOB_ID"}, {"run": "$JOB"}, {"run": "$SLURM_JOB_ID"}),
    ],
)
def test_where_no_host_is_the_odd_one_nobody_is_named(analyzed, settings):
    assert told(analyzed, *settings).hosts == ()
