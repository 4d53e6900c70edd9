"""Rank and host from a path: a table of launchers' directory layouts.

`FOLDERS` are tried on each directory, innermost last, and their matches add up; of
`FILES`, the first that matches the file's stem counts. Capture names are field names.
An index that could mean something else (a rotation, a date, a device, a rank within a
group) is ignored: no information does less harm than wrong information.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from ncclforensics.sources import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

Who = dict[str, int | str]

NEIGHBOURS = 256  # folders that are remembered: the files of one stand together

# an unambiguous host name; `gpu3` may be a device and `node1` a label
SHORT_HOST = (
    r"(?:(?:gpu-?node|compute|node|host|dgx|hgx|nid|cn|gn)-?[a-z]?\d{2,}|gpu-?\d{3,}"
    r"|gpu-[a-z]\d{2,}|(?:gpu-node|compute-node|gpu-host)-[a-z0-9]+|ip(?:-\d{1,3}){4})"
)
HOST = SHORT_HOST + r"(?:[.-][a-z0-9][a-z0-9.-]*)?"
# a host where only a host can be: has a letter, and is not a usual word of file names
ANY_HOST = (
    r"(?!(?:logs?|debug|info|trace|out|err|rank|tests?|file|pid|old|new|all|v|exp|run"
    r"|job|step|try|part|boot|node|gpu)[.\d-]*(?:[._-]|$))"
    # the model of a GPU
    r"(?!(?:mi\d{3}[ax]?|(?:gb?|[abhlpv])\d{2,3}s?|rtx\d{4})(?:x\d+)?$)(?=[a-z0-9.-]*[a-z])[a-z0-9][a-z0-9.-]*?"
)
# command options that occur in the names of saved command output
ASKED = r"(?:[a-z]|b?-?\d|ctime|boot|full|all|tail|short|iso|human|current|utc)"
POD = r"(?:[a-z0-9][a-z0-9.-]*-)?(?:worker|master|launcher)-\d+"
# a rank within something smaller than the job
SUBRANK = (
    r"(?:local|node|machine|group|role|host|shard|replica|tensor|data|pipeline|model"
    r"|expert|context|(?<![a-z])(?:tp|pp|dp|ep|cp|sp|mp|fsdp|hsdp))[-_.]?rank"
)
RANK = r"rank[-_.=]?(?P<rank>\d{1,6})(?!\d)"

FOLDERS = (
    rf"(?:global[-_]?)?{RANK}",  # Open MPI and Horovod --output-filename: rank.3/stdout
    rf"(?P<host>{HOST})",
    rf"(?P<host>{POD})",
    rf"{POD}_(?P<host>(?=\D*\d){ANY_HOST})",
    r"attempt_(?P<attempt>\d+)",
    # Ray's logs of a cluster, a folder per node
    r"(?P<host>(?:10|172|192)(?:\.\d{1,3}){3})",
)
# matched against the whole path
PATHS = (
    # torchrun --log-dir: the index is the rank on that node, not in the job
    r"/attempt_\d+/(?P<local_rank>\d+)/[^/]+$",
    r"[._-]pid[._=-]?(?P<pid>\d{2,7})(?=[._-]|$)(?=[^/]*$)",
    # kubelet: <namespace>_<pod>_<uid>/<container>/<restart>.log
    r"/pods/[^/_]+_(?P<host>[^/_]+)_[0-9a-f-]{8,}/[^/]+/(?P<attempt>\d+)\.log[^/]*$",
    r"[/._-](?P<stream>stdout|stderr)(?:\.(?:log|txt|out))?$",
    r"/(?P<stream>stdout|stderr)[._-][^/]*$",
    # Slurm %j_%t; a year or a date in front is not a job id
    r"/(?!(?:19|20)\d\d(?:\d{4})?_)\d{4,}_(?P<rank>\d{1,5})\.(?:out|err)$",
)
FILES = (
    # a host next to a rank: nccl.gpu0002.rank2, rank2_gpu0002
    rf"(?!.*{SUBRANK})(?:[a-z][a-z_.-]*[._-])?(?P<host>{SHORT_HOST}(?:\.[a-z][a-z0-9-]*)*?)"
    rf"(?:[._-](?P<pid>\d{{3,}}))?[._-]{RANK}(?:[._-](?!\d)[^/]*)?",
    rf"(?!.*{SUBRANK})(?:[a-z][a-z_.-]*[._-])?{RANK}[._-](?P<host>{SHORT_HOST})",
    # MMEngine: <date>_<time>_<user>@<host>_device<N>_rank<N>
    rf"(?:[0-9]{{8}}_[0-9]{{6}}_)?(?:[^@]*@)?(?P<host>{ANY_HOST})_device"
    rf"(?P<local_rank>\d{{1,2}})_{RANK}",
    # a host next to a local rank, and maybe its process: node05_lr0_31772
    rf"(?:[a-z][a-z_.-]*[._-])?(?P<host>{SHORT_HOST})[._-](?:local[-_]?rank|lr)[-_.=]?"
    r"(?P<local_rank>\d{1,2})(?:[._-](?P<pid>\d{3,}))?",
    # NCCL_DEBUG_FILE with %h and %p
    rf"nccl(?:[._-]?(?:debug|log|info|trace))?\.(?P<host>{ANY_HOST})\.(?P<pid>\d+)",
    rf"nccl(?:[._-]?(?:debug|log|info|trace))?[._-](?P<host>{HOST})[._-](?P<pid>\d+)",
    rf"nccl(?:[._-]?(?:debug|log|info|trace))?[._-](?P<host>{HOST})",
    # Slurm: %N.%t, then %j_%t; %A_%a of a job array looks alike, see path_check.py
    rf"[a-z]+[._-](?:\d+[._-])?(?P<host>{HOST})[._-](?P<rank>\d{{1,5}})",
    rf"(?:slurm|job|out|err)\.(?:\d+\.)?(?P<host>(?=\D*\d+\D*\d|\D*\d\d){ANY_HOST})"
    r"\.(?P<rank>\d{1,5})",
    rf"\d{{3,}}[._-](?P<host>{HOST})[._-](?P<rank>\d{{1,5}})",
    r"(?:slurm|job|out|err)[._-]\d{3,}(?:\.\d+)?_(?P<rank>\d{1,5})",
    # Slurm: %j_%t_%N, where even `gpu05` is a node
    r"(?!(?:19|20)\d{6}_)\d{5,}_(?P<rank>\d{1,5})_"
    r"(?P<host>(?!(?:run|step|exp|try|attempt|part|rank|epoch|iter)\d)[a-z][a-z-]*\d[a-z0-9.-]*)",
    # Ray: worker-<worker id>-<job id>-<pid>
    r"(?:python-core-)?worker-[0-9a-f]{20,}-[0-9a-f]{8,}-(?P<pid>\d+)",
    # Azure ML: user_logs/std_log_process_3.txt
    r"std_log_process_(?P<rank>\d{1,5})",
    # NeMo: nemo_log_globalrank-5_localrank-5
    r".*globalrank-(?P<rank>\d+)_localrank-(?P<local_rank>\d+)",
    r".*(?<![a-z])local[-_]?(?:rank)?[-_.=]?(?P<local_rank>\d{1,3})(?!\d|[-_.]\d{1,4}(?!\d))",
    rf".*{SUBRANK}.*",
    rf"(?:.*(?<![a-z]))??(?:global[-_]?|g)?{RANK}(?![-_]\d{{1,5}}(?!\d)).*",
    # dmesg -T, journalctl -k, nvidia-smi -q, with their options
    rf"(?:dmesg|kern(?:el)?|syslog|messages|journal(?:ctl)?|nvidia[._-]?smi|systemctl"
    # an option is none of the host, also where what follows it names none; `*+` loses
    # groups in Python 3.11.2, an atomic group does not
    rf"|ibstat|ibv[._-]devinfo|dcgmi?)(?>(?:[._-]{ASKED}(?![a-z0-9]))*)"
    rf"(?:[._-](?P<host>(?!{ASKED}$)(?:{HOST}|(?=\D*\d){ANY_HOST})))?",
    # the same by its host: fx111.dmesg; what conserver or ipmitool saves of a console
    rf"(?P<host>{SHORT_HOST}|(?=\D*\d){ANY_HOST})(?:[._-](?:dmesg|kern(?:el)?|syslog|journal"
    r"|(?:nvidia[._-]?)?smi|dcgm)"
    r"|\.(?:console|sol))",
    r"(?:[a-z]+[._-])?(?P<host>(?:10|172|192)(?:\.\d{1,3}){3})",
    # an exporter's port: gpu0003_9400
    rf"(?P<host>{SHORT_HOST})[_:]\d{{4,5}}",
    rf"(?:[a-z]+[._-])?(?P<host>{HOST})",
    # in the folder of a host or pod, `worker-30` is a process of it
    rf"(?:(?:describe|get|events?|pods?|yaml|logs?|kubectl)[._-])*(?P<pod>{POD})",
    # kubelet's /var/log/containers: <pod>_<namespace>_<container>-<id>
    r"(?P<host>[a-z0-9][a-z0-9.-]*)_[a-z0-9-]+_[a-z0-9.-]+-[0-9a-f]{64}",
)
# Flight Recorder: only the name has the rank, in any form that a dump writer chose
DUMPS = (
    rf".*{SUBRANK}.*",
    rf".*?(?P<host>{SHORT_HOST}(?:[.-][a-z0-9]+)*?)(?:[._-](?:\d|[1-9]\d))?[._-]{RANK}",
    # no host name has an underscore
    rf"(?:.*[._-])?(?P<host>{SHORT_HOST})_(?P<rank>\d{{1,6}})",
    rf".*?(?P<host>{HOST})",
    r".*rank[-_](?P<host>(?=[a-z0-9.-]*[a-z.-])[a-z0-9][a-z0-9.-]*)_(?P<rank>\d{1,6})",
    rf".*{RANK}(?![-_.]\d{{1,6}}(?!\d)).*",
    r"(?:.*\D)?(?<!gpu)(?<!node)(?<!host)(?<!cuda)(?<!step)(?<!iter)(?<!attempt)"
    r"(?<!gpu[-_])(?<!node[-_])(?<!host[-_])(?<!step[-_])(?<!iter[-_])(?<!attempt[-_])"
    r"(?P<rank>\d{1,6})\D*",
)

_PACKED = re.compile(r"\.(?:gz|zst|xz|bz2|tgz|txz|tar|zip)$", re.IGNORECASE)
_ENDING = re.compile(
    r"\.(?:log|txt|out|err|text|jsonl?|ndjson|csv|tsv|xml|ya?ml|html?|md|raw|prom)"
    r"(?:\.\d{1,2})?$",
    re.IGNORECASE,
)
_DUMP_ENDING = re.compile(
    r"(?:\.(?:json|pkl|pickle|bin|pt|txt|log|dump|dat|trace|bak|old)"
    r"|[-_. ]?\(\d+\)|[-_.]?of[-_.]?\d+|[-_.]v\d+)$",
    re.IGNORECASE,
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when a path first meets it: dumps meet none of `FILES`."""
    return re.compile(pattern, re.IGNORECASE)


