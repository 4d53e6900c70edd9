"""`py-spy dump --json`: the same rows as those of its text."""

import json

from ncclforensics.parsers import parse
from ncclforensics.sources import discover

FRAME = {"name": "save", "filename": "/job/train.py", "short_filename": "train.py"}
THREAD = {
    "pid": 41011,
    "thread_id": 1,
    "thread_name": "MainThread",
    "os_thread_id": 41011,
    "active": False,
    "owns_gil": False,
    "frames": [{**FRAME, "line": 9}],
    "process_info": None,
}


def read(tmp_path, text):
    (tmp_path / "rank_3.json").write_text(text)
    (source,) = discover([str(tmp_path / "rank_3.json")], tmp_path).sources
    assert source.kind == "pyspy_json"
    return parse(source)


def test_each_process_of_each_dump_is_a_look(tmp_path):
    dump = json.dumps([THREAD, {**THREAD, "pid": 41012}], indent=2)
    found = read(tmp_path, f"{dump}\n{dump}").message("stacks.pyspy")
    assert found["pid"].to_list() == [41011, 41012] * 2
    assert found["line"].n_unique() == 4
    row = found.row(0, named=True)
    told = ("rank", "function", "file", "file_line", "thread_state", "is_main")
    assert [row[c] for c in told] == [3, "save", "train.py", 9, "idle", True]


def test_a_dump_that_is_cut_off_is_a_note(tmp_path):
    whole = json.dumps([THREAD], indent=2)
    found = read(tmp_path, f"{whole}\n{whole[:-40]}")
    assert found.message("stacks.pyspy").height == 1
    assert "not a dump of py-spy from here on" in found["notes"]["text"][0]


def test_a_huge_number_is_damage(tmp_path):
    found = read(tmp_path, json.dumps([{**THREAD, "pid": 10**30}]))
    assert found["notes"].height == 1
