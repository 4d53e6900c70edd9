"""The structures that tell of a host: call traces, ps, nvidia-smi -q, ip -j."""

import pytest

from ncclforensics.parsers.logs.message_parsers import (
    call_trace,
    process_list,
    smi_query,
)

HUNG = "INFO: task python:41 blocked for more than 120 seconds.\n"


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ((" rpc_wait_bit_killable+0xa/0x70 [sunrpc]",), "NFS"),
        ((" schedule+0x5a/0xd0", " osc_extent_wait+0x5b4/0x7c0 [osc]"), "Lustre"),
        ((" request_wait_answer+0x151/0x210",), "FUSE"),
        (("[<0>] jbd2_log_wait_commit+0xd9/0x140",), "a local disk"),
        ((" os_acquire_rwlock_write+0x35/0x50 [nvidia]",), None),
        ((" ? fuse_direct_io+0x417/0xa50",), None),
        ((), None),
    ],
)
def test_the_innermost_frame_of_a_file_system_counts(frames, told):
    rows = call_trace.parse(HUNG + "Call Trace:\n" + "".join(f"{f}\n" for f in frames))
    assert [row["file_system"] for row in rows] == [told] * bool(told)


def test_a_trace_ends_where_the_next_task_begins():
    other = HUNG + " nfs_wait_on_request+0x1f/0x90 [nfs]\n"
    assert not call_trace.parse(HUNG + other)


def test_ps_tells_who_is_in_state_d_whatever_the_order_of_its_columns():
    text = "S   PID WCHAN    CMD\nD    41 p9_client_rpc python -u a.py\nS    42 -  sh\n"
    [row] = process_list.parse(text)
    assert (row["pid"], row["file_system"], row["name"]) == (41, "9p", "python -u a.py")
    assert row["below"] == 1


def test_ps_tells_who_was_stopped():
    text = "PID STAT WCHAN CMD\n41 Tsl do_signal_stop python\n42 Ssl futex python\n"
    [row] = process_list.parse(text)
    assert (row["pid"], row["state"], row["file_system"]) == (41, "T", None)


@pytest.mark.parametrize("text", ["PID CMD\n41 python\n", "PID STAT WCHAN CMD\n", ""])
def test_ps_without_these_columns_or_rows_tells_nothing(text):
    assert not process_list.parse(text)


SMI = "GPU 00000000:9B:00.0\n    ECC Errors\n        Volatile\n"
COUNT = "            DRAM Uncorrectable            : {}\n"


def test_a_gpu_ends_where_the_next_begins():
    other = "GPU 00000000:BB:00.0\n" + SMI.partition("\n")[2] + COUNT.format(5)
    [row] = smi_query.parse(SMI + COUNT.format(2) + other)
    assert row["uncorrectable"] == 2


@pytest.mark.parametrize("value", ["N/A", "9" * 40, ""])
def test_what_is_no_count_is_not_counted(value):
    assert not smi_query.parse(SMI + COUNT.format(value))


def test_xml_that_ends_early_tells_what_it_had():
    whole = (
        '<gpu id="00000000:9B:00.0">\n<ecc_errors><volatile>\n'
        "<dram_uncorrectable>2</dram_uncorrectable>\n</volatile></ecc_errors></gpu>"
    )
    [row] = smi_query.parse(whole)
    assert smi_query.parse(whole[:110]) == [row]
    assert row["uncorrectable"] == 2
