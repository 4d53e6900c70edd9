"""What a frame of a stack is: the user's code, a library's, a call, a wait.

Files are as printed: absolute in tracebacks and faulthandler, relative to the packages
in py-spy's text, a source or a shared library in gdb's.
"""

from __future__ import annotations

import re

import polars as pl

# files and functions of torch.distributed that training programs call
CALLS = r"(?:^|/)torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$"
OPS = (
    r"^(?:all_reduce|broadcast|barrier|monitored_barrier|reduce|gather|scatter"
    r"|i?send|i?recv|batch_isend_irecv|wait_tensor|_store_barrier"
    r"|(?:all_gather|reduce_scatter|all_to_all)\w*|\w+_object(?:_list|s)?)$"
)
UNRECORDED = "monitored_barrier"  # made of a store's keys: no dump shows it
# those of torch itself whose call is made in C++: DDP's buffers, and its start
INNER = r"(?:^|/)torch/(?:nn/parallel/distributed|distributed/utils)\.py$"
INNER_OPS = {
    "_distributed_broadcast_coalesced": "broadcast",
    "_sync_params_and_buffers": "broadcast",
    "_verify_param_shape_across_processes": "all_gather",
}
# which way a message goes along a pipeline: Megatron-LM's `recv_forward`, or a loop's
# own `forward_step` around the call
PASSES = r"((?:send|recv)_(?:forward|backward|next|prev))"
HALF_OF_STEP = r"(?:^|_)(forward|backward)(?:_|$)"
TOWARD = {
    **dict.fromkeys(("send_forward", "recv_backward", "send_next", "recv_next"), 1),
    **dict.fromkeys(("recv_forward", "send_backward", "send_prev", "recv_prev"), -1),
}
# the same in C and C++: `c10d::AsyncAllreduceWork::run`, `MPI_Allreduce`
NATIVE = (
    r"^(?:P?MPI_I?|c10d::Async|gloo::(?:\(anonymous namespace\)::)?)"
    r"([Aa]ll[Rr]educe|[Aa]ll[Gg]ather|[Rr]educe_?[Ss]catter|[Aa]ll[Tt]o[Aa]ll"
    r"|[Bb]road[Cc]ast|[Bb]cast|[Bb]arrier|[Rr]educe|[Gg]ather|[Ss]catter"
    r"|[Ss]end|[Rr]ecv)"
)
TORCH_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "bcast": "broadcast",
}
# a helper thread makes the call that this one waits for
AWAITS = r"^c10d::\w*Work::wait$"
# a P2P call waits for one rank, in the order of a pipeline
MESSAGES = r"^(?:i?send|i?recv|batch_isend_irecv|(?:send|recv)_object_list)$"
# the kind of an operation, by whatever name Python, a watchdog or a dump gives it
KIND = (
    r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier"
    r"|gather|scatter|reduce|send|recv)"
)
# a function of the user that is named for its call: `recv_forward`, `all_reduce_grads`;
# accelerate's `send_to_device` copies to the GPU
NAMED = (
    r"(?:^|_)(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier)"
    r"(?:_|$)",
    r"(?:^|_)(send|recv)(?:$|_(?:forward|backward|next|prev|act|grad|tensor|obj))",
)
# members may make these calls at different lines: the root and the others
ROOTED = r"^(?:broadcast|reduce|gather|scatter)(?:_object(?:_list|s)?)?$"
# gradients are reduced in every step of a training loop, and nowhere else
GRADIENTS = r"(?:^|/)torch/(?:_tensor|autograd/\w+)\.py$"
BACKWARD = r"^(?:backward|_engine_run_backward)$|autograd::Engine::"
# the host waits for its GPU
DEVICE = r"torch/cuda/(?:__init__|streams)\.py$"
ON_DEVICE = r"^(?:cuda|cu|hip)(?:Stream|Event|Device|Ctx)Synchronize"
GROUPS = r"(?:^|/)torch/distributed/"
# not user code: torch itself, Python's own modules, Ray's workers
LIBRARY = (
    r"(?:^|/)(?:site-packages|dist-packages)/(?:torch|torchvision|ray)/"
    r"|<frozen |<string>|^(?:torch|torchvision)/|^ray/(?:_private|train|actor)"
    r"|/lib(?:64)?/python3[.\d]*/[^/]+$"
    r"|^(?:threading|queue|selectors|socket|subprocess|runpy|contextlib|functools"
    r"|zipfile|tarfile|gzip|bz2|lzma|pickle|shutil|tempfile|pathlib|ssl)\.py$"
    r"|^(?:concurrent|multiprocessing|asyncio|importlib|json|http|urllib)/"
)
TORCH = r"(?:^|/)torch/"
# a shared library that is neither the system's nor the interpreter's
EXTENSION = r"(?i)torch|c10|nccl|gloo|mpi|ucx|fabric|cuda|hip"
INSTALLED = r"(?:site|dist)-packages/|/lib(?:64)?/python3"
# a thread with this innermost frame waits for another thread or process
PARKED = (
    r"(?:^|/)(?:threading|queue|selectors|concurrent/futures/\w+|asyncio/\w+"
    r"|multiprocessing/(?:connection|popen_fork|queues|process))\.py$"
    r"|(?:^|/)ray/_private/"
)
PYTHON = r"\.py$"
# where every native stack ends: the C library, threads, the interpreter
SYSTEM = (
    r"nptl/|sysdeps/|/libc[.-]|libstdc\+\+|libpthread|/ld-|futex|clone3?\.S|/csu/"
    r"|(?:Python|Objects|Include|Programs)/|Modules/main\.c"
)


