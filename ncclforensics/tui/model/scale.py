"""Maps columns to cells on screen: by sequence number or by time, with zoom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclforensics.report.timeline.axis import Columns
    from ncclforensics.tui.model.clock import Clock

WIDEST = 6
SECOND = 1_000_000_000
SHORTEST = 1_000  # smallest cell, in ns
GAP = 2


@dataclass(frozen=True, slots=True)
class BySequence:
    """Cells of `per` columns of `axis` each, `wide` characters wide."""

    axis: tuple[int, ...]
    per: int = 1
    wide: int = 1
    is_part: bool = False  # selected: there are columns beyond the axis

    @property
    def size(self) -> int:
        """Return the number of cells."""
        return -(-len(self.axis) // self.per)

    def cell(self, col: int) -> int | None:
        """Return the cell of a column, or None if it is not shown."""
        return self.axis.index(col) // self.per if col in self.axis else None

    def columns(self, cell: int) -> tuple[int, ...]:
        """Return the columns of a cell."""
        return self.axis[cell * self.per : (cell + 1) * self.per]

    def zoomed(self, step: int) -> BySequence:
        """Return the next scale: zoomed in for 1, out for -1."""
        if step > 0 and self.per > 1:
            return replace(self, per=self.per // 2)
        if step > 0:
            return replace(self, wide=min(self.wide + 1, WIDEST))
        if self.wide > 1:
            return replace(self, wide=self.wide - 1)
        return replace(self, per=self.per * 2) if self.size > 10 else self

    def fitted(self, room: int) -> BySequence:
        """Return the scale that fits all columns into `room` characters."""
        count = max(len(self.axis), 1)
        per = 1
        while -(-count // per) > max(room, 1):
            per *= 2
        wide = max(min(room // count, 3), 1) if per == 1 else 1
        return replace(self, per=per, wide=wide)

    def between(self, first: int, last: int) -> BySequence:
        """Return the scale of the columns from one cell to another."""
        axis = self.axis[first * self.per : (last + 1) * self.per]
        return replace(self, axis=axis, is_part=True)

    def cells(self, row: bytes, begin: int, width: int) -> bytes:
        """Return `width` cells of a row from `begin` on, each with its worst state."""
        axis = self.axis[begin * self.per : (begin + width) * self.per]
        if not axis:
            return b""
        picked = bytes(map(row.__getitem__, axis))
        if self.per == 1:
            return picked
        step = self.per
        return bytes([max(picked[i : i + step]) for i in range(0, len(picked), step)])

    def ticks(self, columns: Columns, begin: int, width: int) -> tuple[str, str]:
        """Return the two lines above the cells: numbers, and letters of their kinds."""
        cells = range(begin, min(begin + width, self.size))
        kinds = [columns.kind_of(self.columns(cell)[0]) for cell in cells]
        calls = sum(kind.is_call for kind in columns.kinds)
        is_all = self.is_part or len(self.axis) == len(columns.merged)
        many = calls > 1 and is_all
        letters = "".join(
            (kind.letter if many or not kind.is_call else " ").ljust(self.wide)
            for kind in kinds
        )
        numbers, at = "", 0
        for cell, kind in zip(cells, kinds, strict=True):
            if kind.is_call and at >= len(numbers) + (GAP if numbers else 0):
                n = columns.numbers[self.columns(cell)[0]]
                told = "" if n is None else n  # a log may not tell the number
                numbers = numbers.ljust(at) + f"{kind.letter if many else ''}{told}"
            at += self.wide
        return numbers, letters


@dataclass(frozen=True, slots=True)
class ByTime:
    """Cells of `bucket` nanoseconds from the start of the clock, one character wide."""

    clock: Clock
    bucket: int
    wide: int = 1
    is_part: bool = False  # selected: the clock is only a window of the whole time

    @property
    def size(self) -> int:
        """Return the number of cells."""
        return (self.clock.last - self.clock.first) // self.bucket + 1

    def cell(self, t: int) -> int:
        """Return the cell of a time, or the nearest one if it is out of range."""
        return min(max((t - self.clock.first) // self.bucket, 0), self.size - 1)

    def time(self, cell: int) -> int:
        """Return the time at which a cell begins."""
        return self.clock.first + cell * self.bucket

    def zoomed(self, step: int) -> ByTime:
        """Return the next scale: zoomed in for 1, out for -1."""
        bucket = self.bucket // 2 if step > 0 else self.bucket * 2
        far = self.size <= 10 and step < 0
        return self if far else replace(self, bucket=max(bucket, SHORTEST))

    def fitted(self, room: int) -> ByTime:
        """Return the scale that fits the whole time span into `room` characters."""
        span = self.clock.last - self.clock.first + 1
        return replace(self, bucket=max(-(-span // max(room, 1)), SHORTEST))

    def between(self, first: int, last: int) -> ByTime:
        """Return the scale of the time from one cell to another."""
        end = min(self.time(last + 1) - 1, self.clock.last)
        clock = replace(self.clock, first=self.time(first), last=end)
        return replace(self, clock=clock, is_part=True)

    def ticks(self, _: Columns, begin: int, width: int) -> tuple[str, str]:
        """Return the two lines above the cells: times of day (UTC), and the scale."""
        digits = (
            0 if self.bucket >= SECOND else 3 if self.bucket >= SECOND // 1000 else 6
        )
        step = 12 + digits
        end = min(begin + width, self.size)
        marks = [
            f"|{self._told(cell, digits)}".ljust(step)
            for cell in range(begin, end, step)
        ]
        day = datetime.fromtimestamp(self.time(begin) / SECOND, UTC)
        return "".join(marks)[:width], f"{day:%Y-%m-%d} UTC, a cell is {self.length()}"

    def length(self) -> str:
        """Return the duration of a cell with its unit, like "20 ms"."""
        for unit, word in ((SECOND, "s"), (10**6, "ms"), (10**3, "µs")):
            if self.bucket >= unit:
                return f"{self.bucket / unit:.3g} {word}"
        return f"{self.bucket} ns"

    def _told(self, cell: int, digits: int) -> str:
        seconds, rest = divmod(self.time(cell), SECOND)
        clock = f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"
        return f"{clock}.{rest:09d}"[: 8 + (digits and digits + 1)]


Scale = BySequence | ByTime
