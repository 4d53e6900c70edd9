"""gpu-oom names the first rank that ran out of GPU memory, and its peers' errors echo."""

import pytest

from log_lines import timeout

OOM = {
    "2.0": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB "
    "(GPU 3; 39.45 GiB total capacity; 30.10 GiB already allocated; 1.10 GiB free; "
    "31.00 GiB reserved in total by PyTorch)",
    "2.2": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 3 has a total capacty of 39.45 GiB of which 1.10 GiB is free.",
    "2.9": "torch.AcceleratorError: CUDA error: out of memory",
    "jax": "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
    "trying to allocate 8589934592 bytes.",
    "tf": "ResourceExhaustedError (see above for traceback): OOM when allocating tensor "
    "with shape[64,1024] and type float on /job:localhost/replica:0/task:0/device:GPU:0 "
    "by allocator GPU_0_bfc",
    "rocm": "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 3 "
    "has a total capacity of 63.98 GiB",
    "npu": "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.97 GiB "
    "total capacity; 57.10 GiB already allocated; 1.02 GiB free)",
    "paddle": "ResourceExhaustedError: Out of memory error on GPU 3. Cannot allocate "
    "98.50MB memory on GPU 3, available memory is only 40.18MB.",
    "tensorrt-llm": "RuntimeError: [TensorRT-LLM][ERROR] CUDA runtime error in "
    "::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/src/tllmBuffers.h:112)",
    "triton": "RuntimeError: Triton Error [CUDA]: out of memory",
    "transformer engine": "RuntimeError: /te/common/util/cuda_driver.h:64 in function call: "
    "CUDA Error: out of memory",
    "mxnet": "mxnet.base.MXNetError: [11:18:15] src/storage/./pooled_storage_manager.h:161: "
    "cudaMalloc retry failed: out of memory",
    "cupy": "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,073,741,824 "
    "bytes (allocated so far: 15,032,385,536 bytes).",
    "vllm": "ValueError: Free memory on device cuda:3 (11.20/79.10 GiB) on startup is less "
    "than desired GPU memory utilization (0.9, 71.19 GiB).",
    "tpu": "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to "
    "allocate 3.75G. That was not possible. There are 1.02G free.; (0x0x0_HBM0)",
    "2.6": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 "
    "has a total capacity of 39.45 GiB of which 1.10 GiB is free.",
}


def traceback(rank, last):
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 8, in step',
        "    loss.backward()",
        last,
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def found(analysis):
    return [(role, f) for role, f in analysis.ranked.findings if f.slug == "gpu-oom"]


@pytest.mark.parametrize("text", OOM.values(), ids=OOM)
def test_every_wording_names_the_rank(analyzed, text):
    ((role, finding),) = found(analyzed({"job.log": traceback(3, text)}))
    assert (role, finding.ranks, finding.confidence) == ("root", (3,), "certain")


NO_EXCEPTION = {
    "memory saver": "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  "
    "file=csrc/utils.h func=cu_mem_create line=201",
    "vllm": "Failed: Cuda error /src/csrc/custom_all_reduce.cuh:455 'out of memory'",
    "bfc": "2026-11-20 10:30:00.123456: W tensorflow/core/common_runtime/bfc_allocator.cc"
    ":457] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25GiB (rounded to "
    "1342177280)requested by op model/dense/MatMul",
    "caffe": "F1120 10:12:31.413240 12130 syncedmem.cpp:71] Check failed: error == "
    "cudaSuccess (2 vs. 0)  out of memory",
}


@pytest.mark.parametrize("text", NO_EXCEPTION.values(), ids=NO_EXCEPTION)
def test_what_a_library_prints_names_no_rank(analyzed, text):
    ((role, finding),) = found(analyzed({"job.log": text + "\n"}))
    assert (role, finding.ranks, finding.confidence) == ("root", (), "certain")


RETRIED = {
    "bfc": "2026-11-20 10:30:00.123456: W tensorflow/core/common_runtime/bfc_allocator.cc"
    ":242] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.60GiB with "
    "freed_by_count=0. The caller indicates that this is not a failure",
    "driver": "2026-11-20 10:30:00.123456: I tensorflow/stream_executor/cuda/cuda_driver.cc"
    ":745] failed to allocate 355.20M (372454195 bytes) from device: "
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "tensorrt": "[11/20/2026-10:12:31] [TRT] [E] 1: [defaultAllocator.cpp::allocate::20] "
    "Error Code 1: Cuda Runtime (out of memory)",
}


