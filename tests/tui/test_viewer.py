"""The screen of a whole log: at which line it opens, and what its keys do."""

import shutil
import tarfile

import pytest
from screen import text, until

from ncclforensics.tui.viewer import Viewer

pytestmark = pytest.mark.asyncio
STDERR = "logs/none_yxq6yc3w/attempt_0/0/stderr.log"


@pytest.fixture
def chain(jobs, tmp_path):
    """A copy of a job that a test may change."""
    return shutil.copytree(jobs / "torch-chain" / "evidence", tmp_path / "chain")


async def press_open(pilot):
    await pilot.press("o")
    await until(pilot, lambda app: isinstance(app.screen, Viewer) and is_read(app))
    return pilot.app.screen


def is_read(app):
    viewer = app.screen
    return viewer.view.file is not None and viewer.view.file.is_whole


def said(app):
    return [str(n.message) for n in app._notifications]


async def test_o_opens_the_log_at_the_line_of_the_cell(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("up", "end", "left", "left")
        await pilot.pause(0.3)
        viewer = await press_open(pilot)
        await pilot.pause(0.2)
        assert (viewer.opened.source.name, viewer.view.line) == (STDERR, 17)
        lines = text(app)
        assert any("stderr.log" in line for line in lines[:1])
        assert any(line.startswith("  17") and "RuntimeError" in line for line in lines)
        assert any("Timed out waiting 7000ms" in line for line in lines)
        await pilot.press("escape")
        assert app.chart.has_focus


async def test_o_on_a_call_that_was_never_made_opens_the_end_of_that_ranks_log(
    opened, chain
):
    async with opened(chain) as (_app, pilot):
        viewer = await press_open(pilot)
        await pilot.pause(0.2)
        assert viewer.opened.source.name.endswith("attempt_0/1/stdout.log")
        assert viewer.view.text(viewer.view.line).endswith("checkpoint to /job/ckpt")


async def test_o_in_the_list_opens_the_line_that_an_entry_cites(opened, jobs):
    folder = jobs / "torch-crashed-rank" / "evidence"
    async with opened(folder) as (app, pilot):
        app.listed.focus()
        await pilot.press("down", "down")  # past the last line of the rank
        viewer = await press_open(pilot)
        await pilot.pause(0.2)
        assert "loss is nan" in viewer.view.text(viewer.view.line)


async def test_a_file_in_an_archive_is_opened(opened, chain, tmp_path):
    packed = tmp_path / "chain.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(chain, "chain")
    async with opened(packed) as (_, pilot):
        viewer = await press_open(pilot)
        assert viewer.opened.source.name.startswith("chain.tar.gz!chain/logs/")
        assert viewer.view.file.count == 5


async def test_a_file_that_is_gone_is_not_opened(opened, chain):
    async with opened(chain) as (app, pilot):
        shutil.rmtree(chain / "logs")
        await pilot.press("o")
        await pilot.pause(0.2)
        assert not isinstance(app.screen, Viewer)
        assert any("stdout.log is gone" in message for message in said(app))


async def test_a_file_that_changed_says_so(opened, chain):
    async with opened(chain) as (app, pilot):
        (log,) = chain.glob("logs/*/attempt_0/1/stdout.log")
        with log.open("a") as out:
            out.write("one more line\n")
        await press_open(pilot)
        assert any("longer than when it was read" in line for line in text(app))


async def test_what_a_log_holds_is_neither_markup_nor_an_escape(opened, chain):
    (log,) = chain.glob("logs/*/attempt_0/1/stdout.log")
    log.write_bytes(
        log.read_bytes() + b"[bold red]x[/] [/none] \x1b[2J\x1b]52;c;eA==\x07\n"
    )
    async with opened(chain) as (app, pilot):
        await press_open(pilot)
        await pilot.press("G")
        await pilot.pause(0.2)
        assert any(line.endswith("[bold red]x[/] [/none]") for line in text(app))
        assert all("\x1b" not in line for line in text(app))


async def test_slash_and_n_go_through_the_lines_of_the_file(opened, chain):
    async with opened(chain) as (app, pilot):
        viewer = await press_open(pilot)
        await pilot.press("g", "slash", *"step", "enter")
        await until(pilot, lambda _: viewer.opened.found)
        lines = [viewer.view.line]
        for key in ("n", "n", "N"):
            await pilot.press(key)
            await pilot.pause(0.1)
            lines.append(viewer.view.line)
        assert lines == [3, 4, 3, 4]
        assert any("found 2 of 2" in line for line in text(app))


async def test_a_number_goes_to_a_line_and_c_copies_from_there(opened, chain):
    async with opened(chain) as (app, pilot):
        await press_open(pilot)
        await pilot.press("colon", "4", "enter")
        await pilot.pause(0.3)
        await pilot.press("c")
        head, *lines = app.clipboard.splitlines()
        assert head.endswith("attempt_0/1/stdout.log:4")
        assert [line.split(",")[1][4:] for line in lines] == [
            "step 2 loss 0.8333",
            "saving checkpoint to /job/ckpt",
        ]


async def test_no_program_runs_unless_pager_names_one(opened, chain, monkeypatch):
    from ncclforensics.tui import viewer as module

    monkeypatch.delenv("PAGER", raising=False)
    run = []
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **_: run.append(a[0]))
    async with opened(chain) as (app, pilot):
        viewer = await press_open(pilot)
        await pilot.press("e")
        assert any("PAGER is not set" in message for message in said(app))
        monkeypatch.setenv("PAGER", "less -S")
        monkeypatch.setattr(app, "suspend", __import__("contextlib").nullcontext)
        assert run == []
        await pilot.press("e")
        at = f"+{viewer.view.line}"
        assert run == [["less", "-S", at, str(viewer.opened.source.path)]]


async def test_an_export_says_that_its_logs_are_not_there(opened, exported):
    async with opened(exported(ranks=16, calls=20)) as (app, pilot):
        await pilot.press("o")
        assert any("only its frames are here" in message for message in said(app))
