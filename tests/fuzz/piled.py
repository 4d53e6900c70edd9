"""Targets of which many inputs are read together, as dumps and lines are in earnest.

A frame costs more than the few bytes of an input, and text is taken apart in Rust,
where no coverage is seen. So `each` does what Python does with one input and
`together` makes the frames of some hundred; both are what the target of that name
does with one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from fuzz import shares
from fuzz.targets import PARSERS, both, conforming, pieces, same, sources, stored
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import error_json, ras_json
from ncclforensics.parsers.flight_recorder import dump_reader, dump_rows
from ncclforensics.parsers.flight_recorder.dump_reader import Beside
from ncclforensics.parsers.logs import framing, log_reader, timestamps
from ncclforensics.parsers.logs import lines as parsers_lines
from ncclforensics.sources.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(slots=True)
class Pile:
    """A target in two parts, and the inputs that wait for the second.

    `each` is told what those of one pile share.
    """

    each: Callable[[bytes, Any], Any]
    together: Callable[[Sequence[Any], Any], object]
    most: int
    begin: Callable[[], Any] = Beside
    inputs: list[bytes] = field(default_factory=list)
    _told: list[Any] = field(default_factory=list)
    _shared: Any = None

    def take(self, data: bytes) -> None:
        """Read an input, and all that wait once there are enough."""
        if len(self._told) in (0, self.most):
            self.inputs, self._told, self._shared = [], [], self.begin()
        self.inputs.append(data)
        self._told.append(self.each(data, self._shared))
        if len(self._told) == self.most:
            self.together(self._told, self._shared)


def _content(kind: str) -> Callable[[bytes, Beside], Any]:
    def read(data: bytes, beside: Beside) -> Any:
        source = stored(data, kind)
        content, *_ = dump_reader._content(source, beside)
        return content and (source, content)

    return read


def _rows(told: Sequence[Any], beside: Beside) -> None:
    conforming(Frames(dump_rows.frames(list(filter(None, told)), beside.stacks)))


def _repeats(told: Sequence[Any], besides: tuple[Beside, Beside]) -> None:
    same([pair for pair in told if pair], besides)


def _bytes(data: bytes, _: Beside) -> bytes:
    return data


def _log(inputs: Sequence[bytes], _: Beside) -> None:
    conforming(log_reader.read(stored(b"\n".join(inputs), "log")))


def _framed(inputs: Sequence[bytes], _: Beside) -> None:
    raw = [data.decode("utf-8", "replace") for data in inputs]
    lines = {"line": range(1, len(raw) + 1), "raw": raw}
    framed = framing.frame(pl.DataFrame(lines, {"line": pl.Int64, "raw": pl.String}))
    assert framed["line"].is_sorted()
    assert framed["t"].drop_nulls().dt.year().is_between(1677, 2262).all()


def _sources(inputs: Sequence[bytes], _: Beside) -> None:
    """Read what are logs as one file: each costs some frames."""
    logs = [data for data in inputs if kind_of(data).kind == "log"]
    others = [data for data in inputs if kind_of(data).kind != "log"]
    sources([b"\n".join(logs), *others])


def _texts(told: Sequence[bytes], _: Beside) -> None:
    """Take streams apart, those of one kind together: ASCII, UTF-8 and damaged."""
    kinds: dict[str, list[bytes]] = {}
    for data in told:
        kinds.setdefault(_coding(data), []).append(data)
    for some in kinds.values():
        data = b"\n".join(some)
        block = parsers_lines.decoded(data, 1)
        lines = block.lines
        assert lines.schema == {"line": pl.Int64, "raw": pl.String}
        assert lines.height == block.count == data.count(b"\n") + (data[-1:] != b"\n")
        assert lines["line"].to_list() == list(range(1, block.count + 1))


def _coding(data: bytes) -> str:
    if data.isascii():
        return "ascii"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "damaged"
    return "utf-8"


def _report(data: bytes, _: Beside) -> ras_json.Report | str:
    return ras_json.content(stored(data, "ras_json"))


def _reports(told: Sequence[ras_json.Report | str], _: Beside) -> None:
    """Take the rows of all reports for those of one, and the time of each."""
    reports = [each for each in told if not isinstance(each, str)]
    rows = [row for report in reports for row in report.rows]
    source = stored(b"", "ras_json")
    conforming(ras_json.frames(source, ras_json.Report("", rows)))
    stamps_ = pl.DataFrame({"stamp": [report.timestamp for report in reports]})
    stamps_.select(timestamps.absolute("stamp").cast(tables.TIME))


def _error(data: bytes, _: Beside) -> Any:
    source = stored(data, "error_json")
    return source, error_json.content(source)


def _errors(told: Sequence[Any], _: Beside) -> None:
    files = [(source, each) for source, each in told if not isinstance(each, str)]
    conforming(error_json.frames(files))


def _structure(data: bytes, _: Beside) -> Any:
    number = data[0] % len(PARSERS) if data else 0
    return number, PARSERS[number].parse(data[1:].decode("utf-8", "replace"))


def _structures(told: Sequence[Any], _: Beside) -> None:
    for number in range(len(PARSERS)):
        rows = [row for own, found in told if own == number for row in found]
        pl.DataFrame(rows, infer_schema_length=None, strict=False)


PILES = {
    "inner": Pile(_structure, _structures, 400),
    "dump": Pile(_content("flight_recorder_pickle"), _rows, 1000),
    "dump_json": Pile(_content("flight_recorder_json"), _rows, 400),
    "repeats": Pile(both, _repeats, 1000, lambda: (Beside(), Beside())),
    "source": Pile(_bytes, _sources, 2000),
    "log": Pile(_bytes, _log, 12_000),
    "framed": Pile(_bytes, _framed, 2000),
    "lines": Pile(lambda data, _: pieces(data), _texts, 400),
    "ras_json": Pile(_report, _reports, 400),
    "error_file": Pile(_error, _errors, 400),
    "share": Pile(_bytes, shares.together, shares.MANY),
}
