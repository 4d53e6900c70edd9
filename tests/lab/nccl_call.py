"""One process of a job: loads a libnccl and walks the steps it is given.

    python nccl_call.py --rank R --nranks N --id-file F LIBRARY STEP…

NCCL reads its settings once for each process, so a run is one process. Rank 0 makes
the unique id and leaves it in the id file, where the others wait for it, as they
would at a launcher's store. Nothing is printed here: what the log holds, NCCL wrote.
"""

import argparse
import ctypes
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nccl_patch import lead_to_stub

ID_BYTES = 128
FLOAT32, SUM = 7, 0
FAR_TOO_HIGH = 99
LINE_BUFFERED = 1
RAS_PORT = 28028
POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value; bytes 10 to 16 hold port and address."""

    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


def load(library: Path, stub: Path | None) -> ctypes.CDLL:
    """The library, its CUDA calls answered by the stub if one is given."""
    answers = ctypes.CDLL(str(stub), mode=ctypes.RTLD_GLOBAL) if stub else None
    nccl = ctypes.CDLL(str(library))
    if answers:
        lead_to_stub(library, answers)
    nccl.ncclCommInitRank.argtypes = (POINTER, INT, UniqueId, INT)
    for name in ("ncclAllReduce", "ncclBroadcast"):
        arguments = (POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER)
        getattr(nccl, name).argtypes = arguments
    for name in ("ncclCommAbort", "ncclCommDestroy"):
        getattr(nccl, name).argtypes = (POINTER,)
    return nccl


@dataclass
class Process:
    """What the steps work on."""

    nccl: ctypes.CDLL
    rank: int
    nranks: int
    id_file: Path
    communicator: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    elements: int = 1024

    def unique_id(self) -> UniqueId:
        """Rank 0's id; the others wait until it is there."""
        if self.rank == 0 and not self.id_file.exists():
            made = UniqueId()
            if self.nccl.ncclGetUniqueId(ctypes.byref(made)):
                os._exit(1)
            draft = self.id_file.with_suffix(".draft")
            draft.write_bytes(bytes(made))
            draft.rename(self.id_file)
        while not self.id_file.exists():
            time.sleep(0.05)
        return UniqueId.from_buffer_copy(self.id_file.read_bytes())

    def leave_unique_id(self) -> None:
        """Make the unique id now, long before init."""
        self.unique_id()

    def init(self, as_rank: int) -> int:
        """ncclCommInitRank, as the rank given."""
        into = ctypes.byref(self.communicator)
        unique_id = self.unique_id()
        return int(self.nccl.ncclCommInitRank(into, self.nranks, unique_id, as_rank))

    def collective(self, name: str, times: int, operation_or_root: int) -> int:
        """The same collective several times; the first error."""
        memory = ctypes.create_string_buffer(self.elements * 4)
        call = getattr(self.nccl, name)
        where = (memory, memory, self.elements, FLOAT32, operation_or_root)
        codes = [call(*where, self.communicator, None) for _ in range(times)]
        return next((int(code) for code in codes if code), 0)

    def bring(self, elements: int) -> None:
        """How many elements the collectives from here on have."""
        self.elements = elements

    def knock(self, garbage_bytes: int) -> None:
        """Connect to the root's port as a port scanner would, and send zeros."""
        port, *address = struct.unpack_from("!H4B", bytes(self.unique_id()), 10)
        root = (".".join(map(str, address)), port)
        with socket.create_connection(root) as stranger:
            stranger.sendall(bytes(garbage_bytes))

    def ask_ras(self, patience: float) -> None:
        """Print what ``ncclras -v`` would: the library's own report on the job."""
        asked = f"CLIENT PROTOCOL 2\nTIMEOUT {int(patience)}\nVERBOSE STATUS\n"
        with socket.create_connection(("localhost", RAS_PORT)) as ras:
            ras.sendall(asked.encode())
            ras.shutdown(socket.SHUT_WR)
            answered = b"".join(iter(lambda: ras.recv(65536), b""))
        *_, report = answered.split(b"\n", maxsplit=2)
        os.write(1, report)


STEPS: dict[str, Callable[[Process, float], int | None]] = {
    "unique-id": lambda p, _: p.leave_unique_id(),
    "init": lambda p, _: p.init(p.rank),
    "init-as": lambda p, rank: p.init(int(rank)),
    "all-reduce": lambda p, times: p.collective("ncclAllReduce", int(times), SUM),
    "broadcast": lambda p, times: p.collective("ncclBroadcast", int(times), 0),
    "bad-root": lambda p, _: p.collective("ncclBroadcast", 1, FAR_TOO_HIGH),
    "elements": lambda p, count: p.bring(int(count)),
    "destroy": lambda p, _: p.nccl.ncclCommDestroy(p.communicator),
    "abort": lambda p, _: p.nccl.ncclCommAbort(p.communicator),
    "knock": lambda p, count: p.knock(int(count)),
    "ras": lambda p, patience: p.ask_ras(patience),
    "stay": lambda _, seconds: time.sleep(seconds),
    "die": lambda p, _: os.kill(os.getpid(), signal.SIGKILL),
}


def main() -> None:
    """Walk the steps, each ``name`` or ``name=number``; a step that fails is last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--stub", type=Path)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--nranks", type=int, default=1)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--block-buffered", action="store_true", help="as libc does")
    parser.add_argument("--id-file", type=Path, required=True)
    parser.add_argument("steps", nargs="*", help=", ".join(STEPS))
    asked = parser.parse_args()

    if not asked.block_buffered:
        libc = ctypes.CDLL(None)
        libc.setvbuf(POINTER.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)
    nccl = load(asked.library, asked.stub)
    if asked.stub:
        ctypes.CDLL(str(asked.stub)).cudaSetDevice(asked.device)
    code = 0
    process = Process(nccl, asked.rank, asked.nranks, asked.id_file)
    for step in asked.steps:
        name, _, number = step.partition("=")
        code = STEPS[name](process, float(number or 0)) or 0
        if code:
            break
    ctypes.CDLL(None).fflush(None)
    os._exit(code)


if __name__ == "__main__":
    main()
