"""Tracebacks as Python 3.11 prints them; the last frame of the user's code counts."""

import pytest

from ncclforensics.parsers.logs.message_parsers import traceback

IN_TORCH = """Traceback (most recent call last):
  File "/job/train.py", line 358, in main
    FAULTS[args.fault](job)
  File "/job/train.py", line 70, in reduce_gradients
    dist.all_reduce(torch.ones(elements, dtype=dtype), group=group)
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper
    return func(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^
RuntimeError: Timed out waiting 7000ms for recv operation to complete
[W1120 11:08:32.249376872 socket.cpp:207] something else
"""

CHAIN = """Traceback (most recent call last):
  File "/job/train.py", line 47, in load
    try: 1/0
         ~^~
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/job/train.py", line 50, in <module>
    load()
KeyError: 'k'
"""


def only(text):
    (row,) = traceback.parse(text)
    return row


def test_frames_of_torch_are_passed_over():
    assert only(IN_TORCH) == {
        "exception": "RuntimeError",
        "message": "Timed out waiting 7000ms for recv operation to complete",
        "file": "/job/train.py",
        "file_line": 70,
        "function": "reduce_gradients",
        "op": None,
        "by_launcher": False,
        "signalled": False,
        "toward": None,
        "beside": None,
        "raised_in": "/opt/venv/lib/python3.11/site-packages/torch/distributed/"
        "c10d_logger.py",
        "way": "wrapper\tsite-packages/torch/distributed/c10d_logger.py\t83\n"
        "reduce_gradients\t/job/train.py\t70\n"
        "main\t/job/train.py\t358",
        "chained": False,
        "span": 9,
        "said_at": 8,
        "goes_on": None,
    }


def test_the_call_of_torch_distributed_is_what_the_program_asked_for():
    text = IN_TORCH.replace("c10d_logger.py", "distributed_c10d.py")
    assert only(text.replace("in wrapper", "in all_reduce"))["op"] == "all_reduce"
    inner = (
        '  File "/opt/torch/distributed/distributed_c10d.py", line 9, in all_gather\n'
    )
    text = text.replace("in wrapper", "in all_gather_object")
    head, _, last = text.rpartition("RuntimeError")
    assert only(f"{head}{inner}RuntimeError{last}")["op"] == "all_gather_object"


def test_of_a_chain_the_first_exception_is_the_cause():
    row = only(CHAIN)
    assert (row["exception"], row["file_line"], row["chained"]) == (
        "ZeroDivisionError",
        47,
        True,
    )


def test_a_second_traceback_without_a_link_is_no_chain():
    assert not only(IN_TORCH + CHAIN)["chained"]


def test_another_package_is_better_than_torch_and_worse_than_the_user():
    text = IN_TORCH.replace("/job/train.py", "/opt/lib/python3.11/dist-packages/mlm.py")
    row = only(text)
    assert (row["file"], row["file_line"]) == (
        "/opt/lib/python3.11/dist-packages/mlm.py",
        70,
    )


def test_a_traceback_of_torch_alone_gives_its_last_frame():
    lines = IN_TORCH.splitlines()
    row = only("\n".join([lines[0], *lines[5:]]))
    assert (row["function"], row["file_line"]) == ("wrapper", 83)


def test_an_exception_without_a_message_or_with_a_dotted_name_is_read():
    bare = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\n'
    assert only(bare + "AssertionError")["exception"] == "AssertionError"
    assert only(bare + "AssertionError:")["message"] == ""
    row = only(bare + "torch.distributed.DistStoreError: wait timeout after 6000ms")
    assert row["exception"] == "torch.distributed.DistStoreError"


def test_a_line_behind_a_loggers_name_is_no_exception():
    """A shipper took the level of an agent's line, `WARNING:`, for its own."""
    head, frames = (
        "Traceback (most recent call last):\n",
        '  File "/job/train.py", line 7',
    )
    told = only(f"{head}{frames}, in run\ntorch.distributed.agent.api:Received 15\n")
    assert (told["exception"], told["message"], told["file_line"]) == (None, None, 7)


def test_a_traceback_that_breaks_off_still_has_its_call_site():
    row = only("\n".join(IN_TORCH.splitlines()[:5]))
    assert (row["exception"], row["file_line"]) == (None, 70)


def test_a_quoted_traceback_is_read_without_its_margin():
    quoted = "\n".join("    " + line for line in IN_TORCH.splitlines())
    assert only(quoted) == only(IN_TORCH)


