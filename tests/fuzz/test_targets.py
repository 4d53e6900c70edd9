"""The campaigns' targets over their seeds, and over what campaigns have found."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.seeds import seeds
from fuzz.targets import TARGETS

FOUND = sorted((Path(__file__).parent / "found").iterdir())
QUICK = sorted(TARGETS.keys() - {"whole", "log", "lines", "source"})


@pytest.mark.parametrize("target", QUICK)
def test_seeds_are_read_whole_and_cut(target):
    for seed in list(seeds(target))[:4]:
        for end in (len(seed), len(seed) // 2, 1, 0):
            TARGETS[target](seed[:end])


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_what_was_found_is_mended(file):
    TARGETS[file.name.partition("-")[0]](file.read_bytes())
