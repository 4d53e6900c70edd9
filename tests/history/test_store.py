"""What was acknowledged is there, once; readers see whole incidents, whoever dies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import polars as pl
import pytest

from kept_incidents import DAY, START, incident
from ncclforensics.history import files, manifest, packing, store
from ncclforensics.history.counts import counts
from ncclforensics.model.errors import UsageError
from ncclforensics.model.span import ALWAYS


def ids(root):
    return sorted(store.load(root).rows("id")["id"])


def analyses(root):
    return store.load(root).hours().group_by("host").agg(pl.sum("analyses"))["analyses"]


def test_what_was_kept_is_there_before_and_after_packing(make):
    root = make(*(incident(n) for n in range(5)))
    assert ids(root) == [1, 2, 3, 4, 5]
    assert packing.pack(root, at_least=6) == 0
    assert packing.pack(root, at_least=5) == 5
    # the files stay for readers that listed them before
    assert len(files.names(root / "new", ".json")) == 5
    assert ids(root) == [1, 2, 3, 4, 5]
    assert packing.pack(root, at_least=5) == 0
    packing.pack(root, at_least=5, grace=-1)
    assert files.names(root / "new", ".json") == []
    assert ids(root) == [1, 2, 3, 4, 5]
    assert analyses(root).to_list() == [5] * 4


@pytest.mark.parametrize("packs", [False, True])
def test_a_later_word_replaces_and_keeps_the_ticket(make, packs):
    def step(*told):
        root = make(*told)
        if packs:
            packing.pack(root, at_least=1)
        return root

    step(incident(0, ticket="OPS-1"))
    step(incident(0, kept=START + DAY, slug="host-fault"))
    # other files of the same stop, and the same files with another answer
    step(incident(0, kept=START + 2 * DAY, evidence="00000000000000ff", headline="new"))
    root = step(
        incident(0, kept=START + 3 * DAY, id="00000000000000ee", headline="last")
    )
    (row,) = store.load(root).rows("headline", "ticket").rows()
    assert row == ("last", "OPS-1")
    assert analyses(root).to_list() == [1] * 4


def test_an_older_word_that_comes_late_changes_nothing(make):
    root = make(incident(0, kept=START + DAY, headline="newer"))
    packing.pack(root, at_least=1)
    make(incident(0, kept=START, headline="older"))
    assert store.load(root).rows("headline")["headline"].to_list() == ["newer"]


def test_the_same_twice_is_one_file(make):
    root = make(incident(3), incident(3, kept=START))
    assert len(files.names(root / "new", ".json")) == 1


def test_many_small_parts_become_few_and_nothing_changes(make):
    for n in range(30):
        root = make(incident(n))
        packing.pack(root, at_least=1, grace=-1)
    assert len(manifest.newest(root)[1].parts) <= 9
    assert ids(root) == [n + 1 for n in range(30)]
    assert analyses(root).to_list() == [30] * 4


def as_text(frame):
    """Columns as a release wrote them that had texts for names, and fewer columns."""
    text = {"Categorical": pl.String(), "List(Categorical)": pl.List(pl.String())}
    told = [pl.col(n).cast(text.get(str(of), of)) for n, of in frame.schema.items()]
    assert pl.Categorical not in frame.select(told).dtypes
    return frame.select(told).drop("version", strict=False)


def test_parts_of_another_format_are_read_counted_and_merged(make, monkeypatch):
    write, older = packing.write, []

    def either(root, rows, hours):
        older.append(len(older) % 2 == 0)
        return write(root, *map(as_text, (rows, hours)) if older[-1] else (rows, hours))

    monkeypatch.setattr(packing, "write", either)
    for n in range(30):
        root = make(incident(n), incident(n, kept=START + 40 * DAY, slug="ib-error"))
        packing.pack(root, at_least=1, grace=-1)
    assert set(older) == {True, False}
    assert ids(root) == [n + 1 for n in range(30)]
    assert analyses(root).to_list() == [30] * 4
    (row,) = counts(store.load(root), "class", ALWAYS).rows
    assert (row.name, row.incidents) == ("ib-error", 30)
    assert counts(store.load(root), "host", ALWAYS).rows[0].events == 30


def test_of_two_that_pack_at_once_one_wins(make):
    root = make(incident(0), incident(1))
    number, now = manifest.newest(root)
    assert manifest.commit(root, number + 1, now)
    assert not manifest.commit(root, number + 1, now)
    assert ids(root) == [1, 2]


def test_drafts_and_damaged_files_are_left_out_and_told(make):
    root = make(incident(0), incident(1))
    (root / "new" / f"{files.DRAFT}1-x").write_bytes(b'{"id": "00')
    (root / "new" / "00000000000000ff.json").write_bytes(b'{"id": "00')
    found = store.load(root)
    assert found.rows("id").height == 2
    assert found.unread == ("00000000000000ff.json",)


def test_a_part_that_lost_its_end_is_told_and_the_rest_is_read(make):
    root = make(incident(0))
    packing.pack(root, at_least=1)
    make(incident(1))
    packing.pack(root, at_least=1)
    part = manifest.newest(root)[1].parts[1]
    data = (root / "parts" / part.name).read_bytes()
    (root / "parts" / part.name).write_bytes(data[:-9])
    (root / "new" / f"{incident(1).row}.json").unlink()
    found = store.load(root)
    assert found.unread == (part.name,)
    assert found.rows("id")["id"].to_list() == [1]


def test_pruning_removes_the_old_and_says_how_much(make):
    root = make(*(incident(n) for n in range(0, 40, 4)))
    assert packing.prune(root, START + 20 * DAY) == 5
    assert ids(root) == [21, 25, 29, 33, 37]
    text = b"".join(f.read_bytes() for f in root.rglob("*.json"))
    assert b"0000000000000001" not in text
    assert len([*(root / "parts").iterdir()]) == 2
    assert packing.prune(root, START + 20 * DAY) == 0


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="no store"):
        store.keep(tmp_path, incident(0))
    with pytest.raises(UsageError, match="no saved report"):
        store.load(tmp_path)


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kept_incidents import incident
from ncclforensics.history import packing, store
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3]), 10_000, 4):
    store.keep(Path(sys.argv[2]), incident(number))
    print(number, flush=True)
    packing.pack(Path(sys.argv[2]), at_least=12, grace=0.5)
"""


def test_writers_that_are_killed_lose_and_double_nothing(make):
    root = make(incident(10_000))
    tests = str(Path(__file__).parents[1])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tests, str(root), str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in range(3)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    end = time.monotonic() + 1
    while time.monotonic() < end or manifest.newest(root)[0] < 3:
        found = store.load(root)
        assert found.unread == ()
        seen = found.rows("id", "headline")
        assert seen["headline"].null_count() == 0
        assert seen["id"].is_unique().all()
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
    told = {int(line) for w in writers for line in w.communicate()[0].split("\n")[:-1]}
    there = [n - 1 for n in ids(root)]
    assert told | {10_000} <= {*there}
    assert len(there) == len({*there}) <= len(told) + 1 + len(writers)
    assert analyses(root).to_list() == [len(there)] * 4


def test_a_record_of_a_later_release_can_be_read(make):
    root = make(incident(0))
    (file,) = (root / "new").glob("*.json")
    told = msgspec.json.decode(file.read_bytes()) | {"invented_later": 1}
    file.write_bytes(msgspec.json.encode(told))
    assert ids(root) == [1]
