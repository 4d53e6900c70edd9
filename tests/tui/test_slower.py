"""The heat map of who is slower than its peers, folded by host where ranks are many."""

import random

import pytest
from screen import text

import slowness
from ncclforensics.tui.dialogs import Page

pytestmark = pytest.mark.asyncio


@pytest.fixture
def slow(tmp_path):
    """Write the dumps of a job of 32 ranks on four hosts, of which one rank is slow."""
    job = slowness.Job(random.Random(1), "slow 30 %")
    given = {"world": 32, "per_host": 8, "step": 1.0, "steps": 60, "calls": 1}
    given |= {"sigma": 0.01, "spikes": 0.0, "tensor": 1, "timed": True, "often": 1.0}
    given |= {"offset": [0.0] * 4, "drift": [0.0] * 4, "bias": [0.0] * 32, "slow": {9}}
    for name, value in given.items():
        setattr(job, name, value)
    played = slowness.Recorder(job, job.share)
    played.play()
    played.write(tmp_path / "dumps")
    return tmp_path / "dumps"


async def test_the_host_of_the_slow_rank_is_the_hottest_row(opened, slow):
    async with opened(slow, size=(120, 40)) as (app, pilot):
        assert "H shows who is slower" in "\n".join(text(app))
        await pilot.press("H")
        assert isinstance(app.screen, Page)
        rows = {w[0]: w[1] for w in map(str.split, plain(app)) if w[0][:3] == "gpu"}
        assert sorted(rows) == [f"gpu000{n}" for n in (1, 2, 3, 4)]
        assert set(rows["gpu0002"]) <= set("=#@")
        assert all(set(rows[host]) <= set(".-") for host in rows if host != "gpu0002")
        assert "at work 2 % of the time longer" in "\n".join(text(app))


async def test_where_nobody_is_slow_it_says_so(opened, jobs):
    async with opened(jobs / "torch-chain" / "evidence") as (app, pilot):
        assert "H shows who is slower" not in "\n".join(text(app))
        await pilot.press("H")
        assert not isinstance(app.screen, Page)


def plain(app):
    """Return the lines of the page."""
    return [line for _, line in app.screen.lines if line.strip()]
