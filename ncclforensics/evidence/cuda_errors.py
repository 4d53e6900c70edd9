"""CUDA errors, whoever printed them: NCCL, any version of torch, nccl-tests.

Each of these messages captures `error`, CUDA's own text for its code.
"""

from __future__ import annotations

ERRORS = (
    *("nccl.cuda.failure", "nccl.nvls.cuda_failure", "nccl_tests.cuda_failure"),
    *("python.cuda_error", "python.cuda_error.early", "python.cuda_error.named"),
    *("python.cuda_error.ecc", "python.cuda_error.peer"),
)
