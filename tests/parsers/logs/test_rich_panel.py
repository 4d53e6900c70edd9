"""Tracebacks as rich prints them are read like Python's own; other boxes are not."""

import io

import pytest
from rich.console import Console
from rich.traceback import Traceback

from log_lines import traceback as python_traceback
from ncclforensics.parsers.logs import rich_panel
from ncclforensics.parsers.logs.message_parsers import traceback

CODE = """\
def all_reduce(tensor):
    raise RuntimeError("the transport is shut")
def step(tensor):
    all_reduce(tensor)
step(1)
"""
LONG = "environment/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


@pytest.fixture
def installed(tmp_path):
    """Return a file with the code at a place where torch's own is."""
    return written(tmp_path / "a-long-name" / LONG)


def written(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CODE)
    return str(path)


def printed(path, width=80, encoding="utf-8", **how):
    """Return what rich prints of an exception that the code of a file raised."""
    try:
        exec(compile(CODE, path, "exec"), {})
    except RuntimeError as error:
        told = Traceback.from_exception(type(error), error, error.__traceback__, **how)
    out = io.TextIOWrapper(io.BytesIO(), encoding, errors="backslashreplace")
    Console(file=out, width=width).print(told)
    out.seek(0)
    return out.read()


@pytest.mark.parametrize("width", [60, 80, 132])
@pytest.mark.parametrize("locals_", [False, True])
def test_its_frames_and_what_was_raised_are_read(installed, width, locals_):
    text = printed(installed, width, show_locals=locals_)
    [row] = traceback.parse(text)
    assert (row["exception"], row["op"]) == ("RuntimeError", "all_reduce")
    assert row["message"] == "the transport is shut"
    assert row["raised_in"] == installed
    assert text.splitlines()[row["said_at"]].startswith("RuntimeError: ")


@pytest.mark.parametrize("more", range(8))
def test_a_place_may_end_anywhere_at_the_edge(tmp_path, more):
    folder = "x" * (160 - len(str(tmp_path)) + more)
    [row] = traceback.parse(printed(written(tmp_path / folder / LONG), 60))
    assert row["op"] == "all_reduce"


def test_the_users_frame_is_found(tmp_path):
    path = written(tmp_path / "train.py")
    [row] = traceback.parse(printed(path, 200))
    assert (row["file"], row["file_line"], row["function"]) == (path, 2, "all_reduce")


def test_a_console_without_utf_8_draws_with_other_signs(installed):
    [row] = traceback.parse(printed(installed, encoding="ascii"))
    assert (row["op"], row["raised_in"]) == ("all_reduce", installed)


def test_a_rank_that_prints_so_is_the_culprit(analyzed, tmp_path):
    lost = (
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] "
        "Connection closed by peer [10.0.0.2]:4112"
    )
    logs = {f"rank{r}.log": python_traceback(r, lost) for r in (0, 1, 3)}
    own = printed(written(tmp_path / "train.py"))
    verdict = analyzed({**logs, "rank2.log": own}).report.verdict
    assert (verdict.culprits.ranks, verdict.confidence) == ((2,), "certain")


def test_another_panel_is_no_traceback():
    assert not rich_panel.is_top("╭──────── Results ────────╮")
    assert not traceback.parse("╭──── Results ────╮\n│ a:1 in b │\n╰─────────╯\n")
