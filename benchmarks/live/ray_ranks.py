"""The driver of a Ray job: an actor per rank, two on each node, which runs train.py.

The actors get their variables when Ray starts their processes, so /proc shows them.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

TRAIN = Path(__file__).with_name("train.py")
PASSED = ("MASTER_", "GLOO_", "JOB", "FAULT", "TORCH_", "OMP_", "PYTHONPATH", "WANDB_")


class Rank:
    """One rank of the job."""

    def train(self) -> None:
        """Train until somebody ends the job."""
        sys.path.insert(0, str(TRAIN.parent))
        runpy.run_path(str(TRAIN), run_name="__main__")


def main(ranks: int) -> None:
    """Start the ranks on the nodes in the order of their addresses."""
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    nodes = sorted(ray.nodes(), key=lambda node: node["NodeManagerAddress"])
    per = ranks // len(nodes)
    shared = {k: v for k, v in os.environ.items() if k.startswith(PASSED)}
    shared |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(per)}
    actors = [
        ray.remote(Rank)
        .options(
            num_cpus=0,
            runtime_env={
                "env_vars": shared | {"RANK": str(rank), "LOCAL_RANK": str(rank % per)}
            },
            scheduling_strategy=On(nodes[rank // per]["NodeID"], soft=False),
        )
        .remote()
        for rank in range(ranks)
    ]
    ray.get([actor.train.remote() for actor in actors])


if __name__ == "__main__":
    main(int(sys.argv[1]))
