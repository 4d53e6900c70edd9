"""The application under a pilot: what is on screen, and what each key does."""

import json

import pytest
from screen import chart, text, until
from textual import events

from ncclforensics.model.errors import ExitCode, UsageError
from ncclforensics.report.formats.as_json import render_json
from ncclforensics.tui.dialogs import Choice, Page, Prompt, Steps

pytestmark = pytest.mark.asyncio


@pytest.fixture
def chain(jobs):
    return jobs / "torch-chain" / "evidence"


async def test_it_opens_on_the_answer(opened, chain):
    async with opened(chain) as (app, _):
        lines = text(app)
        assert lines[0].startswith("missing-rank: rank 1 on gpu0001")
        assert lines[1].startswith("rank 1 never joined all_reduce SeqNum=3")
        assert any(line.startswith("rank 1 on gpu0001") for line in lines)
        assert any("TP SeqNum=3: absent" in line for line in lines)
        row, col = app.here()
        assert (app.timeline.ranks[row], app.timeline.columns.numbers[col]) == (1, 3)
        assert app.chart.has_focus


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (60, 16)])
async def test_nothing_overflows(opened, chain, size):
    async with opened(chain, size=size) as (app, pilot):
        for key in ("t", "g", "g", "f", "plus", "minus", "0", "end"):
            await pilot.press(key)
            lines = app.screen._compositor.render_strips()
            assert len(lines) == size[1]
            assert {line.cell_length for line in lines} == {size[0]}


async def test_the_footer_says_what_the_keys_do_and_fits(opened, chain):
    from textual.widgets._footer import FooterKey

    async with opened(chain) as (app, pilot):
        await until(pilot, lambda app: app.query(FooterKey))
        told = " ".join(text(app)[-1].split())
        assert "o open log / search e next failure" in told
        assert told.endswith("q quit")


async def test_the_legend_has_the_states_that_are_drawn_in_their_colours(opened, chain):
    async with opened(chain) as (app, _):
        (told,) = [line for line in text(app) if line.startswith("X absent")]
        words = [part.split()[1] for part in told.split("  ") if part]
        assert words == ["absent", "waiting", "exited", "logged", "away", "done"]
        strips = app.screen._compositor.render_strips()
        (strip,) = [s for s in strips if s.text.startswith("X absent")]
        assert next(iter(strip)).style.bgcolor is not None


