"""A job reads the same in every envelope that ships its lines.

Rank 1 raises, rank 0 waits for it until its watchdog gives up. The journal's records
are laid out as `journalctl` 252 printed them, mpirun's as Open MPI 4.1.4 did, Ray's as
Ray 2.60 did; the others are rendered from the documentation or the source of each.
"""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from log_lines import timeout, traceback, verdict

BEGAN = datetime(2026, 8, 20, 10, 9, tzinfo=UTC)
TEXTS = [timeout(0), traceback(1, "ValueError: bad batch")]
FOLDED = [(0, TEXTS[0].rstrip("\n")), (1, TEXTS[1].rstrip("\n"))]
LINES = [(rank, line) for rank, text in FOLDED for line in text.splitlines()]


def host(rank):
    return f"gpu000{rank + 1}"


def pod(rank):
    return f"trainer-worker-{rank}"


def at(n):
    return (BEGAN + timedelta(seconds=n)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def micros(n):
    return int((BEGAN + timedelta(seconds=n)).timestamp() * 1_000_000)


def as_lines(record, lines=LINES):
    return "".join(
        json.dumps(record(n, *line), ensure_ascii=False) + "\n"
        for n, line in enumerate(lines)
    )


def as_table(header, row, lines=LINES, newest_first=False):
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(header)
    rows = [row(n, *line) for n, line in enumerate(lines)]
    writer.writerows(reversed(rows) if newest_first else rows)
    return file.getvalue()


def fluent_bit(n, rank, line):
    return {
        "date": micros(n) / 1e6,
        "log": line + "\n",
        "kubernetes": {"pod_name": pod(rank), "host": host(rank)},
    }


def vector(n, rank, line):
    return {
        "file": "/var/log/pods/x/0.log",
        "kubernetes": {"pod_name": pod(rank), "pod_node_name": host(rank)},
        "message": line,
        "source_type": "kubernetes_logs",
        "stream": "stderr",
        "timestamp": at(n),
    }


def loki(n, rank, line):
    labels = {"node_name": host(rank), "pod": pod(rank), "container": "pytorch"}
    return {"labels": labels, "line": line, "timestamp": at(n)}


def stern(n, rank, line):
    return {
        "message": line,
        "nodeName": host(rank),
        "namespace": "ml",
        "podName": pod(rank),
        "containerName": "pytorch",
    }


def gcloud(n, rank, line):
    return {
        "insertId": f"a{n}",
        "resource": {"labels": {"pod_name": pod(rank)}, "type": "k8s_container"},
        "labels": {"compute.googleapis.com/resource_name": host(rank)},
        "severity": "ERROR",
        "textPayload": line,
        "timestamp": at(n),
    }


def journal(n, rank, line):
    return {
        "_MACHINE_ID": "ece43f1dba0b4a1b8f8a1e1e2f3a4b5d",
        "SYSLOG_IDENTIFIER": "trainer",
        "MESSAGE": line,
        "__REALTIME_TIMESTAMP": str(micros(n)),
        "_HOSTNAME": host(rank),
    }


def export(n, rank, line):
    data = line.encode()
    size = len(data).to_bytes(8, "little")
    told = b"MESSAGE\n" + size + data if "\n" in line else b"MESSAGE=" + data
    return (
        f"__CURSOR=s=30a6;i={n}\n__REALTIME_TIMESTAMP={micros(n)}\n".encode()
        + f"_HOSTNAME={host(rank)}\nSYSLOG_IDENTIFIER=trainer\n".encode()
        + told
        + b"\n\n"
    )


def datadog(n, rank, line):
    return [at(n), host(rank), "trainer", line]


def cloudwatch(n, rank, line):
    return {
        "timestamp": micros(n) // 1000,
        "message": line,
        "logStreamName": f"train-1/algo-{rank + 1}-1787220000",
    }


def fluent_forward(n, rank, line):
    return [micros(n) / 1e6, fluent_bit(n, rank, line)]


def fluent_stdout(n, rank, line, metadata=True):
    stamp = f"{micros(n) / 1e6:.9f}"
    time = f"[{stamp}, {{}}]" if metadata else stamp
    return (
        f'[{n % 3}] kube.var.log.containers.{pod(rank)}.log: [{time}, {{"time"=>"{at(n)}'
        f'", "stream"=>"stderr", "_p"=>"F", "log"=>"{line}", "kubernetes"=>{{'
        f'"pod_name"=>"{pod(rank)}", "host"=>"{host(rank)}", "annotations"=>{{'
        f'"a/b"=>"{{\\"c\\"=>1}}"}}}}}}]\n'
    )


def fluentd(n, rank, line):
    stamp = at(n).replace("T", " ").replace("Z", "000 +0000")
    return f"{stamp} kubernetes.var.log: {json.dumps(fluent_bit(n, rank, line))}\n"


def fluentd_file(n, rank, line):
    return f"{at(n)}\tkubernetes.var\t{json.dumps(fluent_bit(n, rank, line))}\n"


def elastic(n, rank, line):
    source = {
        "@timestamp": at(n),
        "message": line,
        "kubernetes": {"pod": {"name": pod(rank)}, "node": {"name": host(rank)}},
    }
    return {"_index": "logs-1", "_id": f"x{n}", "_score": None, "_source": source}


def searched(shipper, lines=LINES):
    hits = {"total": {"value": 99, "relation": "eq"}, "hits": records(shipper, lines)}
    return {"took": 3, "timed_out": False, "_shards": {"total": 1}, "hits": hits}


def splunk(n, rank, line):
    result = {"_raw": line, "_time": at(n), "host": host(rank), "source": "/x.log"}
    return {"preview": False, "offset": n, "result": result}


def queried(lines=LINES):
    """The answer of Loki's HTTP API: a stream per pod."""

    def stream(rank):
        values = [
            [f"{micros(n)}000", line] for n, (r, line) in enumerate(lines) if r == rank
        ]
        labels = {"node_name": host(rank), "pod": pod(rank), "container": "pytorch"}
        return {"stream": labels, "values": values[::-1]}

    result = {"resultType": "streams", "result": [stream(0), stream(1)], "stats": {}}
    return {"status": "success", "data": result}


def spelled(**told):
    return [{"key": k, "value": {"stringValue": v}} for k, v in told.items()]


def otlp(lines=LINES):
    def of(rank):
        told = {"k8s.pod.name": pod(rank), "k8s.node.name": host(rank)}
        logs = [
            {
                "timeUnixNano": f"{micros(n)}000",
                "severityText": "ERROR",
                "body": {"stringValue": line},
                "attributes": spelled(**{"log.iostream": "stderr"}),
            }
            for n, (r, line) in enumerate(lines)
            if r == rank
        ]
        scopes = [{"scope": {}, "logRecords": logs}]
        return {"resource": {"attributes": spelled(**told)}, "scopeLogs": scopes}

    return {"resourceLogs": [of(0), of(1)]}


class Block(yaml.SafeDumper):
    """Writes text of several lines as a block, as gcloud does."""

    def represent_str(self, text):
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


Block.add_representer(str, Block.represent_str)


def yaml_text(records):
    """As gcloud prints without a format: a YAML document per record."""
    form = {"explicit_start": True, "default_flow_style": False}
    return yaml.dump_all(records, Dumper=Block, allow_unicode=True, **form)


def pretty(records):
    return json.dumps(records, indent=2)


def records(shipper, lines=LINES):
    return [shipper(n, *line) for n, line in enumerate(lines)]


def text(prefix):
    return "".join(f"{prefix(n, rank)}{line}\n" for n, (rank, line) in enumerate(LINES))


HOSTS = {
    "fluent-bit": as_lines(fluent_bit),
    "fluent-bit, a traceback in one record": as_lines(fluent_bit, FOLDED),
    "vector": as_lines(vector),
    "logcli jsonl": as_lines(loki),
    "logcli jsonl, newest first": "".join(
        reversed(as_lines(loki).splitlines(keepends=True))
    ),
    "stern json": as_lines(stern),
    "gcloud": pretty(records(gcloud)),
    "gcloud, newest first": pretty(records(gcloud)[::-1]),
    "gcloud, cut": pretty([*records(gcloud), gcloud(99, 1, "x" * 80)])[:-40],
    "gcloud, a traceback in one record": pretty(records(gcloud, FOLDED)),
    "journal json": as_lines(journal),
    "journal json, a traceback in one record": as_lines(journal, FOLDED),
    "journal json-pretty": "".join(
        f"{json.dumps(r, indent=chr(9), separators=(',', ' : '))}\n"
        for r in records(journal)
    ),
    "journal export": b"".join(records(export)),
    "journal export, a traceback in one record": b"".join(records(export, FOLDED)),
    "datadog csv": as_table(
        ["Date", "Host", "Service", "Message"], datadog, newest_first=True
    ),
    "datadog csv, a traceback in one record": as_table(
        ["Date", "Host", "Service", "Content"], datadog, FOLDED
    ),
    "splunk csv": as_table(
        ["_time", "host", "_raw"], lambda n, rank, line: [at(n), host(rank), line]
    ),
    "fluent-bit pairs": as_lines(fluent_forward),
    "fluent-bit json": json.dumps(records(fluent_bit)),
    "fluent-bit json, a list per flush": f"{json.dumps(records(fluent_bit)[:3])}\n"
    + json.dumps(records(fluent_bit)[3:]),
    "fluent-bit stdout": "".join(records(fluent_stdout)),
    "fluent-bit stdout before 2.1": "".join(
        fluent_stdout(n, *line, metadata=False) for n, line in enumerate(LINES)
    ),
    "fluentd stdout": "".join(records(fluentd)),
    "fluentd file": "".join(records(fluentd_file)),
    "loki api": json.dumps(queried()),
    "loki api, indented": pretty(queried()),
    "loki api, a traceback in one record": pretty(queried(FOLDED)),
    "elastic search": json.dumps(searched(elastic)),
    "elastic search, indented": pretty(searched(elastic)),
    "elastic lines": as_lines(elastic),
    "elastic lines, a traceback in one record": as_lines(elastic, FOLDED),
    "otlp": json.dumps(otlp()),
    "otlp, indented": pretty(otlp()),
    "otlp, a traceback in one record": pretty(otlp(FOLDED)),
    "splunk json": as_lines(splunk),
    "splunk json, newest first": "".join(
        reversed(as_lines(splunk).splitlines(keepends=True))
    ),
    "splunk json document": json.dumps(
        {"preview": False, "results": [r["result"] for r in records(splunk)]}
    ),
    "gcloud on one line": json.dumps(records(gcloud)),
    "gcloud yaml": yaml_text(records(gcloud)),
    "gcloud yaml, newest first": yaml_text(records(gcloud)[::-1]),
    "gcloud yaml, a traceback in one record": yaml_text(records(gcloud, FOLDED)),
    "logcli": text(lambda n, r: f'{at(n)} {{node="{host(r)}", pod="{pod(r)}"}} '),
    "journal": text(
        lambda n, r: f"Aug 20 10:09:{n:02} {host(r)} trainer[{4121 + r}]: "
    ),
}
PODS = {
    "azure csv": as_table(
        ["TimeGenerated", "PodName", "LogMessage"],
        lambda n, rank, line: [at(n), pod(rank), line],
    ),
    "kubectl": text(lambda n, r: f"[pod/{pod(r)}/pytorch] "),
    "stern": text(lambda n, r: f"{pod(r)} pytorch "),
    "stern of all namespaces": text(lambda n, r: f"ml {pod(r)} pytorch "),
    "stern with times": text(lambda n, r: f"{pod(r)} pytorch {at(n)} "),
    "stern with marks": f"+ {pod(0)} \u203a pytorch\n+ {pod(1)} \u203a pytorch\n"
    + text(lambda n, r: f"{pod(r)} pytorch "),
    "stern in colours": text(
        lambda n, r: f"\x1b[36m{pod(r)}\x1b[0m \x1b[32mpytorch\x1b[0m "
    ),
}
ALGOS = {
    "aws logs get-log-events": json.dumps(
        {"events": records(cloudwatch), "nextForwardToken": "f/3"}, indent=4
    ),
    "aws logs on one line": json.dumps({"events": records(cloudwatch)}),
    "aws logs tail": text(lambda n, r: f"{at(n)} train-1/algo-{r + 1}-1787220000 "),
    "cloudwatch insights csv": as_table(
        ["@timestamp", "@message", "@logStream"],
        lambda n, rank, line: [at(n), line, f"train-1/algo-{rank + 1}-1787220000"],
    ),
    "sagemaker": text(lambda n, r: f"[1,mpirank:{r},algo-{r + 1}]<stderr>:"),
}
NAMELESS = {
    "cloudwatch console csv": as_table(
        ["timestamp", "message"], lambda n, rank, line: [micros(n) // 1000, line]
    ),
    "mpirun": text(lambda n, r: f"[1,{r}]<stderr>:"),
    "mpirun with times": text(
        lambda n, r: f"Thu Aug 20 10:09:{n:02} 2026[1,{r}]<stderr>:"
    ),
    "mpirun with times alone": text(
        lambda n, r: f"Thu Aug 20 10:09:{n:02} 2026<stderr>:"
    ),
    "srun -l": text(lambda n, r: f" {r}: "),
    "determined": text(lambda n, r: f"[{at(n)}] f6114bb{r} [rank={r}] || ERROR: "),
    "determined's wrapper": text(lambda n, r: f"[rank={r}] "),
}
SKY = {"skypilot": text(lambda n, r: f"(worker{r + 1}, rank={r + 1}, pid={41 + r}) ")}
EXPECTED = [
    *((name, told, host(1)) for name, told in HOSTS.items()),
    *((name, told, pod(1)) for name, told in PODS.items()),
    *((name, told, "algo-2") for name, told in ALGOS.items()),
    *((name, told, None) for name, told in NAMELESS.items()),
    *((name, told, "worker2") for name, told in SKY.items()),
]


@pytest.mark.parametrize(
    ("told", "where"), [e[1:] for e in EXPECTED], ids=[e[0] for e in EXPECTED]
)
def test_the_job_reads_as_if_its_lines_stood_bare(analyzed, told, where):
    analysis = analyzed({"export.txt": told})
    assert verdict(analysis) == ("crashed-rank", (1,), (where,) if where else ())
    if "[rank1]" not in str(told):
        return
    cites = analysis.ranked.verdict.evidence
    raised = [c.line for c in cites if "ValueError: " in c.text]
    lines = (told.encode() if isinstance(told, str) else told).split(b"\n")
    stands = [n for n, line in enumerate(lines, 1) if b"ValueError: " in line]
    # an export on one line has no other
    assert raised == (stands if len(lines) > 1 else [1])


CUT = [
    ("loki", json.dumps(queried())),
    ("loki", pretty(queried())),
    ("elastic", json.dumps(searched(elastic))),
    ("elastic", pretty(searched(elastic))),
    ("otlp", json.dumps(otlp())),
    ("otlp", pretty(otlp())),
    ("splunk", json.dumps({"results": [r["result"] for r in records(splunk)]})),
    ("gcloud", json.dumps(records(gcloud))),
    ("fluent-bit", json.dumps(records(fluent_bit)[:3]) + "\n" + json.dumps([])),
    ("journal", HOSTS["journal json-pretty"]),
]


@pytest.mark.parametrize(("name", "told"), CUT, ids=[name for name, _ in CUT])
def test_a_cut_document_is_read_up_to_its_last_whole_record(analyzed, name, told):
    frames = analyzed({"export.txt": told[:-20]}).frames
    assert not [text for text in frames["notes"]["text"] if "not read" in text]
    assert "c10d.watchdog.timeout" in frames["events"]["message"].to_list()


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,name,utilization.gpu [%]\n2026/08/20,H100,3 %\n",
        "step,loss,time\n1,2.5,3\n",
        "a sentence, with a message, a time and a date\n",
        '{\n  "model": "llama",\n  "message_size": 3\n}\n',
        '[\n  {\n    "step": 1\n  }\n]\n',
    ],
)
def test_other_tables_and_documents_are_no_records(text):
    from ncclforensics.parsers.logs import record_files

    assert record_files.form(text.encode()) is None


def test_words_at_the_start_of_a_sentence_are_no_pod(analyzed):
    lines = "".join(f"node-{n} is lost\n" for n in range(9)) + TEXTS[0]
    assert verdict(analyzed({"a.log": lines + TEXTS[1]})) == ("crashed-rank", (1,), ())


def test_lines_that_ray_printed_once_for_several_workers_are_read():
    import polars as pl

    from ncclforensics.parsers.logs.framing import frame

    line = "(TrainWorker pid=41, ip=10.0.0.6) boom"
    seen = f"\x1b[36m{line}\x1b[32m [repeated 3x across cluster]\x1b[0m"
    note = " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable.)"
    for raw in (line, seen, seen.removesuffix("\x1b[0m") + note):
        told = frame(pl.DataFrame({"line": [1], "raw": [raw]})).row(0, named=True)
        assert (told["text"], told["host"], told["pid"]) == ("boom", "10.0.0.6", 41)