def test_text_without_a_traceback_gives_nothing():
    assert traceback.parse("RuntimeError: nothing above me") == []
    assert traceback.parse("Traceback (most recent call last):") == []


def test_what_a_loaders_worker_raised_is_told_with_its_own_place():
    text = """Traceback (most recent call last):
  File "/job/train.py", line 25, in <module>
    for x in loader:
  File "/opt/venv/lib/python3.11/site-packages/torch/_utils.py", line 750, in reraise
    raise exception
OSError: Caught OSError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 3, in f
    data = fetcher.fetch(index)
  File "/job/data.py", line 16, in __getitem__
    return read(i)
OSError: [Errno 5] Input/output error: '/data/shard-42.bin'
"""
    (row,) = traceback.parse(text)
    assert row["message"] == "[Errno 5] Input/output error: '/data/shard-42.bin'"
    assert (row["file"], row["file_line"]) == ("/job/data.py", 16)
    # where the rest is lost, what the loader says stays
    (row,) = traceback.parse(text[: text.index("Original")])
    assert row["message"] == "Caught OSError in DataLoader worker process 0."


def test_what_logging_prints_between_the_lines_is_no_exception():
    text = 'Traceback (most recent call last):\n  File "/job/a.py", line 3, in f\n'
    (row,) = traceback.parse(f"{text}INFO:root:start worker process: gpu0002[1]\n")
    assert row["exception"] is None


@pytest.mark.parametrize("gap", ["...", "    ...", "[...]", "# ...", "<snip>", "…"])
def test_of_a_traceback_that_somebody_shortened_the_innermost_frame_is_unknown(gap):
    first, *rest = IN_TORCH.splitlines()
    row = only("\n".join([first, *rest[:4], gap, *rest[7:]]))
    assert row["exception"] == "RuntimeError"
    assert (row["raised_in"], row["file_line"]) == (None, 70)
    above = only("\n".join([first, gap, *rest]))
    assert above["raised_in"] == only(IN_TORCH)["raised_in"]


def test_an_ellipsis_inside_the_code_is_no_gap():
    text = IN_TORCH.replace("func(*args, **kwargs)", "Tuple[int, ...]")
    assert only(text)["raised_in"] == only(IN_TORCH)["raised_in"]


def test_carets_that_lost_their_blanks_end_no_traceback():
    bare = IN_TORCH.replace("           ^^^^^^^^^^^^^^^^^^^^^", "^^^^^^^^^^^^^^^^^^^^^")
    assert bare != IN_TORCH
    assert traceback.parse(bare) == traceback.parse(IN_TORCH)


@pytest.mark.parametrize(
    ("code", "toward", "beside"),
    [
        ("else: x = torch.empty(4, D); dist.recv(x, R - 1)", -1, True),
        ("dist.isend(y.detach(), dst=self.rank + 1).wait()", 1, True),
        ("self.recv_from(prev_rank, tensor)", -1, False),
        ("dist.recv(x, 0)", None, None),
        ("x = buffer[n - 1]", None, None),
    ],
)
def test_the_code_tells_with_which_neighbour_a_message_is_passed(code, toward, beside):
    text = IN_TORCH.replace("line 70, in reduce_gradients", "line 70, in step")
    head = text[: text.index("line 70")]
    lines = text[len(head) :].splitlines()
    lines[1] = f"    {code}"
    row = only(head + "\n".join(lines) + "\n")
    assert (row["toward"], row["beside"]) == (toward, beside)


@pytest.mark.parametrize("last", ["Exception: no more", "RuntimeError: no more"])
def test_frames_that_lost_their_indentation_end_at_the_exception(last):
    lines = ('File "/job/train.py", line 8, in step', "raise it", last, "step : 0")
    row = only("\n".join((traceback.HEAD + ":", *lines)))
    assert (row["exception"], row["message"]) == (last.partition(":")[0], "no more")
    assert row["file_line"] == 8


def test_a_task_of_ray_names_the_exception_whose_line_is_cut_off():
    head = "ray.exceptions.RayTaskError(ValueError): ray::Worker.step() (pid=7, ip=10.0.0.2)"
    frames = '  File "/job/train.py", line 8, in step\n    return self.go('
    row = only(f"{head}\n{frames}")
    assert (row["exception"], row["message"]) == ("ValueError", None)