async def test_e_goes_from_failure_to_failure(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("e")
        assert app.timeline.ranks[app.here()[0]] == 2
        await pilot.press("E", "E")
        assert app.timeline.ranks[app.here()[0]] == 0


async def test_t_changes_the_axis_and_comes_back_to_the_same_call(opened, chain):
    async with opened(chain) as (app, pilot):
        before = app.here()
        await pilot.press("t")
        assert any("11:33:" in line for line in chart(app)[:1])
        assert app.here() == before
        await pilot.press("t")
        assert app.here() == before


async def test_g_cycles_through_the_groupings(opened, chain):
    async with opened(chain) as (app, pilot):
        seen = []
        for _ in range(4):
            seen.append(app.chart.view.shown.grouping)
            await pilot.press("g")
        assert seen == ["host", "process group", "position", "host"]


async def test_r_and_s_go_where_they_are_told(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("r")
        assert isinstance(app.screen, Prompt)
        await pilot.press("3", "enter")
        await pilot.pause()
        assert app.timeline.ranks[app.here()[0]] == 3
        await pilot.press("s", *"DP 2", "enter")
        await pilot.pause()
        _, col = app.here()
        assert app.timeline.columns.kind_of(col).name == "DP"
        assert app.timeline.columns.numbers[col] == 2


async def test_who_types_fast_types_into_the_dialog(opened, chain):
    async with opened(chain) as (app, pilot):
        for key in ("r", "3", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.5)
        assert app.timeline.ranks[app.here()[0]] == 3
        assert app.chart.has_focus
        for key in ("slash", *"prs", "escape"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.5)
        assert len(app.screen_stack) == 1


async def test_p_shows_one_group_alone(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("p")
        assert isinstance(app.screen, Choice)
        await pilot.press(*"pp", "enter")
        await pilot.pause()
        assert app.chart.view.shown.kind == "PP"
        kind = app.timeline.columns.kind_of(app.here()[1])
        assert kind.name == "PP" or not kind.is_call
        assert "1  2  3" in chart(app)[0]


async def test_search_and_n_go_through_the_places_in_the_timeline(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("slash", *"timed out", "enter")
        await pilot.pause(0.5)
        assert any("3 places in the timeline" in line for line in text(app))
        await pilot.press("enter")
        await pilot.pause()
        ranks = [app.timeline.ranks[app.here()[0]]]
        for key in ("n", "n", "N"):
            await pilot.press(key)
            ranks.append(app.timeline.ranks[app.here()[0]])
        assert ranks == [0, 2, 3, 2]


async def test_w_leads_along_the_chain(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("down", "down", "w")
        await pilot.pause(0.3)
        assert isinstance(app.screen, Steps)
        await pilot.press("enter")
        await pilot.pause()
        row, col = app.here()
        assert app.timeline.ranks[row] == 1
        assert app.timeline.columns.kind_of(col).name == "TP"


async def test_enter_shows_the_evidence_and_escape_comes_back(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("enter")
        assert app.focused.id == "evidence"
        await pilot.press("escape")
        assert app.focused.id == "chart"


async def test_a_log_line_shows_what_stands_around_it(opened, chain):
    async with opened(chain, size=(120, 50)) as (app, pilot):
        await pilot.press("up", "end", "left", "left")
        await pilot.pause(0.5)
        told = [line for _, line in app.query_one("#evidence").lines]
        (cited,) = [line for line in told if line.startswith(">")]
        assert "RuntimeError: " in cited
        assert any("File" in line for line in told)


async def test_x_explains_and_question_mark_helps(opened, chain):
    async with opened(chain) as (app, pilot):
        for key, word in (("x", "What it means"), ("question_mark", "absent")):
            await pilot.press(key)
            assert isinstance(app.screen, Page)
            assert any(word in line for line in text(app))
            await pilot.press("escape")
            assert app.chart.has_focus


async def test_c_copies_markdown_and_s_saves_without_overwriting(
    opened, chain, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    async with opened(chain) as (app, pilot):
        await pilot.press("c")
        assert app.clipboard.startswith("**`missing-rank`: rank 1 on gpu0001**")
        await pilot.press("S", "S")
    saved = {file.name: file.read_text("utf-8") for file in tmp_path.glob("*.svg")}
    assert set(saved) == {"timeline.svg", "timeline-2.svg"}
    assert saved["timeline.svg"].startswith("<svg")


async def test_every_key_is_in_the_command_palette(opened, chain):
    from ncclforensics.tui.commands import Commands

    async with opened(chain) as (app, _):
        offered = [hit.text async for hit in Commands(app.screen).discover()]
        wanted = {b.description for b in app.BINDINGS if b.action != "leave"}
        assert wanted <= {str(text) for text in offered}
        found = [str(hit.text) async for hit in Commands(app.screen).search("rank 3")]
        assert "Go to rank 3" in found


async def test_the_mouse_moves_the_cursor(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.click("#chart", offset=(23, 6))
        assert app.chart.line == 3


async def test_resizing_keeps_the_cursor_on_screen(opened, exported):
    async with opened(exported(), size=(200, 50)) as (app, pilot):
        assert app.timeline.ranks[app.here()[0]] == 614
        for size in ((80, 24), (70, 18), (150, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.2)
            top = int(app.chart.scroll_offset.y)
            assert top <= app.chart.line < top + app.chart.size.height - 2
            assert any(line.startswith("614 ") for line in chart(app))


async def test_a_small_terminal_says_so(opened, chain):
    async with opened(chain, size=(40, 10)) as (app, pilot):
        assert any("40x10 is too small" in line for line in text(app))
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.2)
        assert not any("too small" in line for line in text(app))


async def test_a_saved_report_has_its_verdict_and_says_what_is_missing(
    opened, fixture_timeline, tmp_path
):
    saved = tmp_path / "report.json"
    saved.write_text(render_json(fixture_timeline("torch-chain")[1]), "utf-8")
    async with opened(saved) as (app, pilot):
        lines = text(app)
        assert lines[0].startswith("missing-rank: rank 1 on gpu0001")
        assert any("no calls to draw" in line for line in lines)
        for key in ("t", "g", "e", "w", "r", "3", "enter", "s", "p", "n", "f", "c"):
            await pilot.press(key)
        await pilot.press("escape")


async def test_an_export_is_drawn_like_evidence(opened, exported):
    async with opened(exported(), size=(160, 40)) as (app, _):
        assert app.timeline.ranks[app.here()[0]] == 614
        letter = app.timeline.columns.kind("TENSOR_MODEL_PARALLEL_GROUP").letter
        number = app.timeline.columns.numbers[app.here()[1]]
        assert any(f"never made {letter}{number}" in line for line in chart(app))


async def test_frames_without_a_report_are_diagnosed_anew(opened, chain, tmp_path):
    from ncclforensics.cli.commands import main

    folder = tmp_path / "frames"
    assert main(["export", str(chain), "-o", str(folder)]) == ExitCode.OK
    async with opened(folder) as (app, _):
        assert text(app)[0].startswith("missing-rank: rank 1 on gpu0001")
        assert app.timeline.ranks[app.here()[0]] == 1


async def test_the_zip_of_a_report_is_drawn(opened, chain, tmp_path):
    from ncclforensics.cli.commands import main

    file = tmp_path / "report.zip"
    assert main(["report", str(chain), "-o", str(file)]) == ExitCode.OK
    async with opened(file) as (app, _):
        assert text(app)[0].startswith("missing-rank: rank 1 on gpu0001")
        assert app.timeline.ranks[app.here()[0]] == 1


async def test_an_empty_directory_says_what_to_give(opened, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    async with opened(folder, size=(100, 30)) as (app, pilot):
        assert any("nothing here was recognised" in line for line in text(app))
        assert any("NCCL_DEBUG logs" in line for line in text(app))
        await pilot.press("q")
    assert app.return_value == ExitCode.NO_EVIDENCE


async def test_broken_evidence_is_drawn_as_far_as_it_goes(opened, chain, tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    for file in (chain / "fr").iterdir():
        data = file.read_bytes()
        (folder / file.name).write_bytes(data[: len(data) // 2] + b"\xff\x00\x1b[2J")
    (folder / "noise.log").write_bytes(bytes(range(256)) * 50)
    async with opened(folder) as (app, pilot):
        assert app.loaded is not None
        for key in ("t", "g", "enter", "escape", "w", "escape", "e"):
            await pilot.press(key)
        assert all("\x1b" not in line for line in text(app))


async def test_a_report_of_another_version_ends_with_one_line(opened, tmp_path):
    saved = tmp_path / "report.json"
    saved.write_text(json.dumps({"schema_version": 99}), "utf-8")
    async with opened(saved) as (app, _):
        pass
    assert isinstance(app.error, UsageError)


async def test_loading_can_be_interrupted(opened, chain, tmp_path, monkeypatch):
    import threading

    from ncclforensics.tui import app as module

    held = threading.Event()

    def slow(_request, _scratch, tick, _told):
        tick("reading files", 1, 9)
        held.wait(10)

    monkeypatch.setattr(module, "load", slow)
    app = module.TimelineApp(module.Request((str(chain),)), tmp_path)
    async with app.run_test() as pilot:
        await pilot.pause(0.3)
        assert any("reading files" in line and "1 of 9" in line for line in text(app))
        await pilot.press("escape")
        await pilot.pause()
    held.set()
    assert app.return_value == ExitCode.INTERRUPTED


async def test_the_answer_is_there_before_the_timeline_is_drawn(
    chain, tmp_path, monkeypatch
):
    import threading

    from ncclforensics.tui import app as module

    held, load = threading.Event(), module.load

    def slow(request, scratch, tick, told):
        def then(report):
            told(report)
            held.wait(10)

        return load(request, scratch, tick, then)

    monkeypatch.setattr(module, "load", slow)
    app = module.TimelineApp(module.Request((str(chain),)), tmp_path)
    async with app.run_test() as pilot:
        while not any("never joined" in line for line in text(app)):
            await pilot.pause(0.05)
        assert app.timeline is None
        held.set()
        while app.timeline is None:
            await pilot.pause(0.05)


async def test_a_dialog_open_while_loading_does_not_hide_the_timeline(
    chain, tmp_path, monkeypatch
):
    import threading

    from ncclforensics.tui import app as module

    held, load = threading.Event(), module.load

    def slow(*given):
        held.wait(10)
        return load(*given)

    monkeypatch.setattr(module, "load", slow)
    app = module.TimelineApp(module.Request((str(chain),)), tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("?")
        await pilot.pause()
        held.set()
        while app.timeline is None:
            await pilot.pause(0.05)
        await pilot.press("escape")
        await until(pilot, lambda on: not any("escape stops" in r for r in text(on)))
        assert app.chart.region.height > 3


async def test_without_colour_the_cursor_and_the_states_are_there(
    opened, chain, monkeypatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(chain) as (app, _):
        assert app.no_color
        strips = [app.chart.render_line(y) for y in range(app.chart.size.height)]
        marked = [
            s.text for strip in strips for s in strip if s.style and s.style.reverse
        ]
        assert marked == ["X"]


async def test_a_suspect_is_reached_from_the_list(opened, exported):
    folder = exported(ranks=64, calls=20)
    saved = json.loads((folder / "report.json").read_text("utf-8"))
    whys = {"weight": 0.4, "why": "it may have done it", "evidence": []}
    suspects = [{"rank": rank, "host": None, **whys} for rank in (38, 3)]
    sign = {**saved["findings"][0], "role": "witness"}
    nobody = {"outcome": "inconclusive", "verdict": None, "findings": [sign]}
    told = json.dumps({**saved, **nobody, "suspects": suspects})
    (folder / "report.json").write_text(told, "utf-8")
    async with opened(folder, size=(120, 30)) as (app, pilot):
        lines = text(app)
        assert lines[0].startswith("inconclusive: something stopped; ranks are")
        assert lines[1] == "suspected: rank 38 (40 %), rank 3 (40 %)"
        assert app.timeline.ranks[app.here()[0]] == 38
        assert any("suspected never made" in line for line in chart(app))
        app.listed.focus()
        await pilot.press("down", "enter")
        await pilot.pause(0.4)
        assert app.timeline.ranks[app.here()[0]] == 3
        assert app.chart.has_focus
        shown = "\n".join(text(app))
        assert "suspected, not accused, 40 %" in shown
        assert "culprit" not in shown


async def test_where_only_logs_are_the_lines_tell_what_happened(opened, jobs):
    folder = jobs / "torch-crashed-rank-record" / "evidence"
    async with opened(folder, size=(200, 50)) as (app, _):
        head, _, *lines = chart(app)
        assert head.split("│")[0].split() == [
            "ranks",
            "host",
            "step",
            "last",
            "line",
            "ended",
        ]
        assert "first error" in head
        (culprit,) = [line for line in lines if line.startswith("6 ")]
        assert culprit.split("│")[0].split()[2:] == ["3", "11:28:23", "exit", "1"]
        assert "ValueError: loss is nan at step 4" in culprit
        (silent,) = [line for line in lines if line.startswith("4 ")]
        assert silent.split("│")[0].split()[2:] == ["3", "11:28:23", "SIGTERM"]
        assert "last step 3, last known line 2026-11-20T11:28:23" in "\n".join(
            told for _, told in app.evidence.lines
        )


async def test_where_calls_are_known_no_outcomes_stand_before_them(opened, chain):
    async with opened(chain) as (app, _):
        assert chart(app)[0].split("│")[0].split() == ["ranks", "host"]


async def test_c_copies_what_the_focused_pane_shows(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("enter", "c")
        assert app.clipboard.startswith("rank 1 on gpu0001\nTP SeqNum=3: absent")
        await pilot.press("w")
        await until(pilot, lambda app: isinstance(app.screen, Steps))
        await pilot.press("c")
        assert "rank 1 waits in no call" in app.clipboard


async def test_the_name_of_a_group_is_no_markup(opened, chain):
    async with opened(chain) as (app, _):
        found = app.chart.view
        kinds = found.timeline.columns.kinds
        named = [type(kinds[0])("[/none][red]x", "a", 0, kinds[0].end), *kinds[1:]]
        object.__setattr__(found.timeline.columns, "kinds", tuple(named))
        app._show(found, app.here())
        assert "[/none][red]x" in "\n".join(text(app))
