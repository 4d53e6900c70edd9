"""CUDA errors, whoever printed them: NCCL, any version of torch, nccl-tests.

Each of these messages captures `error`, CUDA's own text for its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

ERRORS = (
    *("nccl.cuda.failure", "nccl.nvls.cuda_failure", "nccl_tests.cuda_failure"),
    *("python.cuda_error", "python.cuda_error.early", "python.cuda_error.named"),
    *("python.cuda_error.ecc", "python.cuda_error.peer"),
)
ECC = "uncorrectable ECC error"
NVLINK = "uncorrectable NVLink error"  # of one of two ends
# an exception that the GPU contained: a bad peer access over NVLink does it, too
CONTAINED = "Invalid access of peer GPU memory over nvlink or a hardware error"


def saying(frames: Frames, words: str) -> pl.DataFrame:
    """Return the lines with a CUDA error whose text has the regex `words`."""
    lines = frames.message("c10d.watchdog.terminated", *ERRORS)
    if "error" not in lines.columns:
        return lines.clear()
    return lines.filter(pl.col("error").str.contains(words))


def met(told: pl.DataFrame) -> str:
    """Return which uncorrectable error lines tell of: one of memory, if any does."""
    is_ecc = told["text"].str.contains(ECC, literal=True).any()
    return ECC if is_ecc or told.is_empty() else NVLINK