@pytest.mark.parametrize("text", RETRIED.values(), ids=RETRIED)
def test_an_allocation_that_its_program_can_do_without_is_none(analyzed, text):
    assert not found(analyzed({"job.log": text + "\n"}))


def test_what_the_peers_say_is_an_echo(analyzed):
    lost = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
    log = traceback(3, OOM["2.6"]) + traceback(0, lost) + traceback(1, lost)
    analysis = analyzed({"job.log": log})
    assert analysis.ranked.verdict.slug == "gpu-oom"
    assert analysis.ranked.verdict.ranks == (3,)
    assert [r for r, _ in analysis.ranked.findings].count("root") == 1


def test_the_first_of_several_is_named_where_times_tell(analyzed):
    def stamped(second, rank):
        warn = "NCCL WARN Cuda failure 2 'out of memory'"
        return f"[2026-03-01 10:00:{second:02}] gpu0001:{rank}:{rank} [0] alloc.h:5 {warn}\n"

    files = {f"rank_{r}.log": stamped(10 * r + 5, r) for r in range(3)}
    ((_, finding),) = found(analyzed(files))
    assert finding.ranks == (0,)


def test_the_words_in_prose_are_no_failure(analyzed):
    text = "config: retry_on = 'CUDA out of memory'\nstep 1\n"
    assert not found(analyzed({"rank_0.log": text}))


def test_what_cuda_refused_to_nccl_is_memory_unless_cuda_says_else(analyzed):
    refused = (
        "gpu0001:7:9 [0] alloc.h:90 NCCL WARN Failed to CUDA calloc 536870912 bytes\n"
    )
    ((_, finding),) = found(analyzed({"job.log": refused}))
    assert (finding.confidence, finding.hosts) == ("likely", ("gpu0001",))
    other = refused.replace(
        "Failed to CUDA calloc 536870912 bytes", "Cuda failure 800 'x'"
    )
    assert not found(analyzed({"job.log": other + refused}))


CAUGHT = (
    "2024-10-20 04:53:21 | WARNING | fairseq.trainer | OOM: Ran out of memory with "
    "exception: CUDA out of memory. Tried to allocate 1.91 GiB. GPU {} has a total "
    "capacity of 39.39 GiB of which 611.19 MiB is free.\n"
)


@pytest.mark.parametrize(("gpu", "ranks"), [(2, (6,)), (0, ())])
def test_the_number_of_a_gpu_of_a_host_tells_the_rank_unless_it_is_the_first(
    analyzed, gpu, ranks
):
    lost = [timeout(rank) for rank in range(8)]
    logs = {"gpu0001.log": "".join(lost[:4]), "gpu0002.log": "".join(lost[4:])}
    logs["gpu0002.log"] = CAUGHT.format(gpu) + logs["gpu0002.log"]
    ((_, finding),) = found(analyzed(logs))
    assert (finding.ranks, finding.hosts) == (ranks, ("gpu0002",))


def test_a_title_with_nothing_but_the_words_makes_it_possible(analyzed):
    told = analyzed({"post.md": "# CUDA out of memory\nI followed the guide.\n"})
    assert told.ranked.verdict.slug == "gpu-oom"
    assert told.ranked.verdict.confidence == "possible"


def test_the_exception_of_a_task_of_ray_whose_own_line_is_cut_off_is_likely(analyzed):
    task = (
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::{}() (pid={}, ip={}, "
        'repr=<x>)\n  File "/job/{}.py", line 8, in update\n    return self.step('
    )
    outer = task.format("Runner.run", 6146, "10.20.0.11", "main").rpartition("\n")[0]
    inner = task.format("Worker.update", 7733, "10.20.0.12", "worker")
    verdict = analyzed({"job.log": f"{outer}\n{inner}"}).ranked.verdict
    assert (verdict.slug, verdict.confidence) == ("gpu-oom", "likely")
    assert (verdict.ranks, verdict.hosts) == ((), ("10.20.0.12",))
