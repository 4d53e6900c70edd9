"""A small data-parallel training program with one fault built in, chosen by name.

It runs on CPU with Gloo, under torchrun. As on a real cluster each rank leaves at most
one Flight Recorder dump: after some seconds, or when a collective fails, or at the end
where that is asked for. A rank that crashes in its own code leaves none. Where somebody
looks again, a second one is written some seconds later, to a folder of its own.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed.elastic.multiprocessing.errors import record
from torch_faults import FAULTS, Job, broadcast_weights

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger("train")
RECORDER: Any = _distributed_c10d  # the dump functions are in no stub
ONE_DUMP_AT_A_TIME = threading.Lock()


def write_dump(path: Path, stacks: bool) -> None:
    """Write what the Flight Recorder holds, once; the suffix decides the format.

    Two threads may try at a time, and a signal may end either: so that no dump is
    cut short, the file gets its name when it is complete.
    """
    with ONE_DUMP_AT_A_TIME:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        is_json = path.suffix == ".json"
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_bytes(
            RECORDER._dump_fr_trace_json()
            if is_json
            else RECORDER._dump_fr_trace(True, stacks, False)
        )
        unfinished.rename(path)


def dump_when_told_to_end(dump: Callable[[], None]) -> None:
    """On SIGTERM dump and die; a thread waits, as the main one may be in C++."""
    signals = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def wait() -> None:
        signal.sigwait(signals)
        dump()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def join(timeout: timedelta) -> None:
    """Join the other ranks; after a restart in a new store.

    The agent's store still holds the addresses of the attempt before.
    """
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if not restarts:
        dist.init_process_group("gloo", timeout=timeout)
        return
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{os.environ['MASTER_ADDR']}:{29600 + restarts}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timeout,
    )


def main() -> None:
    """Join the job, run the fault, and dump as a watchdog would."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--who", type=int, nargs="*", default=[])
    parser.add_argument("--timeout", type=float, default=6.0, help="of collectives, s")
    parser.add_argument(
        "--dump", metavar="PATH", help="of the rank '{rank}', by the look '{look}'"
    )
    parser.add_argument("--dump-after", type=float, default=4.0, help="seconds")
    parser.add_argument("--dump-again", type=float, help="so many seconds later")
    parser.add_argument("--dump-at-end", action="store_true")
    parser.add_argument("--dump-on-sigterm", action="store_true")
    parser.add_argument("--no-stacks", action="store_true")
    parser.add_argument("--linger", type=float, default=0.0, help="before dying, s")
    parser.add_argument("--stacks-on-sigterm", action="store_true")
    parser.add_argument("--impatient", type=int, help="only this rank times out")
    parser.add_argument("--late", type=float, default=0.0, help="of --who to join, s")
    parser.add_argument("--odd-elements", type=int, default=1000)
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(message)s"
    )
    faulthandler.enable()
    if args.stacks_on_sigterm:
        faulthandler.register(signal.SIGTERM, chain=True)

    def dump(look: str = "first") -> None:
        if args.dump:
            path = args.dump.replace("{rank}", os.environ["RANK"])
            write_dump(Path(path.replace("{look}", look)), stacks=not args.no_stacks)

    def look() -> None:
        dump()
        if args.dump_again:
            time.sleep(args.dump_again)
            dump("second")

    if args.dump_on_sigterm:
        dump_when_told_to_end(dump)
    timeout = timedelta(seconds=args.timeout)
    if args.impatient not in (None, int(os.environ.get("RANK", "0"))):
        timeout *= 10
    if int(os.environ.get("RANK", "0")) in args.who:
        time.sleep(args.late)
    join(timeout)
    job = Job(dist.get_rank(), frozenset(args.who), timeout, args.odd_elements)
    LOG.info("rank %d of %d is ready", job.rank, dist.get_world_size())
    alarm = threading.Timer(args.dump_after, look)
    alarm.daemon = True
    alarm.start()
    try:
        broadcast_weights()
        FAULTS[args.fault](job)
    except RuntimeError:
        dump()
        time.sleep(args.linger)
        raise
    if args.dump_at_end:
        time.sleep(0.5)  # Gloo retires the last call a little after it returns
        dump()
    dist.destroy_process_group()


if __name__ == "__main__":
    record(main)() if os.environ.get("RECORD_ERRORS") else main()
