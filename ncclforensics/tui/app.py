"""The application: opens at once, loads in the background, starts at the verdict.

Workers post messages and do not touch widgets. Loading runs in a daemon thread, because
its long steps cannot be interrupted, and quitting must not wait for them.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import App
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Footer, Static

from ncclforensics.model.errors import ExitCode
from ncclforensics.model.words import cached
from ncclforensics.report.coverage import recognised
from ncclforensics.report.opening_lines import opening
from ncclforensics.report.sanitize import line as clean
from ncclforensics.report.timeline.start_position import opening_place
from ncclforensics.tui import rendering
from ncclforensics.tui.actions import Actions
from ncclforensics.tui.chart import Chart
from ncclforensics.tui.commands import Commands
from ncclforensics.tui.dialogs import REDRAW
from ncclforensics.tui.keys import KEYS
from ncclforensics.tui.load import Interrupted, Loaded, Request, load
from ncclforensics.tui.model.entries import entries
from ncclforensics.tui.panes import Entries, EvidencePane

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from ncclforensics.report.contract import Report
    from ncclforensics.report.timeline.first_pass import Tick

LEAST = (60, 16)


class TimelineApp(Actions):
    """Verdict on top; panes with findings, the timeline, and evidence."""

    TITLE = "ncclforensics timeline"
    AUTO_FOCUS = None
    CSS_PATH = "timeline.tcss"
    COMMANDS = App.COMMANDS | {Commands}
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (22, "-tall")]  # noqa: RUF012
    NOTIFICATION_TIMEOUT = 3.0  # a notification covers part of the timeline
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    @dataclass
    class Progress(Message):
        """Progress of loading: a word, the amount done, and the total."""

        word: str
        done: int
        whole: int

    @dataclass
    class Answered(Message):
        """The report is there, and the timeline is not drawn yet."""

        report: Report

    @dataclass
    class Ready(Message):
        """Loading ended, with the result or an error."""

        loaded: Loaded | None
        error: BaseException | None = None

    def __init__(self, request: Request, scratch: Path) -> None:
        """Prepare to show a request; archives are unpacked into `scratch`."""
        super().__init__()
        self.request, self.scratch = request, scratch
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.listed = Entries(id="entries", classes="pane")
        self.chart = Chart(id="chart", classes="pane")
        self.evidence = EvidencePane(id="evidence", classes="pane")

    def compose(self) -> ComposeResult:
        """Create the panes; a style sheet places them."""
        yield Static(id="verdict", markup=False)
        with Container(id="body"):
            with Vertical(id="side"):
                yield self.listed
            with Vertical(id="main"):
                yield Static(id="notice", classes="pane", markup=False)
                yield self.chart
                yield Static(id="legend", markup=False)
                yield self.evidence
        yield Static(id="small", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Show an empty window and start loading."""
        self.listed.border_title = "verdicts"
        self.query_one("#notice").border_title = "timeline"
        self.evidence.border_title = "evidence"
        self.default_screen.add_class("-no-timeline")
        self._progress(self.Progress("starting", 0, 0))
        paths = clean(", ".join(self.request.paths), 200)
        self.query_one("#verdict", Static).update(Content(f"reading {paths}"))
        self._start()

    @work(exclusive=True, group="load", exit_on_error=False)
    async def _start(self) -> None:
        """Load in a daemon thread, and post the result."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Loaded] = loop.create_future()

        def finish(loaded: Loaded | None, error: BaseException | None) -> None:
            if not ended.done():
                if loaded is not None:
                    ended.set_result(loaded)
                elif error is not None:
                    ended.set_exception(error)

        def answered(report: Report) -> None:
            self.post_message(self.Answered(report))

        def run() -> None:
            loaded, error = None, None
            try:
                loaded = load(self.request, self.scratch, self._tick(), answered)
            except (
                BaseException
            ) as caught:  # a polars panic is not an Exception subclass
                error = caught
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, loaded, error)

        threading.Thread(target=run, daemon=True).start()
        try:
            self.post_message(self.Ready(await ended))
        except asyncio.CancelledError:
            raise
        except BaseException as caught:
            self.post_message(self.Ready(None, caught))

    def _tick(self) -> Tick:
        """Return a function that posts progress, or raises Interrupted on quit."""
        drawn, last = 0.0, ""

        def tick(word: str, done: int, whole: int) -> None:
            nonlocal drawn, last
            if self.stop.is_set():
                raise Interrupted
            now = time.monotonic()
            if word != last or now - drawn >= REDRAW:
                drawn, last = now, word
                self.post_message(self.Progress(word, done, whole))

        return tick

    @on(Progress)
    def _progress(self, event: Progress) -> None:
        text = f"{event.word} …"
        if event.whole:
            bar = "#" * (20 * event.done // event.whole)
            text = f"{event.word} [{bar:.<20}] {event.done:,} of {event.whole:,}"
        # the last message may come when the screen is gone
        for notice in self.query("#notice").results(Static):
            notice.update(Content(f"{text}\n\nq or escape stops"))

    @on(Answered)
    def _answered(self, event: Answered) -> None:
        self._say(event.report)

    def _say(self, report: Report) -> None:
        """Show the two opening lines, the second with the whole headline."""
        first, second = opening(report)
        if report.verdict is not None:
            second = clean(report.verdict.headline, 400)
        self.query_one("#verdict", Static).update(Content(f"{first}\n{second}"))

    @on(Ready)
    def _opened(self, event: Ready) -> None:
        if event.loaded is None:
            self.error = event.error
            interrupted = isinstance(event.error, Interrupted)
            self.exit(ExitCode.INTERRUPTED if interrupted else ExitCode.BUG)
            return
        self.loaded = loaded = event.loaded
        if loaded.cached is not None:
            self.notify(cached(loaded.cached))
        # otherwise garbage collections would traverse all loaded objects
        gc.freeze()
        self._say(loaded.report)
        listed = entries(loaded.report)
        self.listed.show(listed)
        if loaded.late_ranks is not None:
            self.listed.border_title = "verdicts · H shows who is slower, over time"
        if loaded.timeline is None or loaded.timeline.is_empty:
            self.query_one("#notice", Static).update(Content(loaded.why_empty))
            self.listed.focus()
            return
        cells = loaded.timeline.rows["cells"].to_list()
        if loaded.clock is not None:
            cells.append(bytes(loaded.clock.marks["code"].unique()))
        states = rendering.legend(cells, plain=self.no_color)
        self.query_one("#legend", Static).update(states)
        self.default_screen.remove_class("-no-timeline")
        self.chart.focus()
        place = opening_place(loaded.timeline, loaded.report)
        # the chart has no size before the layout
        self.call_after_refresh(self.open_at, place or (0, 0))

    def on_unmount(self) -> None:
        """Return the frozen objects to the garbage collector."""
        gc.unfreeze()

    def on_resize(self, event: events.Resize) -> None:
        """Show a message if the terminal is too small."""
        width, height = event.size
        tiny = width < LEAST[0] or height < LEAST[1]
        for screen in self.screen_stack:
            screen.set_class(tiny, "-tiny")
        said = (
            f"{width}x{height} is too small\nthe timeline needs {LEAST[0]}x{LEAST[1]}"
        )
        for small in self.query("#small").results(Static):
            small.update(Content(f"{said}\n\nq leaves"))
        if not tiny and self.focused is None and self.timeline is not None:
            # a hidden widget loses the focus: restore it
            self.call_after_refresh(self.chart.focus)

    def action_leave(self) -> None:
        """Quit; interrupts loading if it is not finished."""
        self.stop.set()
        if self.loaded is None:
            self.exit(ExitCode.INTERRUPTED)
            return
        known = recognised(self.loaded.report)
        self.exit(ExitCode.OK if known else ExitCode.NO_EVIDENCE)


def run(request: Request) -> int:
    """Show the timeline until the user quits; returns the exit code.

    Raises errors of loading, such as UsageError for an unusable path.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        app = TimelineApp(request, Path(scratch))
        code = app.run()
        if app.loaded is None:
            # otherwise this process would wait at its end for those that still read
            for reader in multiprocessing.active_children():
                reader.terminate()
        if app.error is not None and not isinstance(app.error, Interrupted):
            raise app.error
        return int(ExitCode.INTERRUPTED if code is None else code)
