"""A job under Ray Train whose rank 1 is killed: what its driver prints.

    RAY_TRAIN_V2_ENABLED=0 python tests/lab/ray_train.py > driver.log 2>&1

It needs `ray[train]` beside torch, on one machine; 1 in place of 0 runs the second
version of Ray Train. Addresses and the paths of the venv are written over by hand.
"""

import os
import signal
import time

import ray
import torch
import torch.distributed as dist
from ray import train
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

KILLED = 1


def loop():
    time.sleep(3)
    if train.get_context().get_world_rank() == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    ray.init(num_cpus=8)
    TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=3)).fit()
