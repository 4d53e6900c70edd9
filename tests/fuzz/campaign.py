"""A coverage-guided campaign against one target, with atheris (libFuzzer).

    pip install 'ncclforensics[fuzz]'
    python tests/fuzz/campaign.py TARGET --runs 1000000 --corpus DIR

Ends at the first input that raises, hangs or takes the memory, which is kept in DIR as
crash-…, timeout-… or oom-…; what is mended goes into `found/`, which the tests replay.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import resource
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
# those whose coverage is not seen run faster without what counts it; so do all once
# what it found is in the corpus, from which a blind campaign begins
BLIND = {"log", "framed", "source", "saved", "share", "--blind"}
COUNTED = ["ncclforensics", "pickletools", "tarfile"]
SEEN = nullcontext() if BLIND & set(sys.argv) else atheris.instrument_imports(COUNTED)
with SEEN:
    from fuzz import opcodes
    from fuzz.mutation import mutated, mutated_json, mutated_share
    from fuzz.piled import PILES
    from fuzz.seeds import seeds
    from fuzz.targets import TARGETS
    from ncclforensics.parsers.flight_recorder import pickle_probe

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS, MEGABYTES = 600, 3000  # that one input may take, on a machine that is busy
PICKLES = {"pickled", "dump", "repeats"}  # targets whose inputs are made of opcodes
BYTEWISE = 0.3  # share of their mutations that know nothing of that


def main() -> None:
    """Run a campaign; does not return, libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--corpus", type=Path, default=Path("corpus"))
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--blind", action="store_true", help="without coverage")
    given = parser.parse_args()
    corpus = given.corpus / given.target
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds(given.target):
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    target = together(given.target, given.corpus)
    # a child that tries each pickle first would be most of the work
    pickle_probe.expendable()
    gc.enable()
    if given.blind or given.target in BLIND:
        blind(target, given, [file.read_bytes() for file in sorted(corpus.iterdir())])
        return
    options = [
        f"-runs={given.runs}",
        f"-max_len={given.longest}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-max_total_time={int(given.minutes * 60)}",
        f"-artifact_prefix={given.corpus}/{given.target}-",
        "-print_final_stats=1",
        "-reload=0",
    ]
    if words := Path(__file__).parent / f"{given.target}.dict":
        options += [f"-dict={words}"] if words.exists() else []
    mutators = {"custom_mutator": by_opcode} if given.target in PICKLES else {}
    atheris.Setup([sys.argv[0], *options, str(corpus)], target, **mutators)
    threading.stack_size(0)
    atheris.Fuzz()


def together(name: str, corpus: Path) -> Callable[[bytes], None]:
    """Return a target, or what takes its inputs in piles and finds the one to blame."""
    pile = PILES.get(name)
    if pile is None:
        return TARGETS[name]

    def take(data: bytes) -> None:
        try:
            pile.take(data)
        except BaseException:
            inputs = pile.inputs
            for each in inputs:
                try:
                    TARGETS[name](each)
                except BaseException:
                    inputs = [each]
                    break
            for number, each in enumerate(inputs):
                (corpus / f"{name}-crash-{number}").write_bytes(each)
            raise

    return take


def by_opcode(data: bytes, longest: int, seed: int) -> bytes:
    """Change a pickle by its opcodes, or by its bytes as libFuzzer does."""
    rnd = random.Random(seed)
    if rnd.random() < BYTEWISE:
        return atheris.Mutate(data, longest)
    return opcodes.mutated(rnd, data, longest)


def either(rnd: random.Random, pickles: list[bytes], longest: int) -> bytes:
    """Change one of some pickles by its opcodes, or by its bytes."""
    if rnd.random() < BYTEWISE:
        return mutated(rnd, pickles, longest)
    return opcodes.mutated(rnd, rnd.choice(pickles), longest)


def blind(
    target: Callable[[bytes], None], given: argparse.Namespace, texts: list[bytes]
) -> None:
    """Run a campaign without coverage; raises what the target raises.

    And MemoryError once the process has grown by more than MEGABYTES.
    """
    rnd = random.Random(given.seed)
    change = CHANGES.get(given.target, mutated)
    began, most = time.monotonic(), memory() + MEGABYTES
    for number in range(1, given.runs + 1):
        data = change(rnd, texts, given.longest)
        target(data)
        if memory() > most:
            pile = PILES.get(given.target)
            for own, each in enumerate(pile.inputs if pile else [data]):
                (given.corpus / f"{given.target}-oom-{own}").write_bytes(each)
            raise MemoryError(f"{memory()} MB after #{number}")
        if number % 10_000 == 0:
            took = time.monotonic() - began
            print(f"#{number} {took:.0f} s {memory()} MB", flush=True)
    print(f"stat::number_of_executed_units: {given.runs}")


CHANGES = {"saved": mutated_json, "share": mutated_share}
CHANGES |= dict.fromkeys(PICKLES, either)


def memory() -> int:
    """Return the megabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


if __name__ == "__main__":
    main()
