"""py-spy's dump of a process: the frames of its main thread, innermost first."""

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


def test_the_frames_of_the_main_thread_are_read_innermost_first():
    rows = pyspy.parse(DUMP)
    assert [(r["depth"], r["function"], r["file"], r["file_line"]) for r in rows] == [
        (0, "poll", "libc.so.6", None),
        (1, "save_checkpoint", "train.py", 77),
        (2, "main.<locals>.run", "train.py", 110),
    ]
    assert {row["thread_state"] for row in rows} == {"idle"}


def test_a_second_process_in_the_same_file_is_not_the_firsts():
    other = DUMP.replace("41011", "41012").replace("save_checkpoint", "load")
    functions = [row["function"] for row in pyspy.parse(DUMP + other)]
    assert functions == ["poll", "save_checkpoint", "main.<locals>.run"]


def test_equal_stacks_have_one_number_and_others_another():
    other = DUMP.replace("save_checkpoint", "load")
    assert pyspy.parse(DUMP)[0]["stack"] == pyspy.parse(DUMP)[1]["stack"]
    assert pyspy.parse(DUMP)[0]["stack"] != pyspy.parse(other)[0]["stack"]


def test_a_dump_without_its_main_thread_has_no_frames():
    workers = DUMP.replace("MainThread", "Dummy-3")
    assert pyspy.parse(workers) == []
    assert pyspy.parse(DUMP.splitlines()[0]) == []
