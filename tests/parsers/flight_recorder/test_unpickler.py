import os
import pickle
from pathlib import Path

import pytest

from ncclforensics.parsers.flight_recorder.memory import ceiling
from ncclforensics.parsers.flight_recorder.unpickler import load

ENTRY = {"record_id": 0, "profiling_name": "nccl:all_reduce"}


class Runs:
    """Would run a command if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_plain_values_come_back_as_pickle_itself_reads_them():
    value = {
        "version": "2.10",
        "entries": [ENTRY, {"t": (1, 2.5, None, True, -(2**70))}],
    }
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(value, protocol)
        loaded = load(data)
        assert (loaded.value, loaded.end, loaded.problem) == (value, len(data), None)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_class_is_refused_by_name_and_nothing_runs(tmp_path, protocol):
    flag = tmp_path / "ran"
    loaded = load(pickle.dumps({"entries": [ENTRY, Runs(flag)]}, protocol))
    assert loaded.problem == f"refused class {os.system.__module__}.system"
    assert not flag.exists()


@pytest.mark.parametrize(
    "refused",
    [
        b"\x80\x02(cos\nsystem\nX\x02\0\0\0id\x85R.",
        b"\x80\x02(X\x02\0\0\0idios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02X\x01\0\0\0xQ.",
        b"\x80\x02Px\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02}}b.",
        b"\x80\x02X\x01\0\0\0x)R.",
    ],
)
def test_every_way_to_something_that_is_no_plain_data_is_refused(refused):
    problem = load(refused).problem
    assert problem is not None
    assert problem.startswith("refused ")


def test_what_was_whole_before_a_refused_class_is_kept(tmp_path):
    value = {
        "version": "2.9",
        "entries": [ENTRY, ENTRY | {"x": 1}, Runs(tmp_path / "r")],
    }
    loaded = load(pickle.dumps(value, 2))
    assert loaded.value == {"version": "2.9", "entries": value["entries"][:2]}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.usefixtures("trusted")
def test_a_cut_anywhere_keeps_the_entries_before_it(protocol, bare):
    entries = [{"record_id": n, "sizes": [[n, 2]], "name": f"n{n}"} for n in range(5)]
    config = {"0": {"ranks": "[0]"}, "1": {"ranks": "[1]"}}
    value = entries if bare else {"pg_config": config, "entries": entries, "last": 1}
    data = pickle.dumps(value, protocol)
    counts = []
    for end in range(len(data)):
        loaded = load(data[:end])
        assert loaded.problem == "cut"
        assert loaded.end == end
        found = loaded.value if bare else (loaded.value or {}).get("entries", [])
        found = found or []
        assert found == entries[: len(found)]
        counts.append(len(found))
    assert counts == sorted(counts)
    assert set(counts) == set(range(6))


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x02}r\xff\xff\xff\x0f(X\x07\0\0\0entries]u.",  # a memo of 268 million
        b"\x80\x02}p999999999\n.",
        b"\x80\x02" + b"]" * 500_000 + b"a" * 499_999 + b".",
        b"\x80\x02" + b")\x85" + b"\x85" * 500_000 + b".",
        b"\x80\x02" + b"(" * 500_000,
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f",
        b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f",
        b"\x80\x02\x8b\xff\xff\xff\x7f\x01",
    ],
    ids=range(8),
)
def test_bombs_are_bounded(bomb):
    with ceiling(2 * 1024**3):  # beyond it the test fails with MemoryError
        loaded = load(bomb)
    assert loaded.end <= len(bomb)


def test_the_ceiling_is_taken_away_again():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), ceiling(1024**2):
        bytearray(1024**3)  # more than what is free of what was used before
    assert resource.getrlimit(resource.RLIMIT_AS) == before
