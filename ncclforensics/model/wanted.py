"""What evidence a check lacks, and what to collect next time: a text for each kind.

Many checks lack the same: one text for all of them makes the list short that a person
reads.
"""

from __future__ import annotations

DUMPS = (
    "no dump, and no line of how far a rank came",
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)
LOGS = (
    "no log of a rank",
    "keep stderr of every rank: torchrun --log-dir DIR --redirects 3",
)
AGENTS = (
    "no output of a launcher's agent",
    "keep the output of torchrun on every node, with LOGLEVEL=INFO",
)
NCCL = (
    "no NCCL log",
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET,ENV   # on all ranks",
)
KERNEL = (
    "no kernel log",
    "keep the kernel log of each host: journalctl -k > dmesg-$(hostname).log",
)
SCHEDULER = (
    "no scheduler's output",
    "keep the job's own output file: sbatch --output=%x-%j.out",
)
