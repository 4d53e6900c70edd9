"""What launchers, shippers and loggers put in front of a line: the table of envelopes.

Each alternative matches at the start of a line, and its captures tell who prints the
line, and when. Rust regex has no look-ahead, so an envelope that is a prefix of another
one comes later.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.ascii_regex import ascii_only

DECORATIONS = {
    "quote": r"(?:[ \t]*> ?)+",
    "pod": r"\[pod/(?P<pod>[^\]/\s]+)(?:/(?P<container>[^\]\s]+))?\] ?",
    "cri": r"(?P<cri_t>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) "
    r"(?:stdout|stderr) [PF] ",
    # SageMaker's is `[1,mpirank:3,algo-2]<stdout>:`
    "mpi": r"(?:[A-Z][a-z]{2} (?P<mpi_t>[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}))?"
    r"(?:\[(?:[\w.@-]+,)?(?:mpirank:)?(?P<mpi_rank>\d{1,9})"
    r"(?:,(?P<mpi_host>[A-Za-z][\w.-]*))?\])?<(?:stdout|stderr|stddiag)>: ?",
    # Determined: `[2026-…Z] f6114bb3 [rank=1] || INFO: `, and its wrapper alone
    "determined": r"\[(?P<det_t>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))\] "
    r"(?:\S{1,8}| {8}) (?:\[rank=(?P<det_rank>\d{1,9})\] )?\|\| (?:[A-Z]{4,8}: )?",
    "wrapped": r"\[rank=(?P<eq_rank>\d{1,9})\] ",
    # a number in front of torch's own prefix may be any
    "torch": r"(?:\[\d{1,7}\]: ?)?\[rank(?P<torch_rank>\d{1,9})[\[\]]{1,2}: ?",
    # the user may set the template: `[trainer0|0]:`; TorchX and NeMo-Run put the role
    # and the replica in front, `train/0 `
    "torchrun": r"(?:[A-Za-z][\w.-]{0,80}/\d{1,5} )?"
    r"\[[A-Za-z_][A-Za-z_-]*(?P<tee_rank>\d{1,6})(?:\|\d{1,7})?\]:",
    # its rank is that of the node
    "skypilot": r"\((?P<sky_node>head|worker\d{1,5}), rank=\d{1,5}, pid=\d{1,10}"
    r"(?:, ip=(?P<sky_ip>[^)\s]+))?\) ",
    # vLLM names its workers by rank if it uses tensor parallelism only, NeMo-RL all
    "ray": r"\((?:(?:Worker_TP|VllmWorker rank=|\w{1,80}\[rank=)(?P<vllm_rank>\d{1,5})"
    r"(?:_EP\d{1,5}|\])? "
    r"|[^\n]*?)pid=(?P<ray_pid>\d{1,10})(?:, ip=(?P<ray_ip>[^)\s]+))?\) ",
    # the labels of `logcli`, behind its time
    "loki": r"\{(?P<labels>(?:[A-Za-z_]\w*=\"[^\"\n]*\"(?:, ?)?)*)\} ",
    # the stream of a SageMaker job in `aws logs tail`, behind its time
    "cloudwatch": r"[\w.-]+/(?P<algo>algo-\d{1,5})-\d{8,} ",
    # grep puts the name of the file, and maybe the number of the line, in front
    "kernel": r"(?:[a-z]+ *:[a-z]+ *: +|[\w./-]{1,120}?[:-](?:\d{1,9}[:-])?)?"
    r"(?:(?P<sys_t>[A-Z][a-z]{2} +\d{1,2} "
    r"\d\d:\d\d:\d\d)|(?P<sys_iso>\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?)) "
    r"(?P<sys_host>[\w.-]+) "
    r"(?:(?:kernel|systemd|nv-fabricmanager|slurmstepd|slurmd|kubelet)(?:\[\d+\])?"
    r"|[\w.@/+-]+\[\d{1,10}\]): ",
    "dmesg_t": r"\[[A-Z][a-z]{2} "
    r"(?P<ctime>[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4})\] ",
    "dmesg": r"(?:<\d+>)?\[ *\d+\.\d{3,6}\] ",
    # vLLM and SGLang: `ERROR 11-20 10:00:00 [worker_base.py:620] `
    "vllm": r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d "
    r"\[?[\w./-]+\.py:\d+\] ?",
    "facility": r"[a-z]+ *:[a-z]+ *: +",
    # CloudWatch's console puts it between bars, TorchTitan `[titan] ` in front, and
    # logfmt, of Go's programs and of structlog, has `time="2026-…Z" level=info `
    "iso": r"(?:\| |\[[a-z][a-z_-]{2,30}\] |(?:time|ts|timestamp)=\"?)?"
    r"\[?(?P<iso_t>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    r"(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"(?: (?:TP(?P<sglang_rank>\d{1,5})|(?:DP|PP)\d{1,5} TP\d{1,5})(?: EP\d{1,5})?)?"
    # Hydra: `[2026-11-20 10:00:00,123][train][INFO] - `
    r"(?:\]?(?: \|(?: [A-Z]+ +\|)? |[ :]|\"? |$)|\])",
    # Python's logging with `[%m/%d %H:%M:%S]`, or without brackets; rich adds the year
    # in two digits; SGLang has `[%m-%d %H:%M:%S]`
    "month_day": r"\[?(?P<md>\d\d[/-]\d\d)(?:/\d\d)? (?P<md_hms>\d\d:\d\d:\d\d)"
    r"(?:[.,]\d{1,9})?(?:\] ?| )",
    # without a host, as `%b %d %H:%M:%S`; or without a date: `[ckpt] 09:22:31 `
    "month_name": r"(?P<mon>[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d) ",
    "clock": r"(?:\[[a-z][a-z_-]{2,30}\] )?\[?(?P<clock>\d\d:\d\d:\d\d"
    r"(?:[.,]\d{1,9})?)(?:\]| -| \|)? ",
    # seconds since 1970, as `time.time()` and `journalctl -o short-unix` print them
    "epoch": r"(?P<epoch_t>1[5-9]\d{8}\.\d{1,9}) ",
    # Hugging Face's examples: `04/22/2026 07:00:30 - INFO - __main__ - `
    "us": r"(?P<us_t>\d\d/\d\d/\d{4} \d\d:\d\d:\d\d) - ",
    # Kaggle: seconds since the notebook started, and the line number
    "kaggle": r"\d{1,7}\.\d{1,3}s[ \t]+(?:\d{1,7}[ \t]+)?",
    # what `prefix_habits` makes of a host in front of each line
    "pdsh_any": r"\[host/(?P<any_host>[\w.-]+)\] ",
    "slurmstepd": r"slurmstepd-(?P<step_host>[\w.-]+): ",
    "pdsh": r"(?P<worker>[\w.-]*(?:worker|node|gpu|host|trainer|master)[\w.-]*\d"
    r"|[a-z][a-z0-9-]*\d(?:\.[a-z][a-z0-9-]*){2,5}|(?:\d{1,3}\.){3}\d{1,3}): ",
    # docker compose pads service names to one width plus one space
    "compose": r"(?P<service>[A-Za-z][\w.-]*\d) {2,}\| ?",
    "accelerate": r"(?:stderr|stdout): ",
    "srun": r"(?:P\d+ )? *(?P<task>\d{1,7}): ",
}
LABELS = {
    "label_host": r'(?:^|[ ,])(?:node|node_name|host|hostname)="([^"]+)"',
    "label_pod": r'(?:^|[ ,])(?:pod|pod_name)="([^"]+)"',
    "label_namespace": r'(?:^|[ ,])namespace="([^"]+)"',
    "label_container": r'(?:^|[ ,])container="([^"]+)"',
}
# Horovod's `3: [name, …]` is a rank with a list of tensors, not an srun label; the
# interfaces of `ip` are numbered, `2: eth0: <BROADCAST,…>`
IS_LISTED = ascii_only(
    r"^ *\d{1,7}: (?:\[[A-Za-z_][^\[\]\s]*(?:(?:, [^\[\]\s]+)+\]?|\])\s*$"
    r"|[^\s:@]+(?:@[^\s:]+)?: <[A-Z0-9_,-]+> )"
)
# Quoted logs are indented. But an indented bare name or number is something else, and
# so is the source line that a traceback quotes.
_NEVER_INDENTED = ("vllm", "pdsh", "compose", "accelerate", "srun")
IS_DECORATED = ascii_only(
    r"^(?:[ \t]*(?:"
    + "|".join(v for k, v in DECORATIONS.items() if k not in _NEVER_INDENTED)
    + ")|"
    + "|".join(DECORATIONS[k] for k in _NEVER_INDENTED)
    + ")"
)
SAYS = tuple(re.findall(r"\(\?P<(\w+)>", "".join(DECORATIONS.values())))
