"""What happens to a log on its way to the person who has to read it.

Each function of `SPOILINGS` maps the lines of one log and what its path tells (a
`Place`) to the lines that arrive. Widths are those of terminals; envelopes are the
formats of the programs named, written from their documentation.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTHS = (60, 80, 100, 132)
MAIL = 76  # columns to which a mail program wraps what is quoted
HANG = 11  # columns of what stands left of a message
EACH = 6  # lines between two times of a chat
CAPTURED = ".txt"  # what a person wrote to a file, not a process
ELIDED = "..."  # stands for what somebody left out
LAUNCHER = "x7k2q"  # whose log is of all ranks

# `E1120 21:20:41.71` of glog, and ISO 8601
_STAMP = re.compile(
    r"(?:\b[DIWECF](?P<month>\d\d)(?P<day>\d\d)|(?P<date>\d{4}-\d\d-\d\d))[ T]"
    r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
)
# how long a process waited before it wrote a line
_WAITED = re.compile(
    r"Timed out waiting (?P<ms>\d+) ?ms|ran for (?P<ran>\d+) milliseconds"
    r"|timed out after (?P<s>\d+) ?s"
)
DIGITS = 6  # of a second's fraction
YEAR, START = 2026, "2026-11-20T10:00:00.000000Z"
# what a person takes for a line worth quoting
_KEY = re.compile(
    r"(?i)error|warn|exception|traceback|timeout|timed out|fail|abort|kill|signal"
    r"|mismatch|unreachable|refused|missing|stuck|\bXid\b|exit ?code|out of memory"
    r"|last enqueued|denied|not supported|invalid|different|detected|waiting|joined"
)


@dataclass(frozen=True, slots=True)
class Place:
    """What the path of a log tells, and the last time that its process wrote at all."""

    name: str
    rank: int | None
    host: str | None
    last: str = ""


Lines = list[str]


def broken(width: int, lines: Lines, _: Place) -> Lines:
    """Break at the last column, as a terminal does, also inside a word."""
    return [
        line[at : at + width]
        for line in lines
        for at in range(0, max(len(line), 1), width)
    ]


def captured(width: int, lines: Lines, place: Place) -> Lines:
    """Break as a terminal does; blanks at the end are gone, as in a tmux pane."""
    return [line.rstrip() for line in broken(width, lines, place)]


def wrapped(width: int, lines: Lines, _: Place) -> Lines:
    """Break at the last blank that fits, and inside a word that is longer."""
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line,
            width,
            break_on_hyphens=False,
            replace_whitespace=False,
            expand_tabs=False,
        )
        or [""]
    ]


def folded(width: int, lines: Lines, _: Place) -> Lines:
    """Break behind the last blank that fits, which stays: `fold -s`."""
    parts = []
    for line in lines:
        rest = line
        while len(rest) > width:
            cut = rest.rfind(" ", 0, width) + 1 or width
            parts.append(rest[:cut])
            rest = rest[cut:]
        parts.append(rest)
    return parts


def indented(width: int, lines: Lines, _: Place) -> Lines:
    """Break at blanks; what goes on is indented, as in the columns of a log handler."""
    fill = textwrap.TextWrapper(
        width,
        subsequent_indent=" " * HANG,
        break_on_hyphens=False,
        replace_whitespace=False,
        expand_tabs=False,
    )
    return [part for line in lines for part in fill.wrap(line) or [""]]


def ahead(mark: str, lines: Lines, _: Place) -> Lines:
    """Put a mark in front of each line."""
    return [mark + line for line in lines]


def replied(lines: Lines, place: Place) -> Lines:
    """Wrap and quote as a mail program does in an answer."""
    return ahead("> ", wrapped(MAIL - 2, lines, place), place)


def numbered(form: str, lines: Lines, _: Place) -> Lines:
    """Put the number of the line in front, as `cat -n` and `grep -n` do."""
    return [form.format(number, line) for number, line in enumerate(lines, 1)]


def fenced(lines: Lines, _: Place) -> Lines:
    """Put a Markdown fence around."""
    return ["Here is what it prints:", "", "```text", *lines, "```"]


def escaped(lines: Lines, _: Place) -> Lines:
    """Escape what HTML escapes."""
    return [html.escape(line) for line in lines]


def curled(lines: Lines, _: Place) -> Lines:
    """Make quotes, dashes and dots typographic, as word processors do."""
    text = "\n".join(lines)
    for plain, opening, closing in (
        ('"', "\u201c", "\u201d"),
        ("'", "\u2018", "\u2019"),
    ):
        text = re.sub(rf"(^|[\s(\[{{=]){plain}", rf"\1{opening}", text, flags=re.M)
        text = text.replace(plain, closing)
    return text.replace("...", "\u2026").replace("--", "\u2013").split("\n")


def spaced(lines: Lines, _: Place) -> Lines:
    """Make every indentation of no-break spaces, as a web page does."""
    return [re.sub(r"^ +| {2,}", lambda m: "\xa0" * len(m[0]), line) for line in lines]


def chatted(lines: Lines, _: Place) -> Lines:
    """Put a time of a chat between some lines."""
    parts = []
    for at in range(0, len(lines), EACH):
        parts += [f"[10:{at // EACH % 60:02d} AM] Jane Doe", *lines[at : at + EACH]]
    return parts


def on_one_line(lines: Lines, _: Place) -> Lines:
    """Join everything with blanks, as a field of a ticket does."""
    return [" ".join(line.strip() for line in lines if line.strip())]


def doubled(lines: Lines, _: Place) -> Lines:
    """Put an empty line below each line, as a paste from a web page does."""
    return [part for line in lines for part in (line, "")]


def condensed(lines: Lines, _: Place) -> Lines:
    """Keep the lines that a person takes for the key ones, with dots between."""
    parts: Lines = []
    for line in lines:
        if _KEY.search(line):
            parts.append(line)
        elif parts and parts[-1] != ELIDED:
            parts.append(ELIDED)
    return parts or lines[-3:]


def last_time(lines: Lines) -> str:
    """Return the last time that some lines print, "" without one."""
    return max((_moment(m) for m in map(_STAMP.search, lines) if m), default="")


def timed(lines: Lines, place: Place) -> Iterator[tuple[str, str]]:
    """Yield each line with the time when it was written, RFC 3339.

    That is not before what stands above it. A line without a time of its own, as of a
    traceback, was written when the next line was at the latest: what a rank raises
    after a wait is not as old as what it logged before, and a pipe's buffer is passed
    on when it is full. Below the last time of its process it is later by the longest
    wait told there.
    """
    stamps = [_moment(found) if found else "" for found in map(_STAMP.search, lines)]
    latest = list(accumulate(stamps, max))
    last = max(place.last, latest[-1] if latest else "") or START
    end = max((n for n, stamp in enumerate(stamps) if stamp), default=-1)
    waits = [_waited(line) for line in lines[end + 1 :]]
    after = _later(last, max(waits, default=0.0))
    written = []
    for own, now in zip(reversed(stamps), reversed(latest), strict=True):
        after = now if own else after
        written.append(after)
    yield from zip(reversed(written), lines, strict=True)


def _waited(line: str) -> float:
    """Return the seconds that a line says its process waited, 0 if it says nothing."""
    found = _WAITED.search(line)
    if not found:
        return 0.0
    return float(found["s"] or int(found["ms"] or found["ran"]) / 1000)


def _later(moment: str, seconds: float) -> str:
    """Return a time that is later by so many seconds."""
    at = datetime.fromisoformat(moment) + timedelta(seconds=seconds)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _moment(found: re.Match[str]) -> str:
    date = found["date"] or f"{YEAR}-{found['month']}-{found['day']}"
    part = (found["part"] or "").ljust(DIGITS, "0")[:DIGITS]
    return f"{date}T{found['clock']}.{part}Z"


def docker(lines: Lines, place: Place) -> Lines:
    """Write as docker's json-file driver does."""
    return [
        json.dumps(
            {"log": line + "\n", "stream": "stderr", "time": t}, separators=(",", ":")
        )
        for t, line in timed(lines, place)
    ]