def read(path: str, kind: str) -> Mapping[str, int | str]:
    """Return the fields found in `path`: rank, local_rank, attempt, pid, host, stream.

    Fields not found are absent. `path` is the name in the evidence, preceded by that of
    the directory that the user gave; an archive counts as a directory. `kind` is the
    file's kind: the last number in a dump's name is its rank, in a log's it is not.
    """
    *folders, name = path.replace("!", "/").split("/")
    folders = [_bare(folder, _PACKED) for folder in folders]
    name = _bare(name, _PACKED)
    who = dict(_of_folders(*folders))
    whole = "/".join(["", *folders, name])
    for pattern in PATHS:
        _add(who, _compiled(pattern).search(whole))
    is_dump = kind.startswith("flight_recorder")
    stem = _bare(name, _DUMP_ENDING if is_dump else _ENDING)
    for pattern in DUMPS if is_dump else FILES:
        if match := _compiled(pattern).fullmatch(stem):
            _add(who, match)
            break
    if name.lower().endswith(".err"):
        who.setdefault("stream", "stderr")
    return who


@lru_cache(NEIGHBOURS)
def _of_folders(*folders: str) -> Who:
    who: Who = {}
    for folder in folders:
        for pattern in FOLDERS:
            _add(who, _compiled(pattern).fullmatch(folder))
    return who


def _bare(name: str, ending: re.Pattern[str]) -> str:
    while (bare := ending.sub("", name)) != name:
        name = bare
    return name


def _add(who: Who, match: re.Match[str] | None) -> None:
    if match is None:
        return
    for field, value in match.groupdict().items():
        if value is not None:
            if field == "pod":
                who.setdefault("host", value)
            elif field in ("host", "stream"):
                who[field] = value
            elif len(value) <= limits.MAX_DIGITS:
                who[field] = int(value)
