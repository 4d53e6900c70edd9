"""A Python traceback: what was raised, and the last line of the user's own code.

In a chain (`During handling of …`, `The above exception was the direct cause of …`) the
first exception caused the others, and is the one returned. Frames of torch, Python
itself and other installed packages are skipped, because the useful call site is the
user's. Lines are matched one by one with plain regexes: every rank of a large job may
print a traceback, and nothing in it is nested.
"""

from __future__ import annotations

import re
from itertools import pairwise, takewhile

from ncclforensics.parsers.logs import rich_panel, stack_frames
from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.record_starts import GAP

COLUMNS = (
    "exception",
    "message",
    "file",
    "file_line",
    "function",
    "op",
    "toward",
    "beside",
    "raised_in",
    "way",
    "by_launcher",
    "signalled",
    "chained",
    "span",
    "said_at",
    "goes_on",
)
KINDS = {
    **dict.fromkeys(("by_launcher", "signalled", "chained", "goes_on"), "bool"),
    "beside": "bool",
    "span": "int",
    "toward": "int",
}
IS_QUOTED = True  # the event of a traceback quotes what was raised, where that stands
HEAD = "Traceback (most recent call last)"
# Ray's driver prints the frames of a task under the name of its process
_HEAD = re.compile(
    rf"{re.escape(HEAD)}|ray\.exceptions\.RayTaskError\((?P<exception>[\w.]+)\)"
)
CHAINS = ("During handling of the above", "The above exception was the direct cause")
# torch may be installed, or built in place (`/pytorch/torch/distributed/…`)
_MACHINERY = re.compile(r"<frozen |-packages/torch/|/torch/(?:distributed|nn)/")
_PASSED_ON = re.compile(r"Caught \w+ in \w+ (?:worker|replica) ")
# the last line of a traceback, distinguished from code by the exception's name
_ERROR = re.compile(
    r"(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Interrupt|Exit|Iteration)(?::\s|\s*$)"
)
# programs that start ranks but are not ranks themselves
_LAUNCHER = re.compile(
    r"/torch/distributed/(?:run\.py|launch\.py|launcher/|elastic/)"
    r"|/torch/multiprocessing/spawn\.py|/accelerate/commands/|/deepspeed/launcher/"
    r"|/paddle/distributed/(?:launch(?:\.py|/)|utils\.py$|fleet/launch)"
    r"|/horovod/runner/|/bin/(?:torchrun|accelerate|deepspeed|horovodrun)$"
)
# how a handler of signals is called, whatever its name: Python passes it these two
_HANDLER = re.compile(r"\s+(?:return )?[\w.]+\((?:signum|signal|sig), frame\)\s*$")
_INSTALLED = re.compile(r"-packages/|/lib(?:64)?/python3|^<")
_FRAME = re.compile(
    r'\s+File "(?P<file>[^"]+)", line (?P<file_line>\d{1,9})(?:,? in (?P<function>.+))?'
)
# files with the functions of torch.distributed that training programs call
_CALLS = re.compile(
    r"(?:^|/)torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$"
)
_OP = re.compile(
    r"(?:all_reduce|broadcast|barrier|monitored_barrier|reduce|gather|scatter"
    r"|i?send|i?recv|batch_isend_irecv|wait_tensor"
    r"|(?:all_gather|reduce_scatter|all_to_all)\w*|\w+_object(?:_list|s)?)$"
)
# with whom a line of code passes a message: `dist.recv(x, rank - 1)`, `src=prev_rank`
_PASSES = re.compile(
    r"\bi?(?:send|recv)\w*\((?:[^;]*?[,=] *)?"
    r"(?:[\w.()\[\]]+ *(?P<sign>[+-]) *1\b|\w*(?P<name>prev|next)\w*)"
)
_GAP = re.compile(rf"\s*{GAP}")
# carets lose their blanks where a line is broken at them
_INNER = re.compile(rf"{GAP}|[~^]+\s*$")
_RAISED = re.compile(
    # a lower-case word without a message is the rest of a wrapped line; a level begins
    # a line printed by `logging`
    r"(?!Failures:|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):|[a-z]\w*\s*$)"
    # in brackets, what Ray wraps; behind a logger's name no blank follows the colon
    r"(?P<exception>[A-Za-z_]\w*(?:\.\w+)*)(?:\([\w.]+\))?"
    r"(?::\s*(?P<message>(?<=\s).*|))?\s*$"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row for the first traceback in `text`, or an empty list.

    Row: `exception` (its type as printed, or as Ray's driver names it above frames
    whose end is cut off), `message` (its first line, null if it has no
    colon), `file`, `file_line` and `function` of the user's last frame, `op` (the
    torch.distributed function that was called, if visible), `toward` (1 if the user's
    line passes a message with the next rank, -1 with the one before), `beside` (whether
    it says so in numbers, `rank + 1`, not by a name), `raised_in` (the file of the
    innermost frame, user code or not), `way` (its frames as `stack_frames.way` joins
    them), `by_launcher` (whether it was raised in a launcher, which is not a rank),
    `signalled` (whether it was raised in a signal handler, whose frames are left out),
    `chained` (whether it led to another
    exception), `span` (its number of lines), `said_at` (the line of `text`, from 0,
    with the exception), `goes_on` (null: see `captures`). Truncated values are null,
    and so is `raised_in` where somebody left out the last frames.
    """
    whole = capped(text)
    if not (head := _HEAD.search(whole)):
        return []
    before, after = whole[: head.start()], whole[head.end() :]
    # a quoted traceback is indented as a whole
    margin = before.rpartition("\n")[2]
    margin = margin if margin.isspace() else ""
    lines = [line.removeprefix(margin) for line in after.splitlines()[1:]]
    if rich_panel.is_top(whole[before.rfind("\n") + 1 :].partition("\n")[0]):
        lines = list(rich_panel.plain(lines))
    lines = _indented(lines)
    block = list(takewhile(_is_inside, lines))
    rest = lines[len(block) :]
    # the program stood where the signal came; the handler's own calls are teardown
    own = list(takewhile(lambda line: not _HANDLER.match(line), block))
    frames = [found for line in own if (found := _FRAME.match(line))]
    tail = takewhile(lambda line: not _FRAME.match(line), reversed(own))
    shortened = any(map(_GAP.match, tail))
    if signalled := len(own) < len(block):
        frames = frames[:-1]  # the frame that calls the handler
    raised = _RAISED.match(rest[0]) if rest else None
    if not frames and not raised:
        return []
    user = _users(frames)
    span = 1 + len(block) + bool(raised)
    end = before.count("\n") + 1 + len(block)
    if raised and _PASSED_ON.match(raised["message"] or ""):
        # a worker's exception, re-raised; its own traceback follows
        for row in parse("\n".join(rest[1:])):
            at = row["said_at"]
            below = end + 1 + at if isinstance(at, int) else None
            return [{**row, "span": span, "said_at": below}]
    return [
        {
            "exception": (raised or head)["exception"],
            "message": _stripped(raised["message"]) if raised else None,
            **_call_site(user),
            "op": _op(frames),
            **_toward(own, user),
            "raised_in": frames[-1]["file"] if frames and not shortened else None,
            "way": _way(frames),
            "by_launcher": bool(frames and _LAUNCHER.search(frames[-1]["file"])),
            "signalled": signalled,
            "chained": _is_chained(rest),
            "span": span,
            "said_at": end if raised else None,
            "goes_on": None,
        }
    ]


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.strip()


def _indented(lines: list[str]) -> list[str]:
    """Restore the indentation if a web page or a chat stripped it from all lines."""
    if not lines or not lines[0].startswith('File "'):
        return lines
    end = next((i for i, line in enumerate(lines) if _ERROR.match(line)), len(lines))
    return [f"  {line}" for line in lines[:end]] + lines[end:]


def _is_inside(line: str) -> bool:
    return not line.strip() or line[0] in " \t" or bool(_INNER.match(line))


def _users(frames: list[re.Match[str]]) -> re.Match[str] | None:
    """Return the innermost frame of user code, or else the best one available."""
    own = [frame for frame in frames if not _MACHINERY.search(frame["file"])]
    users = [frame for frame in own if not _INSTALLED.search(frame["file"])]
    return next(reversed(users or own or frames), None)


def _call_site(frame: re.Match[str] | None) -> dict[str, object]:
    if frame is None:
        return {"file": None, "file_line": None, "function": None}
    return {
        "file": frame["file"],
        "file_line": int(frame["file_line"]),
        "function": _name(frame) or None,
    }


def _way(frames: list[re.Match[str]]) -> str | None:
    told = [(_name(f), f["file"], int(f["file_line"])) for f in reversed(frames)]
    return stack_frames.way(told) or None


def _name(frame: re.Match[str]) -> str:
    return (frame["function"] or "").strip()


def _toward(lines: list[str], frame: re.Match[str] | None) -> dict[str, object]:
    """Return with which neighbour the code under the user's frame passes a message."""
    at = None if frame is None else frame.string
    for line, code in pairwise(lines):
        if line == at and (told := _PASSES.search(code)):
            next_ = told["sign"] == "+" or told["name"] == "next"
            return {"toward": 1 if next_ else -1, "beside": told["sign"] is not None}
    return {"toward": None, "beside": None}


def _op(frames: list[re.Match[str]]) -> str | None:
    """Return the outermost torch.distributed function: what the program called."""
    for frame in frames:
        name = _name(frame)
        if _CALLS.search(frame["file"]) and _OP.match(name):
            return name
    return None


def _is_chained(rest: list[str]) -> bool:
    """Whether the exception at the start of `rest` was followed by another one."""
    return any(
        line.startswith(CHAINS) for line in takewhile(lambda x: HEAD not in x, rest)
    )
