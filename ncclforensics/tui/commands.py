"""The entries of the command palette: actions of all keys, ranks, groups, classes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider

from ncclforensics.tui.chart import Chart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ncclforensics.tui.app import TimelineApp

Command = tuple[str, str, "Callable[[], object]"]
MOST_GROUPS = 200


class Commands(Provider):
    """Commands of the timeline."""

    @property
    def timeline_app(self) -> TimelineApp:
        """Return the application, with its type."""
        return cast("TimelineApp", self.app)

    def _keys(self) -> Iterator[Command]:
        """Yield the actions of all keys."""
        app = self.timeline_app
        for owner, bindings in ((app, app.BINDINGS), (app.chart, Chart.BINDINGS)):
            for binding in bindings:
                if isinstance(binding, Binding) and binding.action != "leave":
                    act = partial(app.run_action, binding.action, owner)
                    yield binding.description, binding.tooltip, act

    def _places(self, query: str) -> Iterator[Command]:
        """Yield the commands that go to places matching a query."""
        app = self.timeline_app
        number = query.split()[-1] if query.split() else ""
        if number.isdecimal():
            yield f"Go to rank {number}", "", partial(app.go_to_rank, number)
            yield f"Go to SeqNum {number}", "", partial(app.go_to_seq, number)
        if app.timeline is not None:
            yield "Show all groups", "", partial(app.choose_group, None, None)
            for kind, names in app.timeline.families():
                show = partial(app.choose_group, kind)
                yield (
                    f"Show group {kind}",
                    f"{len(names):,} of them",
                    partial(show, None),
                )
                for pg, ranks in names[:MOST_GROUPS]:
                    yield f"Show group {kind} {pg}", f"ranks {ranks}", partial(show, pg)
        from ncclforensics.diagnosers import CLASSES

        for slug in CLASSES:
            yield f"Explain {slug}", "What the class means", partial(app.explain, slug)

    async def discover(self) -> Hits:
        """Yield the actions of keys, before anything is typed."""
        for text, told, act in self._keys():
            yield DiscoveryHit(text, act, help=told)

    async def search(self, query: str) -> Hits:
        """Yield the commands that match."""
        matcher = self.matcher(query)
        for text, told, act in (*self._keys(), *self._places(query)):
            score = matcher.match(text)
            if score > 0:
                yield Hit(score, matcher.highlight(text), act, help=told or None)
