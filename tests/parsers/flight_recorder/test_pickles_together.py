"""Small pickles are loaded in one child together, and each alone only if that one dies."""

import os
import pickle

import pytest

from ncclforensics.parsers import limits
from ncclforensics.parsers.flight_recorder import dump_reader, unpickler
from ncclforensics.sources import Source

# as a key, a tuple that holds the next one twice, sixty deep: hashing it never ends
NESTED = b"".join(b"q%c0h%ch%c\x86" % (n, n, n) for n in range(60))
DEADLY = b"\x80\x02})" + NESTED + b"K\x01s."


@pytest.fixture
def children(monkeypatch):
    """Count the children that are forked."""
    forked = []
    fork = os.fork

    def counted():
        forked.append(1)
        return fork()

    monkeypatch.setattr(os, "fork", counted)
    return forked


def dump(seq):
    return pickle.dumps({"version": "2.10", "entries": [{"collective_seq_id": seq}]})


@pytest.fixture
def read(tmp_path):
    def of(*pickles):
        sources = []
        for rank, data in enumerate(pickles):
            path = tmp_path / f"rank_{rank}"
            path.write_bytes(data)
            known = {"kind": "flight_recorder_pickle", "why": "", "rank": rank}
            sources.append(Source(path.name, path, bytes=len(data), **known))
        return dump_reader.read_all(sources)["sources"]

    return of


def test_several_need_one_child(read, children):
    assert (read(*map(dump, range(16)))["rows"] > 0).all()
    assert len(children) == 1


def test_one_that_kills_its_child_costs_the_others_nothing(read, children, monkeypatch):
    monkeypatch.setattr(limits, "LOAD_SECONDS", 1)
    found = read(dump(1), DEADLY, dump(2))
    assert (found["rows"] > 0).to_list() == [True, False, True]
    assert found["cut"].to_list() == [False, True, False]
    assert len(children) == 1 + 3


def test_what_was_not_among_them_has_a_child_of_its_own(children):
    with unpickler.tried([dump(1), dump(2)]):
        unpickler.load(dump(1))
        assert len(children) == 1
        unpickler.load(dump(3))
        assert len(children) == 2
    unpickler.load(dump(1))
    assert len(children) == 3