def cri(lines: Lines, place: Place) -> Lines:
    """Write as containerd and CRI-O do."""
    return [f"{t} stderr F {line}" for t, line in timed(lines, place)]


def journald(lines: Lines, place: Place) -> Lines:
    """Write as `journalctl -o json` does."""
    return [
        json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(
                    int(datetime.fromisoformat(t).timestamp() * 10**6)
                ),
                "PRIORITY": "6",
                **({"_HOSTNAME": place.host} if place.host else {}),
                "MESSAGE": line,
            }
        )
        for t, line in timed(lines, place)
    ]


def loki(lines: Lines, place: Place) -> Lines:
    """Write as `logcli query -o jsonl` does."""
    labels = {"app": "train", **({"node": place.host} if place.host else {})}
    return [
        json.dumps({"labels": labels, "line": line, "timestamp": t})
        for t, line in timed(lines, place)
    ]


def kubectl(lines: Lines, place: Place) -> Lines:
    """Write as `kubectl logs --prefix --timestamps` does: a stream per container."""
    return [f"[pod/{pod(place)}/main] {t} {line}" for t, line in timed(lines, place)]


def pod(place: Place) -> str:
    """Return the name of the pod that writes a log: of its host, its rank, or all."""
    whose = LAUNCHER if place.rank is None else place.rank
    return f"train-{place.host or whose}"


def srun(lines: Lines, place: Place) -> Lines:
    """Label as `srun -l` does; a launcher's own log is that of task 0."""
    return ahead(f"{place.rank or 0}: ", lines, place)


def mpirun(lines: Lines, place: Place) -> Lines:
    """Tag as `mpirun --tag-output` does, where the path tells the rank."""
    if place.rank is None:
        return lines
    return ahead(f"[1,{place.rank}]<stderr>:", lines, place)


def shipped(how: Callable[[Lines, Place], Lines], lines: Lines, place: Place) -> Lines:
    """Ship what processes write; what a person captured beside it stays as it is.

    A shipper never sees what `ps`, `dmesg` or `sacct` print to a file.
    """
    return lines if place.name.endswith(CAPTURED) else how(lines, place)


SPOILINGS: dict[str, Callable[[Lines, Place], Lines]] = {
    **{
        f"{how.__name__} at {width}": partial(how, width)
        for how in (broken, captured, wrapped, folded, indented)
        for width in WIDTHS
    },
    **{f"quoted {mark!r}": partial(ahead, mark) for mark in ("> ", "| ", "- ", "* ")},
    "cat -n": partial(numbered, "{:6d}\t{}"),
    "grep -n": partial(numbered, "{}:{}"),
    "numbered": partial(numbered, "{}. {}"),
    "less -N": partial(numbered, "{:7d} {}"),
    **{
        how.__name__: how
        for how in (
            *(replied, fenced, escaped, curled, spaced, chatted, doubled),
            *(on_one_line, condensed),
        )
    },
    **{
        how.__name__: partial(shipped, how)
        for how in (docker, cri, journald, loki, kubectl, srun, mpirun)
    },
}
