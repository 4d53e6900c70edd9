"""The search of all files on screen: what is listed, where it leads, how it ends."""

import shutil
import threading

import pytest
from screen import text, until

from ncclforensics.tui import raw_search
from ncclforensics.tui.raw_search import Hit, Progress
from ncclforensics.tui.results import Found
from ncclforensics.tui.viewer import Viewer

pytestmark = pytest.mark.asyncio


@pytest.fixture
def chain(jobs, tmp_path):
    folder = shutil.copytree(jobs / "torch-chain" / "evidence", tmp_path / "chain")
    other = folder / "other.txt"
    other.write_text("what\nno grammar [/b] knows: zebra\n")
    shutil.copystat(folder, other)
    return folder


async def search(pilot, word):
    await pilot.press("slash", *word, "enter")
    await until(pilot, lambda app: isinstance(app.screen, Found) and app.screen.is_over)
    await pilot.pause(0.1)
    return pilot.app.screen


async def test_a_line_that_no_grammar_knows_is_found_and_opened(opened, chain):
    async with opened(chain) as (app, pilot):
        await search(pilot, "ZEBRA")
        (row,) = [line for line in text(app) if "zebra" in line]
        assert row.strip() == "other.txt:2 no grammar [/b] knows: zebra"
        await pilot.press("enter")
        await until(pilot, lambda app: isinstance(app.screen, Viewer))
        await until(pilot, lambda app: app.screen.view.line == 2)
        await pilot.press("escape")
        assert isinstance(app.screen, Found)
        await pilot.press("escape")
        assert app.chart.has_focus


async def test_n_goes_on_to_the_next_file(opened, chain):
    async with opened(chain) as (app, pilot):
        await search(pilot, "timed out")
        await pilot.press("down", "enter")
        await until(pilot, lambda app: isinstance(app.screen, Viewer))
        seen = []
        for key in ("n", "n", "N"):
            await until(pilot, lambda app: app.screen.view.file is not None)
            await pilot.press(key)
            seen.append(app.screen.opened.source.name[-12:])
        assert seen == ["2/stderr.log", "3/stderr.log", "2/stderr.log"]
        await pilot.press("escape", "escape", "n")
        await until(pilot, lambda app: isinstance(app.screen, Viewer))
        assert app.screen.opened.source.name.endswith("3/stderr.log")


async def test_the_places_in_the_timeline_are_offered_first(opened, chain):
    async with opened(chain) as (app, pilot):
        screen = await search(pilot, "gpu0001")
        assert screen.places == 4
        await pilot.press("enter", "n")
        await pilot.pause(0.1)
        assert app.chart.has_focus
        assert app.timeline.ranks[app.here()[0]] == 1


async def test_what_is_nowhere_is_said(opened, chain):
    async with opened(chain) as (app, pilot):
        await search(pilot, "giraffe")
        assert any("0 lines in 10 files" in line for line in text(app))


async def test_escape_stops_a_search_and_keeps_what_it_found(
    opened, chain, monkeypatch
):
    held = threading.Event()

    def slow(word, sources):
        yield Progress([Hit("other.txt", 2, "zebra")], 1)
        held.wait(10)
        yield Progress([Hit("other.txt", 3, "late zebra")], 2)

    async with opened(chain) as (app, pilot):
        monkeypatch.setattr(raw_search, "find", slow)
        await pilot.press("slash", *"zebra", "enter")
        await until(pilot, lambda app: isinstance(app.screen, Found))
        await until(pilot, lambda app: app.screen.results.hits)
        screen = app.screen
        assert any("1 of 10 files read" in line for line in text(app))
        await pilot.press("escape")
        assert app.screen is screen
        held.set()
        await pilot.pause(0.3)
        assert [hit.line for hit in screen.results.hits] == [2]
        assert any("stopped after 1 of 10 files" in line for line in text(app))
        await pilot.press("escape")
        assert app.chart.has_focus


async def test_c_copies_the_list_as_grep_prints_it(opened, chain):
    async with opened(chain) as (app, pilot):
        await search(pilot, "zebra")
        await pilot.press("c")
        assert app.clipboard == "other.txt:2:no grammar [/b] knows: zebra\n"


async def test_what_is_typed_is_no_markup(opened, exported):
    async with opened(exported(ranks=16, calls=20)) as (app, pilot):
        await pilot.press("slash", *"[/none]", "enter")
        await pilot.pause(0.3)
        assert any("[/none]: not found" in str(n.message) for n in app._notifications)
        assert not any(n.markup for n in app._notifications)
