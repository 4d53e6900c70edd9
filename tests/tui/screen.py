"""What is on screen, as text."""


def text(app):
    """Return the lines of the screen, without what trails."""
    strips = app.screen._compositor.render_strips()
    return [strip.text.rstrip() for strip in strips]


def chart(app):
    """Return the lines of the chart."""
    widget = app.chart
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


async def until(pilot, holds):
    """Wait until something holds of the application."""
    for _ in range(200):
        if holds(pilot.app):
            return
        await pilot.pause(0.05)
    raise AssertionError("\n".join(text(pilot.app)))