def is_own() -> pl.Expr:
    """Whether a frame's `file` is the user's own, and not a library's."""
    return ~pl.col("file").str.contains(LIBRARY)


def is_python() -> pl.Expr:
    """Whether a frame is of Python."""
    return pl.col("file").str.contains(PYTHON).fill_null(False)


def is_barrier() -> pl.Expr:
    """Whether a frame is torch's barrier, which torch 2.2 records as an all_reduce."""
    return pl.col("file").str.contains(CALLS) & (pl.col("function") == "barrier")


def in_call() -> pl.Expr:
    """Whether a frame is a function of torch.distributed that programs call.

    Or one of torch itself that calls it from C++, where no frame shows.
    """
    file, function = pl.col("file"), pl.col("function")
    return (file.str.contains(CALLS) & function.str.contains(OPS)) | (
        file.str.contains(INNER) & function.is_in(list(INNER_OPS))
    )


def called() -> pl.Expr:
    """Return the outermost call of torch.distributed in a stack, by torch's name."""
    return pl.col("function").filter(in_call()).last().replace(INNER_OPS)


def is_message(op: str) -> bool:
    """Whether a call passes a message from one rank to one other."""
    return re.match(MESSAGES, op) is not None


def named_call() -> pl.Expr:
    """Return the call that the user's own function is named for, by torch's name.

    Its wait is in C++, and leaves no frame: `_communicate` in `recv_forward`, both of
    one file. Null if native frames are printed, which would show the call.
    """
    awaits = on_device().cast(pl.Int64).cum_min() == 1  # `_communicate` does so
    file = pl.col("file").filter(~awaits)
    function = pl.col("function").filter(~awaits).str.to_lowercase()
    name = pl.coalesce(function.str.extract(one) for one in NAMED)
    name = name.filter((file == file.first()).cum_min())
    told = name.drop_nulls().first().str.replace_all("_", "")
    bare = is_python().all() & is_own().filter(~awaits).first()
    return pl.when(bare).then(told.replace(TORCH_NAMES))


def passing() -> pl.Expr:
    """Return of a frame which message it passes, as far as its name tells."""
    name = pl.col("function").str.to_lowercase()
    # a whole schedule, `forward_backward_step`, passes all of them
    one = ~(name.str.contains("forward") & name.str.contains("backward"))
    half = pl.when(is_own() & one).then(name.str.extract(HALF_OF_STEP))
    return pl.coalesce(name.str.extract(PASSES), half)


def toward(passing: pl.Expr, op: pl.Expr) -> pl.Expr:
    """Return 1 for a message with the next stage, -1 with the one before, or null."""
    half = op.str.strip_prefix("i").str.extract("^(send|recv)")
    whole = pl.when(passing.str.contains("_")).then(passing)
    told = pl.coalesce(whole, pl.concat_str(half, pl.lit("_"), passing))
    return told.replace_strict(TOWARD, default=None, return_dtype=pl.Int64)


def kind(op: pl.Expr) -> pl.Expr:
    """Return the kind of an operation without its variants: `allgather`; or null."""
    return op.str.to_lowercase().str.extract(KIND).str.replace_all("_", "")


def native_call() -> pl.Expr:
    """Return the call that a native frame is in, by torch's name; null if none."""
    name = pl.col("function").str.extract(NATIVE).str.to_lowercase()
    return name.str.replace("_", "").replace(TORCH_NAMES)


def in_backward() -> pl.Expr:
    """Whether a frame computes gradients."""
    named = pl.col("function").str.contains(BACKWARD)
    return named & (pl.col("file").str.contains(GRADIENTS) | ~is_python())


def on_device() -> pl.Expr:
    """Whether the host waits in a frame for its GPU."""
    asks = pl.col("file").str.contains(DEVICE) & (pl.col("function") == "synchronize")
    return asks.fill_null(False) | pl.col("function").str.contains(ON_DEVICE)


def in_torch() -> pl.Expr:
    """Whether the innermost frame of Python is of torch.distributed."""
    return _innermost().str.contains(GROUPS).fill_null(False)


def may_be_in_cpp() -> pl.Expr:
    """Whether a process may be in a call of C++ that leaves no frame.

    A module of Python's own in the innermost frame shows what the process waits for:
    another process, a file, a lock. So do native frames, where they are printed.
    """
    python = _innermost()
    inside = ~python.str.contains(LIBRARY) | python.str.contains(TORCH)
    native = pl.col("file").filter(~is_python())
    linked = native.str.contains(EXTENSION).any() | (native.len() == 0)
    return inside.fill_null(True) & linked


def in_torch_itself() -> pl.Expr:
    """Whether the innermost frame of Python is torch's own, of any of its modules."""
    return _innermost().str.contains(TORCH).fill_null(False)


def _innermost() -> pl.Expr:
    """Return the file of the innermost frame of Python."""
    return pl.col("file").filter(is_python()).first()


def places() -> list[pl.Expr]:
    """Return frames to tell a stack by, the best first; the innermost of each counts.

    The user's own code, else that of any package but torch, else what is not the
    system's.
    """
    own = is_own() & pl.col("file_line").is_not_null() & is_python()
    installed = pl.col("file").str.contains(INSTALLED)
    return [own & ~installed, own, ~pl.col("file").str.contains(SYSTEM)]
