"""One process of a job: loads a libnccl, makes one call, sleeps, ends.

    python nccl_call.py LIBRARY CALL [--stub STUB] [--rank R] [--nranks N] …

NCCL reads its settings once for each process, so a run is one process. Rank 0 makes
the unique id and leaves it in ``--id-file``, where the others wait for it, as they
would at a launcher's store. Nothing is printed here: what the log holds, NCCL wrote.
"""

import argparse
import ctypes
import os
import time
from pathlib import Path

from nccl_patch import lead_to_stub

ID_BYTES = 128
FLOAT32, SUM = 7, 0
ELEMENTS = 1024


class UniqueId(ctypes.Structure):
    """ncclUniqueId: passed by value."""

    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


def load(library: Path, stub: Path | None) -> ctypes.CDLL:
    """The library, its CUDA calls answered by the stub if one is given."""
    answers = ctypes.CDLL(str(stub), mode=ctypes.RTLD_GLOBAL) if stub else None
    nccl = ctypes.CDLL(str(library))
    if answers:
        lead_to_stub(library, answers)
    nccl.ncclCommInitRank.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        UniqueId,
        ctypes.c_int,
    ]
    nccl.ncclAllReduce.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    nccl.ncclBroadcast.argtypes = nccl.ncclAllReduce.argtypes
    return nccl


def shared_unique_id(nccl: ctypes.CDLL, rank: int, id_file: Path) -> UniqueId:
    """Rank 0's id; the others wait until it is there."""
    unique_id = UniqueId()
    if rank == 0:
        if nccl.ncclGetUniqueId(ctypes.byref(unique_id)):
            raise SystemExit(1)
        draft = id_file.with_suffix(".draft")
        draft.write_bytes(bytes(unique_id))
        draft.rename(id_file)
    while not id_file.exists():
        time.sleep(0.05)
    return UniqueId.from_buffer_copy(id_file.read_bytes())


def main() -> None:
    """Make the call named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("call", help="unique-id, init, never, all-reduce, usage")
    parser.add_argument("--stub", type=Path)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--as-rank", type=int, help="rank told to NCCL, if another")
    parser.add_argument("--nranks", type=int, default=1)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--id-file", type=Path, default=Path("/tmp/nccl_id"))
    parser.add_argument("--times", type=int, default=1, help="collectives to call")
    parser.add_argument("--stay", type=float, default=0.0, help="seconds to live on")
    asked = parser.parse_args()

    nccl = load(asked.library, asked.stub)
    if asked.stub:
        ctypes.CDLL(str(asked.stub)).cudaSetDevice(asked.device)
    unique_id = shared_unique_id(nccl, asked.rank, asked.id_file)
    comm = ctypes.c_void_p()
    told = asked.rank if asked.as_rank is None else asked.as_rank
    failed = 0
    if asked.call in ("init", "all-reduce"):
        failed = nccl.ncclCommInitRank(
            ctypes.byref(comm), asked.nranks, unique_id, told
        )
    if asked.call == "all-reduce" and not failed:
        memory = ctypes.create_string_buffer(ELEMENTS * 4)
        for _ in range(asked.times):
            failed |= nccl.ncclAllReduce(
                memory, memory, ELEMENTS, FLOAT32, SUM, comm, None
            )
    time.sleep(asked.stay)
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
