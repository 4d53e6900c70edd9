"""A shell line or a listed environment tells the rank of a log that names none."""

import pytest

from nccl_lines import warn

GONE = warn("gpu0002", "Bootstrap : no socket interface found")
TORCHRUN = (
    "user@gpu0002:/job$ torchrun --nnodes=2 --nproc_per_node={} --node_rank={} t.py\n"
)


def ranks(analyzed, head):
    return analyzed({"node.log": head + GONE}).ranked.verdict.ranks


@pytest.mark.parametrize(
    "head",
    [
        TORCHRUN.format(1, 3),
        "root@gpu0002:~# CUDA_VISIBLE_DEVICES=0 python main.py --world-size 4 --rank 3\n",
        "+ python -m torch.distributed.launch --nproc-per-node 1 --node-rank 3 t.py\n",
        "MASTER_ADDR=gpu0001\nRANK=3\nWORLD_SIZE=4\n",
    ],
)
def test_the_rank_is_named(analyzed, head):
    assert ranks(analyzed, head) == (3,)


@pytest.mark.parametrize(
    "head",
    [
        TORCHRUN.format(8, 3),  # a node of eight ranks
        TORCHRUN.format(1, 3) + TORCHRUN.format(1, 2),  # of which node is this log?
        "python main.py --world-size 4 --rank 3\n",  # how many GPUs are there?
        "LOCAL_RANK=3\nNODE_RANK=3\n",
        "+ srun bash -c 'torchrun --nproc_per_node 1 --node_rank $SLURM_PROCID t.py'\n",
    ],
)
def test_what_leaves_it_open_names_none(analyzed, head):
    assert ranks(analyzed, head) == ()
