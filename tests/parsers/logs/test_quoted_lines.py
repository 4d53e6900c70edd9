"""What people post of a log: headers taken off, ends of lines, other programs' quotes."""

import polars as pl
import pytest

from ncclforensics.parsers.logs.framing import frame

CLOSED = "Bootstrap : no socket interface found"


def only(line):
    segments = frame(pl.DataFrame({"line": [1], "raw": [line]}))
    assert segments.height == 1, segments
    return segments.row(0, named=True)


@pytest.mark.parametrize(
    ("line", "host", "device"),
    [
        (f"[3] misc/x.cc:72 NCCL WARN {CLOSED}", None, 3),
        (f"gpu0001 [5] misc/x.cc:72 NCCL WARN {CLOSED}", "gpu0001", 5),
        (f"misc/x.cc:72 NCCL WARN {CLOSED}", None, None),
        (f"NCCL WARN {CLOSED}", None, None),
        (f"[Issue]: NCCL WARN {CLOSED}", None, None),
        (f"<gpu>:41:42 [1] misc/x.cc:72 (open) NCCL WARN {CLOSED}", None, 1),
    ],
)
def test_a_header_may_be_taken_off_in_part(line, host, device):
    told = only(line)
    assert (told["header"], told["level"], told["text"]) == ("nccl", "WARN", CLOSED)
    assert (told["host"], told["device"]) == (host, device)


@pytest.mark.parametrize(
    ("line", "level", "host"),
    [
        ("gpu0001:41:42 [1] include/socket.h:361 WARN Call failed", "WARN", "gpu0001"),
        ("gpu0001:41:42 [1] INFO Call failed", "INFO", "gpu0001"),
        ("include/socket.h:344 WARN Call failed", "WARN", None),
    ],
)
def test_nccl_before_2_3_does_not_say_its_name(line, level, host):
    told = only(line)
    assert (told["header"], told["level"], told["host"]) == ("nccl", level, host)
    assert told["text"] == "Call failed"


@pytest.mark.parametrize(
    "line",
    [
        "[0] INFO the loader is ready",
        "INFO the loader is ready",
        "WARN something is slow",
        "we saw no NCCL line at all",
        "export NCCL_DEBUG=INFO before the run",
    ],
)
def test_other_loggers_are_not_nccl(line):
    told = only(line)
    assert told["header"] is None
    assert told["text"] == line
    assert only(f"12:31:45 {line}")["header"] is None


def test_xla_quotes_the_last_warning():
    told = only(
        "INTERNAL: NCCL operation ncclCommInitRank(...) failed: invalid usage. "
        f"Last NCCL warning(error) log entry (may be unrelated) '{CLOSED}'."
    )
    assert (told["header"], told["level"]) == ("nccl", "WARN")
    assert told["text"].startswith(CLOSED)


def test_vllm_s_prefix_is_taken_off():
    line = (
        "(Worker pid=880, ip=10.0.0.2) ERROR 11-20 10:00:44 [worker.py:62] Last error:"
    )
    told = only(line)
    assert (told["text"], told["pid"], told["host"]) == ("Last error:", 880, "10.0.0.2")
    line = "ERROR 11-20 10:00:44 multiproc_worker_utils.py:226] Last error:"
    assert only(line)["text"] == "Last error:"


@pytest.mark.parametrize("name", ["trainer-2", "10.0.0.2", "gpu-node-7"])
def test_pdsh_puts_the_node_before_each_line(name):
    told = only(f"{name}: RuntimeError: Socket Timeout")
    assert (told["host"], told["text"]) == (name, "RuntimeError: Socket Timeout")


def test_the_fabric_manager_writes_to_syslog():
    told = only("Nov 05 13:55:26 gpu0001 nv-fabricmanager[104]: it does not start")
    assert (told["host"], told["text"]) == ("gpu0001", "it does not start")


def test_a_prefix_of_torchrun_may_be_the_user_s_own():
    told = only("[trainer3|11]:gpu0001:41:42 [3] NCCL INFO Using network IB")
    assert (told["local_rank"], told["host"]) == (3, "gpu0001")


def test_cloudwatch_puts_a_bar_on_both_sides_of_its_time():
    told = only("  | 2026-11-20T07:42:14.532Z | gpu0001:41:42 [1] NCCL INFO x")
    assert (told["host"], told["text"]) == ("gpu0001", "x")
