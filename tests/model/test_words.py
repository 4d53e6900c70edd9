"""Durations are said as a person would."""

import pytest

from ncclforensics.model import words
from ncclforensics.model.words import lasted, name_group


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0, "0 s"),
        (0.042, "42 ms"),
        (0.42, "0.4 s"),
        (4, "4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (600, "10 min"),
        (1827.4, "30 min 27 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (86_399, "1 d"),
        (3 * 86_400 + 4.4 * 3600, "3 d 4 h"),
        (1e9, "11,574 d 2 h"),
    ],
)
def test_two_units_at_most(seconds, says):
    assert lasted(seconds) == says


@pytest.mark.parametrize(
    ("name", "description", "says"),
    [
        ("35", "TP", "process group 35 (TP)"),
        ("0", "undefined", "process group 0"),
        ("b410e88f" * 5, "mesh_dp_shard", "mesh_dp_shard b410e88f"),
        # NCCL's, which a log is searched for
        ("0x4f62507b15e276a3", None, "process group 0x4f62507b15e276a3"),
        (None, "TP", "a group (TP)"),
    ],
)
def test_a_group_is_named_as_c10d_names_it_and_a_hash_is_short(name, description, says):
    assert name_group(name, description) == says


def test_a_quoted_line_keeps_its_point():
    line = (
        "RuntimeError: [/opt/conda/work/third_party/gloo/transport/tcp/pair.cc:799]  "
        "connect: refused by task 90aa551f16836f9d58427a0096d8ccf5, "
    )
    told = "RuntimeError: [pair.cc:799] connect: refused by task 90aa551f…."
    assert words.said(line) == told
    assert words.said("one two three four", 12) == "one two…"
    assert words.said(None) == "None."
