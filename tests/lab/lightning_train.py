"""A small training under Lightning's DDP, with a fault; `lightning_run.py` starts it."""

import os
import sys
import time
from datetime import timedelta

import lightning
import torch
from lightning.pytorch.profilers import SimpleProfiler
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

TIMEOUT = timedelta(seconds=8)
FAULT = sys.argv[1]


class Model(lightning.LightningModule):
    """Two layers; the faults are in the training step."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 8)

    def training_step(self, batch, step):
        if FAULT == "stuck" and self.global_rank == 0 and step == 3:
            self.read_shard()
        if FAULT == "raises" and self.global_rank == 2 and step == 3:
            raise ValueError("the batch has no labels")
        out = self.body(batch[0])
        alone = FAULT == "unused" and self.global_rank == 2 and step >= 2
        if not alone and FAULT != "unused-all":
            out = self.head(out)
        return out.square().mean()

    def read_shard(self):
        time.sleep(60)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Slow(TensorDataset):
    """A data set that one rank reads slowly."""

    def __getitem__(self, index):
        if FAULT == "slow-loader" and os.environ["RANK"] == "2":
            time.sleep(0.005)
        return super().__getitem__(index)


def main():
    reports = os.environ.get("REPORTS")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=4,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=TIMEOUT),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        profiler=SimpleProfiler(reports, "perf") if reports else None,
    )
    trainer.fit(Model(), DataLoader(Slow(torch.randn(800, 8)), batch_size=4))


if __name__ == "__main__":
    main()
