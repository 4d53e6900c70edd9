"""d lays another attempt of the same evidence beside the one that is shown."""

from dataclasses import replace

import pytest
from screen import text, until

from ncclforensics.cli.compare import attempts
from ncclforensics.tui.dialogs import Page

pytestmark = pytest.mark.asyncio


async def test_d_tells_what_differs_from_the_attempt_before(opened, jobs):
    folder = jobs / "torch-elastic-restart" / "evidence"
    async with opened(folder, size=(120, 40)) as (app, pilot):
        app.request = replace(app.request, compare=attempts)
        await pilot.press("d")
        await until(pilot, lambda app: isinstance(app.screen, Page))
        await pilot.pause(0.1)
        lines = text(app)
        assert any("A  attempt 0" in line for line in lines)
        assert any("B  this one" in line for line in lines)
        assert any(
            "exit code" in line and "-15 (ranks 0,2-3)" in line for line in lines
        )
        await pilot.press("c")
        assert app.clipboard.startswith("A  attempt 0\n   crashed-rank")


async def test_one_run_has_nothing_to_compare_with(opened, jobs):
    async with opened(jobs / "torch-chain" / "evidence") as (app, pilot):
        app.request = replace(app.request, compare=attempts)
        await pilot.press("d")
        assert any("holds one run" in str(n.message) for n in app._notifications)
