"""A bad host is marked, a busy one and the one with rank 0 are not."""

import pytest

from kept_incidents import DAY, START, incident
from ncclforensics.history import accounting, columns, incidents, store
from ncclforensics.history.counts import counts
from ncclforensics.model.errors import UsageError
from ncclforensics.model.span import ALWAYS, Span

EIGHT = tuple(f"gpu{n:04}" for n in range(1, 9))


def faults(*hosts, **told):
    """A fault of each host in turn, in jobs of eight hosts, days apart."""
    given = {"nodes": EIGHT, **told}
    return [incident(2 * n, hosts=(h,), **given) for n, h in enumerate(hosts)]


def out(root, by="host", span=ALWAYS, given=None):
    table = counts(store.load(root), by, span, given)
    return [row.name for row in table.rows if row.standing and row.standing.stands_out]


def test_a_host_with_most_faults_of_its_jobs_stands_out(make):
    root = make(*faults(*["gpu0003"] * 9, *EIGHT))
    table = counts(store.load(root), "host", ALWAYS)
    assert out(root) == ["gpu0003"]
    first = table.rows[0]
    assert (first.incidents, first.events, first.classes) == (10, 10, {"gpu-fault": 10})
    assert first.standing.expected == pytest.approx(17 / 8, rel=0.01)
    assert (table.compared, table.measure, table.names) == (8, "hosts of the jobs", 8)


@pytest.mark.parametrize(
    "told",
    [
        {"domain": "unknown", "slug": "missing-rank"},  # may be the code's
        {"domain": "user-code", "slug": "gpu-oom"},
        {"nodes": ("gpu0003",)},  # nobody else could have been named
    ],
)
def test_its_look_alike_does_not(make, told):
    assert out(make(*faults(*["gpu0003"] * 9, **told), *faults())) == []


def test_a_job_that_restarts_into_the_same_fault_is_one_event(make):
    again = [
        incident(0, hosts=("gpu0003",), nodes=EIGHT, id=f"{n:016x}", evidence=f"{n:016x}",
                 t=START + n * DAY // 2, kept=START + n)
        for n in range(1, 10)
    ]  # fmt: skip
    root = make(*again)
    row = counts(store.load(root), "host", ALWAYS).rows[0]
    assert (row.incidents, row.events) == (9, 1)
    assert out(root) == []


def test_a_host_that_is_in_every_job_is_held_against_that(make):
    alone = [
        incident(2 * n, hosts=("gpu0001",), nodes=("gpu0001", f"gpu{n:04}"))
        for n in range(2, 8)
    ]
    assert out(make(*alone)) == []


def test_hours_from_accounting_take_the_place(make, tmp_path):
    root = make(*faults(*["gpu0003"] * 9, *EIGHT))
    file = tmp_path / "hours.csv"
    file.write_text(
        "node,hours\ngpu0003,5000\ngpu0003,400\n"
        + "".join(f"{h},100\n" for h in EIGHT if h != "gpu0003")
    )
    given = accounting.node_hours(file)
    assert given["gpu0003"] == 5400
    assert out(root, given=given) == []
    row = counts(store.load(root), "host", ALWAYS, given).rows[0]
    assert (row.hours, row.per_1000_hours) == (5400, 1.852)
    file.write_text("gpu0001,12\ngpu0002;12\n")
    with pytest.raises(UsageError, match=r"hours\.csv:2"):
        accounting.node_hours(file)


def test_a_gpu_among_all_gpus_of_all_hosts(make):
    told = {"devices": ("3",), "world_size": 64}
    root = make(*faults(*["gpu0003"] * 6, **told), *faults())
    assert out(root, "gpu") == ["gpu0003 GPU 3"]
    assert counts(store.load(root), "gpu", ALWAYS).compared == 64
    both = incident(90, hosts=("gpu0001", "gpu0002"), devices=("1",), nodes=EIGHT)
    root = make(both)  # of two hosts nothing says whose the GPU is
    assert counts(store.load(root), "gpu", ALWAYS).names == 1


def test_an_image_with_failing_jobs_among_others_that_ran_well(make):
    good = [
        incident(
            n, outcome="no-failure", slug=None, domain=None, job=f"a{n}", image="24.06"
        )
        for n in range(60)
    ]
    bad = [incident(100 + n, job=f"b{n}", image="24.07") for n in range(9)]
    again = [incident(200 + n, job="b0", image="24.07") for n in range(30)]
    root = make(*good, *bad, *again, incident(300, job="c", image="24.06"))
    table = counts(store.load(root), "image", ALWAYS)
    assert out(root, "image") == ["24.07"]
    assert (table.rows[0].incidents, table.rows[0].events) == (39, 9)
    # where only failures were kept, no image stands out
    assert out(make(), "image", Span(START + 100 * DAY)) == []


def test_a_span_cuts_incidents_and_what_they_are_held_against(make):
    root = make(*faults(*["gpu0003"] * 9, *EIGHT))
    table = counts(store.load(root), "host", Span(START + 18 * DAY))
    assert table.incidents == 8
    assert out(root, span=Span(START + 18 * DAY)) == []


def test_what_came_after_on_the_node(make):
    hour = 3_600 * 10**9
    fault = incident(0, job="7")
    away = incident(1, job="7", began=fault.t + hour, nodes=("gpu0009",), hosts=())
    other = incident(2, job="8", hosts=("gpu0001", "gpu0002"))
    well = incident(3, job="8", began=other.t + hour, outcome="no-failure", slug=None)
    found = incidents.of_node(
        store.load(make(fault, away, other, well)), ["gpu0001"], ALWAYS, 10
    )
    told = {seen.job: seen.restarted for seen in found.shown}
    assert told == {
        "7": "without it 1 h later, failed again",
        "8": "on it 1 h later, ran well",
    }


def test_the_newest_come_first_and_those_without_a_time_last(make):
    root = make(*(incident(n) for n in (4, 1, 7)), incident(9, t=None))
    told = incidents.newest(store.load(root), ALWAYS, 3)
    assert [s.t[:10] if s.t else None for s in told.shown] == [
        "2026-01-08", "2026-01-05", "2026-01-02",
    ]  # fmt: skip
    assert (told.analyses, told.incidents) == (4, 4)


def test_hours_of_a_host_are_those_of_its_jobs():
    rows = columns.frame([incident(0), incident(1, world_size=16, nodes=("gpu0001",))])
    table = columns.hours(rows)
    mine = table.filter(table["host"] == "gpu0001").row(0, named=True)
    assert (mine["analyses"], mine["hours"], mine["gpus"]) == (2, pytest.approx(2), 16)
    assert mine["share"] == pytest.approx(1 + 1 / 4)
