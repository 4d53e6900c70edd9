"""py-spy's dump of a process: the frames of each thread, innermost first."""

from ncclforensics.parsers.logs.message_parsers import pyspy

DUMP = """Process 41011: /opt/venv/bin/python3 -u train.py --steps 100
Python v3.11.7 (/opt/python3.11/bin/python3.11)

Thread 41011 (idle): "MainThread"
    poll (libc.so.6)
    save_checkpoint (train.py:77)
    main.<locals>.run (train.py:110)
Thread 0x7F21C4 (active+gil): "Thread-1 (_watch)"
    wait (threading.py:324)
"""


def test_the_frames_of_each_thread_are_read_innermost_first():
    rows = pyspy.parse(DUMP)
    assert [
        (r["thread"], r["depth"], r["function"], r["file"], r["file_line"])
        for r in rows
    ] == [
        ("MainThread", 0, "poll", "libc.so.6", None),
        ("MainThread", 1, "save_checkpoint", "train.py", 77),
        ("MainThread", 2, "main.<locals>.run", "train.py", 110),
        ("Thread-1 (_watch)", 0, "wait", "threading.py", 324),
    ]
    states = {(row["thread_state"], row["is_main"]) for row in rows}
    assert states == {("idle", True), ("active+gil", False)}


def test_a_second_process_in_the_same_file_is_not_the_firsts():
    other = DUMP.replace("41011", "41012").replace("save_checkpoint", "load")
    functions = [row["function"] for row in pyspy.parse(DUMP + other)]
    assert functions == ["poll", "save_checkpoint", "main.<locals>.run", "wait"]


def test_equal_stacks_have_one_number_and_others_another():
    other = DUMP.replace("save_checkpoint", "load")
    assert pyspy.parse(DUMP)[0]["stack"] == pyspy.parse(DUMP)[1]["stack"]
    assert pyspy.parse(DUMP)[0]["stack"] != pyspy.parse(other)[0]["stack"]


def test_native_frames_do_not_make_another_stack():
    """A thread that polls its GPU is in another native function at each look."""
    other = DUMP.replace("poll (libc.so.6)", "0x7f21 (libcuda.so)")
    assert pyspy.parse(DUMP)[0]["stack"] == pyspy.parse(other)[0]["stack"]


def test_local_variables_are_no_frames():
    shown = DUMP.replace(
        "train.py:77)\n", "train.py:77)\n        Locals:\n            x: f (a.py:1)\n"
    )
    assert pyspy.parse(shown) == pyspy.parse(DUMP)


def test_a_dump_without_a_stack_has_no_frames():
    assert pyspy.parse(DUMP.splitlines()[0]) == []


def test_arguments_of_torchs_calls_name_the_other_side_of_a_message():
    text = (
        "Process 41011: python train.py\n"
        'Thread 41011 (idle): "MainThread"\n'
        "    recv (torch/distributed/distributed_c10d.py:2799)\n"
        "        Arguments:\n            src: 3\n            group: None\n"
        "    pull (train.py:10)\n        Arguments:\n            src: 7\n"
    )
    assert [row["peer"] for row in pyspy.parse(text)] == [3, None]
