"""A part of the columns or of the time is selected with the mouse, and cleared."""

import pytest
from screen import chart, until

pytestmark = pytest.mark.asyncio


@pytest.fixture
def chain(jobs):
    return jobs / "torch-chain" / "evidence"


async def drag(pilot, first, last):
    """Drag over the cells from one to another, in the first line."""
    widget = pilot.app.chart
    wide, left = widget.view.scale.wide, widget._gutter()
    await pilot.mouse_down("#chart", offset=(left + first * wide, 4))
    await pilot.hover("#chart", offset=(left + last * wide, 4))
    await pilot.mouse_up("#chart", offset=(left + last * wide, 4))
    await pilot.pause(0.1)


async def test_dragging_shows_these_columns_alone_until_escape(opened, chain):
    async with opened(chain) as (app, pilot):
        whole = chart(app)
        axis = app.chart.view.scale.axis
        await drag(pilot, 4, 8)
        assert app.chart.view.scale.axis == axis[4:9]
        assert "b2" in chart(app)[0]
        assert "a1" not in chart(app)[0]
        assert str(app.chart.border_title).startswith("part of the timeline")
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert [line.split("│")[0] for line in chart(app)] == [
            line.split("│")[0] for line in whole
        ]
        assert app.chart.view.scale.axis == axis


async def test_dragging_from_right_to_left_is_the_same(opened, chain):
    async with opened(chain) as (app, pilot):
        axis = app.chart.view.scale.axis
        await drag(pilot, 8, 4)
        assert app.chart.view.scale.axis == axis[4:9]


async def test_a_window_of_time_is_selected(opened, chain):
    async with opened(chain) as (app, pilot):
        await pilot.press("t")
        before = app.chart.view.scale
        await drag(pilot, 10, 19)
        after = app.chart.view.scale
        assert after.clock.first == before.time(10)
        assert after.clock.last == before.time(20) - 1
        assert after.bucket < before.bucket
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert app.chart.view.scale.clock is app.loaded.clock


async def test_a_click_selects_nothing(opened, chain):
    async with opened(chain) as (app, pilot):
        await drag(pilot, 4, 4)
        assert not app.chart.view.scale.is_part


async def test_going_to_a_call_outside_of_the_selection_clears_it(opened, chain):
    async with opened(chain) as (app, pilot):
        await drag(pilot, 4, 8)
        await pilot.press("s", *"default 1", "enter")
        await until(pilot, lambda app: not app.chart.view.scale.is_part)
        assert app.timeline.columns.numbers[app.here()[1]] == 1


async def test_a_selection_stays_where_lines_are_grouped_otherwise(opened, chain):
    async with opened(chain) as (app, pilot):
        await drag(pilot, 4, 8)
        axis = app.chart.view.scale.axis
        await pilot.press("g", "f")
        await pilot.pause(0.1)
        assert app.chart.view.scale.axis == axis
