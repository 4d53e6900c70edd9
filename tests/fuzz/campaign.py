"""A coverage-guided campaign against one target, with atheris (libFuzzer).

    pip install 'ncclforensics[fuzz]'
    python tests/fuzz/campaign.py TARGET --runs 1000000 --corpus DIR

Ends at the first input that raises, hangs or takes the memory, which is kept in DIR as
crash-…, timeout-… or oom-…; what is mended goes into `found/`, which the tests replay.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import threading
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["ncclforensics", "pickletools", "tarfile"]):
    from fuzz.targets import TARGETS, seeds
    from ncclforensics.parsers import fr_taster

SECONDS, MEGABYTES = 20, 3000  # that one input may take


def main() -> None:
    """Run a campaign; does not return, libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--corpus", type=Path, default=Path("corpus"))
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--minutes", type=float, default=0)
    given = parser.parse_args()
    corpus = given.corpus / given.target
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds(given.target):
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    target = TARGETS[given.target]
    # a child that tries each pickle first would be most of the work
    fr_taster.expendable()
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
    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    threading.stack_size(0)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
