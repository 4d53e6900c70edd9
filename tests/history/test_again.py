"""The lines that a report gets: about other incidents, and never about the code's."""

import pytest

from kept_incidents import incident
from ncclforensics.history import again, door, packing, store


def lines(root, told):
    return again.lines(store.load(root), told, lambda host: door.names(host, root))


def test_the_third_fault_of_a_node_and_the_same_failure_before(make):
    before = [
        incident(0, same="00000000000000bb", job="88121", image="24.07"),
        incident(20, hosts=("gpu0002", "gpu0001"), ticket="https://x.example/OPS-41"),
        incident(25, hosts=("gpu0003",), job="88122", image="24.08"),
        incident(28),
    ]
    root = make(*before)
    found = (
        "third GPU fault of gpu0001 in 30 days",
        "the same failure 4 times since 2026-01-21",
        "earlier ticket: https://x.example/OPS-41",
    )
    assert lines(root, incident(31)) == found
    # what is in the store already is no earlier one
    assert lines(root, incident(28)) == (
        found[0],
        *(line.replace("4", "3", 1) if "same" in line else line for line in found[1:]),
    )
    packing.pack(root, at_least=1)
    assert lines(root, incident(31)) == found


def test_where_the_same_failure_was_first(make):
    root = make(incident(0, job="88121", image="24.07", hosts=("gpu0009",)))
    assert lines(root, incident(3)) == (
        "the same failure 2 times since 2026-01-01, first in job 88121 with 24.07",
    )


@pytest.mark.parametrize(
    "told",
    [
        {"t": incident(90).t},  # long ago
        {"slug": "gpu-oom", "domain": "user-code"},  # the code's
        {"hosts": ()},  # accuses nobody
        {"hosts": ("gpu0005",)},
    ],
)
def test_nothing_is_said_against_a_node(make, told):
    same = {"same": "00000000000000cc"}
    kept = {k: v for k, v in told.items() if k in ("slug", "domain")}
    root = make(incident(0, **kept))
    assert lines(root, incident(1, **same, **told)) == ()


def test_no_failure_has_no_lines(make):
    well = incident(1, slug=None, outcome="no-failure", same="")
    assert lines(make(incident(0)), well) == ()


@pytest.mark.parametrize(
    ("number", "word"),
    [(1, "first"), (3, "third"), (11, "11th"), (12, "12th"), (21, "21st"), (33, "33rd"),
     (112, "112th")],
)  # fmt: skip
def test_ordinals(number, word):
    assert again.ordinal(number) == word


def test_classes_read_as_words():
    assert again.words("gpu-fault") == "GPU fault"
    assert again.words("node-lost") == "loss"


def test_at_the_door_names_go_and_the_same_host_stays_the_same(make):
    told = [
        incident(n, user="alice", path="/home/alice/logs", headline="Xid 79 on gpu0001",
                 restart="after draining gpu0001")
        for n in (0, 2)
    ]  # fmt: skip
    root = make()
    for one in told:
        store.keep(root, door.redacted(one, frozenset(("hosts", "users")), root))
    text = b"".join(f.read_bytes() for f in root.rglob("*.json"))
    assert not any(name in text for name in (b"gpu0001", b"gpu0004", b"alice"))
    (host,) = store.load(root).rows("hosts").explode("hosts")["hosts"].unique()
    assert door.names("gpu0001", root) == ("gpu0001", host)
    assert lines(root, incident(4))[0] == "third GPU fault of gpu0001 in 30 days"
    assert door.redacted(told[0], frozenset(), root) == told[0]
