"""No structure raises, whatever it is given and however long."""

import pkgutil
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclforensics.parsers.logs import message_parsers

PARSERS = [
    import_module(f"{message_parsers.__name__}.{module.name}")
    for module in pkgutil.iter_modules(message_parsers.__path__)
    if module.name != "limits"
]
WORDS = [
    *(
        "Traceback (most recent call last):",
        '  File "/a.py", line 3, in f',
        "KeyError: 'x'",
    ),
    *("Failures:", "Root Cause (first observed failure):", "[0]:", "  rank : 1"),
    *("  exitcode  : -9 (pid: 1)", "  traceback : Traceback (most recent call last):"),
    *(
        "[1, 2]",
        "Timeout at collective: ALLREDUCE, #5",
        "#5 started ranks:",
        "[3] started X",
    ),
    *(
        "Rank 1 is running collective: CollectiveFingerPrint(",
        "SequenceNumber=0OpType=BARRIER",
    ),
    *(
        "TensorShape=[1, ",
        "TensorDeviceTypes=TensorOptions(device=",
        "Last error:",
        "ncclX:",
    ),
    *(
        "#0 f from /a.py:3",
        "local_ranks=[0",
        "global_ranks=[1]",
        "Active: failed (",
        "    Fabric",
    ),
    *("\x00", "\r", "\n", "\n", "\t", "(", "[", "]", "é", "9" * 40, "-", ":"),
]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.__name__[35:])
@given(text=st.lists(st.sampled_from(WORDS) | st.text(max_size=8)).map("".join))
@settings(max_examples=60, deadline=None)
def test_garbage_gives_rows_or_none_and_never_raises(parser, text):
    assert all(isinstance(row, dict) for row in parser.parse(text))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.__name__[35:])
@pytest.mark.parametrize(
    "unit", ["[1, ", "(" * 9, "Rank 1 is running collective: ", "\n  "]
)
def test_a_megabyte_of_repetition_is_cut_and_read(parser, unit):
    text = "Traceback (most recent call last):\n" + unit * (1_000_000 // len(unit))
    assert len(parser.parse(text)) <= 1
