"""Each class is asked by itself: a fault in one check loses no other."""

from dataclasses import replace

from known_jobs import known
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.verdict import statements


def broken(_frames):
    yield from ()
    raise IndexError("index 14 is out of bounds")


def test_a_fault_in_one_check_is_told_and_loses_no_other(monkeypatch):
    oom = statements.CLASSES["gpu-oom"]
    oom = replace(oom, diagnose=broken, needs=("events",))
    monkeypatch.setattr(statements, "CLASSES", {**statements.CLASSES, "gpu-oom": oom})
    told = list(statements.statements(known("torch-crashed-rank").frames))
    assert "crashed-rank" in {s.slug for s in told if isinstance(s, Finding)}
    failed = [s for s in told if isinstance(s, NotChecked) and s.is_fault]
    assert [s.slug for s in failed] == ["gpu-oom"]
    assert "index 14 is out of bounds" in failed[0].missing
