"""How the first line of a record begins, whatever program or launcher wrote it.

A line that begins like this is not the rest of the line above it, even if that one is
as wide as the terminal was.
"""

from __future__ import annotations

from ncclforensics.parsers.logs import decorations, headers
from ncclforensics.parsers.logs.ascii_regex import ascii_only

_TRACEBACK = (
    r"Traceback \(most recent call last\)",
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt):(?: |$)",
    # without words, by its module
    r"(?:[a-z_]\w*\.)+[A-Z]\w*(?:Error|Exception)\s*$",
    r"File \"|During handling of the above|The above exception was",
    r"Exception raised from |frame #\d+: |terminate called|Fatal Python error",
)
# of py-spy and gdb
_STACK = (
    r"Process \d+: |(?:Current thread|Thread) (?:0x[0-9A-Fa-f]+|\d+) |Python v\d"
    r"|#\d{1,4} +(?:0x[0-9a-f]{6,} in |[\w:~<>]+ ?\()"
)
_LEVEL = r"\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)[\]: ]"
_PROGRAM = (
    r"(?:srun|salloc|sbatch|scancel|slurmstepd|mpirun|mpiexec|prterun|kubectl): "
    r"|[a-z][\w.-]*: (?:\w+: )?(?:error|warning|fatal)\b"
)
# what people put where they left lines out
GAP = r"(?:# ?)?(?:[\[(<] ?)?(?:\.{2,}|…|snip(?:ped)?)(?: ?[\])>])?\s*$"
# a shell's prompt and its host: of bash, of bash on Red Hat, of zsh
_HOST = r"[\w.-]+@([A-Za-z0-9][\w.-]*)"
PROMPT = (
    rf"(?:\([\w.-]+\) ?)?(?:{_HOST}:[~/][^\s$#]* *[$#]"
    rf"|\[{_HOST} [^\]\s]+\] ?[$#]|{_HOST} [~/\w][^\s%]* %)(?: |$)"
)
# an entry of torchelastic's table
_ENTRY = r"\[\d{1,7}\]:\s*$"
_RULE = r"[=*-]{4,}|[|\x{2500}-\x{257f}]|[+]{1,2}[-=]"  # of a table, too
# a property, whose name is padded up to a colon
_PROPERTY = r"[A-Za-z][^:\n]{0,60}\s{2}: \S"
# of headers that may be cut themselves
_HEADS = r"\[?[DIWECF]\d{3,4} \d\d:\d\d:\d\d|[\w.-]+:\d+:\d+ \[\d"
# quotation marks are stripped before; what is left is the second half of `<42>`
_LAUNCHERS = "|".join(v for k, v in decorations.DECORATIONS.items() if k != "quote")
_ANYWHERE = "|".join(
    (
        *_TRACEBACK,
        _STACK,
        _LEVEL,
        _PROGRAM,
        GAP,
        PROMPT,
        _ENTRY,
        _RULE,
        _HEADS,
        _PROPERTY,
    )
)
BEGINS = ascii_only(
    rf"^\s*(?:{_ANYWHERE})|^[ \t]*{headers.ANY}|^[ \t]*(?:{_LAUNCHERS})"
)
