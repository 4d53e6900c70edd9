"""A worker of the Horovod lab: counts steps, and loses its peers as Horovod's does.

Whoever is left meets the others again at the rendezvous of the driver, which answers
once all slots of the next round are filled.
"""

import os
import signal
import sys
import time
import urllib.request

HOST, LOCAL = os.environ["HOROVOD_HOSTNAME"], os.environ["HOROVOD_LOCAL_RANK"]
ADDRESS = "http://{HOROVOD_GLOO_RENDEZVOUS_ADDR}:{HOROVOD_GLOO_RENDEZVOUS_PORT}"
STEPS, DIES_AT = 10, 4

kind, _, whose = sys.argv[1].partition(":")
rank = int(os.environ["HOROVOD_RANK"])
for step in range(STEPS):
    if step == DIES_AT and kind == "lost":
        if whose == HOST:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1)
        name = f"rank_and_size/{HOST}:{LOCAL}"
        with urllib.request.urlopen(f"{ADDRESS.format(**os.environ)}/{name}") as answer:
            rank = int(answer.read().split(b",")[0])
        if rank < 0:
            sys.exit(0)
    if rank == 0:
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
    time.sleep(0.5)
