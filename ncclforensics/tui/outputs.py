"""Output of the application: pages to read, the clipboard, a screenshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.binding import Binding

from ncclforensics.model.folding import count
from ncclforensics.report.late_ranks import legend
from ncclforensics.report.timeline.states import STATES
from ncclforensics.tui.dialogs import Page, plain

if TYPE_CHECKING:
    from ncclforensics.tui.load import Loaded
    from ncclforensics.tui.panes import Entries, EvidencePane

WIDTH = 84
MOST_FILES = 1000
HEAT = ".-=#@"  # by level
_NAMES = {"slash": "/", "question_mark": "?", "plus,equals_sign": "+"}


class Outputs(App[int]):
    """The part of the application that explains, copies and saves."""

    loaded: Loaded | None = None
    listed: Entries
    evidence: EvidencePane

    def notify(self, message: str, *args: Any, **options: Any) -> None:
        """Notify the user; text that was typed or read is no markup."""
        super().notify(message, *args, **{"markup": False, **options})

    def action_explain(self) -> None:
        """Explain the class of the highlighted entry, else that of the verdict."""
        listed = self.listed
        slug = None
        if listed.has_focus and listed.highlighted is not None:
            slug = listed.entries[listed.highlighted].slug
        if slug is None and self.loaded is not None and self.loaded.report.verdict:
            slug = self.loaded.report.verdict.slug
        if slug is not None:
            self.explain(slug)
        else:
            self.notify("there is no verdict to explain")

    def explain(self, slug: str) -> None:
        """Show the documentation of a class."""
        from ncclforensics.diagnosers import CLASSES
        from ncclforensics.report.class_docs import HEADINGS
        from ncclforensics.report.explain import render_class

        entry = CLASSES.get(slug)
        if entry is None:
            self.notify(f"this version knows no class {slug}", severity="warning")
            return
        text = render_class(entry, width=min(WIDTH, self.size.width * 9 // 10 - 8))
        lines = [
            ("bold" if said in HEADINGS or not at else "", said)
            for at, said in enumerate(text.splitlines())
        ]
        self.push_screen(Page(slug, lines))

    def action_slower(self) -> None:
        """Show the heat map of who works longer than its peers, over time."""
        late = self.loaded.late_ranks if self.loaded is not None else None
        if late is None:
            self.notify("no rank is known to be slower than its peers")
            return
        wide = max(len(name) for name, _ in late.rows)
        lines = [
            ("", f"{name:>{wide}} {''.join(HEAT[level] for level in levels)}")
            for name, levels in late.rows
        ]
        if late.more_rows:
            lines.append(
                ("dim", f"{count(late.more_rows, 'row')} of faster ranks more")
            )
        lines += [("", ""), ("bold", "Levels")]
        lines += [
            ("", f"  {HEAT[int(level)]}  {word:9} {meaning}")
            for level, word, meaning in legend()
        ]
        self.push_screen(Page("who is slower than its peers, over time", lines))

    def action_help(self) -> None:
        """Show the keys and the states."""
        from ncclforensics.tui.chart import Chart

        lines: list[tuple[str, str]] = [("bold", "Cells")]
        lines += [
            ("", f"  {state.char}  {state.word:11} {state.meaning}")
            for state in STATES
            if state.char != " "
        ]
        lines += [
            ("", "  Of several calls in a cell the worst is shown. Log lines (!) and"),
            ("", "  exits (E) stand between the calls where their times fall; without"),
            ("", "  times they come last."),
            ("", "  A rank in italics is suspected, not accused: look there first."),
        ]
        lines += [("", ""), ("bold", "Keys")]
        bindings = [
            b for b in (*self.BINDINGS, *Chart.BINDINGS) if isinstance(b, Binding)
        ]
        lines += [
            ("", f"  {_NAMES.get(b.key, b.key.split(',')[0]):11} {b.tooltip}")
            for b in bindings
        ]
        lines += [
            ("", "  tab         The next pane"),
            ("", "  ctrl+p      All commands"),
        ]
        self.push_screen(Page("help", lines))

    def action_copy(self) -> None:
        """Copy the evidence if its pane or the list has the focus, else the report."""
        from ncclforensics.report.formats.markdown import render_markdown

        if self.loaded is None:
            return
        if self.evidence.lines and (self.evidence.has_focus or self.listed.has_focus):
            self.copy_to_clipboard(plain(self.evidence.lines))
            self.notify("the evidence below is on the clipboard")
        else:
            self.copy_to_clipboard(render_markdown(self.loaded.report))
            self.notify("the report is on the clipboard, as Markdown")

    def action_save(self) -> None:
        """Save the screen as timeline.svg, or under the next free name."""
        picture = self.export_screenshot(title="ncclforensics timeline")
        for number in range(1, MOST_FILES):
            name = "timeline.svg" if number == 1 else f"timeline-{number}.svg"
            try:
                with Path(name).open("x", encoding="utf-8") as file:
                    file.write(picture)
            except FileExistsError:
                continue
            except OSError as caught:
                Path(name).unlink(missing_ok=True)  # it may be incomplete
                self.notify(f"{name}: {caught.strerror}", severity="error")
                return
            self.notify(f"Wrote {name}")
            return

    def action_grow(self) -> None:
        """Maximize the focused pane, or restore the layout."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused, container=False)
