"""Small logs that are scanned together give what each gives alone, whatever they are."""

import gzip
import json
import textwrap

import pytest

from log_lines import init, timeout, traceback, xid
from ncclforensics.model.frames import join
from ncclforensics.parsers.logs import log_reader, scan, search_terms, small_logs
from ncclforensics.sources import Source

AT = "2026-03-01T10:00:00.123456789Z"
STEP = "INFO train step {} loss 2.1\n"
CHATTER = "gpu1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
CONNECTED = "gpu1:7:7 [0] NCCL INFO Connected all rings\n"
CALL = (
    "gpu1:7:7 [0] NCCL INFO AllReduce: opCount {:x} sendbuff 0x7f recvbuff 0x7f count "
    "2 datatype 9 op 0 root 0 comm 0x7f00 [nranks=8] stream 0x9c\n"
)
TRACE = traceback(None, "RuntimeError: " + "a long reason of many words, " * 6)
STEPS = "".join(map(STEP.format, range(700)))
LINES = (
    *(traceback(2, "ValueError: bad batch") + timeout(3)).splitlines(),
    *(CHATTER * 3).splitlines(),
)


def docker(text):
    record = {"log": text, "stream": "stderr", "time": AT}
    return json.dumps(record, separators=(",", ":"))


KINDS = {
    "plain": init(0, 8, phase="START") + CHATTER * 9 + init(0, 8) + timeout(0),
    "an end within a traceback": CHATTER + "".join(TRACE.splitlines(True)[:3]),
    "what could end that traceback": "    loss.backward()\nValueError: not mine\n",
    "no end of its last line": STEP.format(1) + timeout(3).rstrip("\n"),
    "an end within a wrapped line": timeout(5)[:120],
    "its other half": timeout(5)[120:],
    "steps": STEPS,
    "steps, then a loud line without an end": STEPS + timeout(3).rstrip("\n"),
    "steps, then a quiet line": STEPS + CHATTER + CONNECTED + CHATTER,
    "few loud lines among steps": STEPS + timeout(3) + STEPS + xid(79, "fell off"),
    "a loud step": STEPS + timeout(3).replace("\n", " in step 9\n") + STEPS,
    "many loud lines among steps": (STEPS[:3000] + timeout(3)) * 12 + STEPS[:9000],
    "a step just near": STEPS + "no step\n" * (scan.NEAR_LINES - 1) + timeout(3),
    "a step just too far": STEPS + "no step\n" * scan.NEAR_LINES + timeout(3),
    "an end just near": STEPS + "no step\n" * (scan.NEAR_LINES - 1),
    "an end just too far": STEPS + "no step\n" * scan.NEAR_LINES,
    "the kernel's": xid(79, "GPU has fallen off the bus.") + xid(31, "MMU fault"),
    "no text": "",
    "an empty line": "\n",
    "CRLF": (timeout(3) + STEP.format(1)).replace("\n", "\r\n"),
    "redraws": "\r 50%|##| step=4\r 60%|##| step=5\n"
    + timeout(1)
    + "\r 70%|#| step=6\r",
    "a line with two CRs": timeout(3).replace("\n", "\r\r\n") + STEP.format(3),
    "bytes that are no text": timeout(3).encode() + b"\xff\xfe lost\n" + b"step 3\n",
    "a cut letter": timeout(3).encode() + "é".encode()[:1],
    "UTF-16": timeout(3).encode("utf-16"),
    "letters of two bytes": "é step 3\n" * 9 + timeout(3),
    "docker's": f"{docker(timeout(3)[:90])}\n{docker(timeout(3)[90:])}\n",
    "CRI's": f"{AT} stderr P Watchdog cau\n{AT} stderr F ght\n{AT} stdout F step 3\n",
    "JSON lines": "".join(f'{{"message": "{t}"}}\n' for t in ("step 3", "NCCL WARN")),
    "CSV": f'timestamp,message\n{AT},"{timeout(3).strip()}"\n',
    "quoted": "".join(f"> {line}\n" for line in LINES),
    "numbered": "".join(f"{n:5} {line}\n" for n, line in enumerate(LINES, 1)),
    "dated": "".join(f"2026-03-01 10:00:0{n} {x}\n" for n, x in enumerate(LINES)),
    "wrapped": "".join(f"{part}\n" for x in LINES for part in textwrap.wrap(x, 70)),
    "spaced": "".join(f"{line}\n\n" for line in LINES),
    "under headings": f"==> logs/rank_3.log <==\n{timeout(3)}",
    "calls": "".join(map(CALL.format, range(99))) + timeout(3),
    "more calls than are read at once": "".join(map(CALL.format, range(300))),
    "more tags than are read": "[rank 3] a part is done\n" * 1500 + timeout(3),
    "large": CHATTER * 1000 + timeout(3),
}


@pytest.fixture
def sources(tmp_path):
    def written(name, data, **known):
        path = tmp_path / f"{name}.log"
        path.write_bytes(data)
        return Source(path.name, path, "log", "", bytes=len(data), **known)

    told = {k: t.encode() if isinstance(t, str) else t for k, t in KINDS.items()}
    logs = [written(k, data, rank=n) for n, (k, data) in enumerate(told.items())]
    packed = gzip.compress(told["plain"])
    return [*logs, written("packed", packed, compression="gzip")]


def tables(frames):
    """The rows of each frame in their order, log by log."""
    told = {**frames.tables, **frames.messages}
    told = {
        name: frame.rows(named=True) for name, frame in told.items() if frame.height
    }
    return {n: sorted(rows, key=lambda row: row["source"]) for n, rows in told.items()}


def alone(sources, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(small_logs, "MOST_BYTES", 0)
        return join(map(log_reader.read, sources))


@pytest.mark.parametrize("most", [1, 3000, small_logs.TOGETHER_BYTES])
def test_logs_of_all_kinds_give_together_what_each_gives_alone(
    sources, monkeypatch, most
):
    monkeypatch.setattr(small_logs, "TOGETHER_BYTES", most)
    together, expected = log_reader.read_all(sources), alone(sources, monkeypatch)
    assert tables(together) == tables(expected)
    silent = {"no text", "an empty line", "its other half"}
    heard = {name.removesuffix(".log") for name in together["events"]["source"]}
    assert heard >= KINDS.keys() - silent


def test_calls_that_are_only_counted_are_so_in_a_small_log(sources, monkeypatch):
    monkeypatch.setattr(search_terms, "FIRST_CALLS", 20)
    monkeypatch.setattr(search_terms, "LAST_CALLS", 30)
    together, expected = log_reader.read_all(sources), alone(sources, monkeypatch)
    assert together["unread_calls"]["calls"].to_list() == [49, 250]
    assert tables(together) == tables(expected)


def test_no_line_of_the_next_log_is_read_as_part_of_a_message(sources):
    cut = [s.name for s in sources].index("an end within a traceback.log")
    found = log_reader.read_all(sources[cut : cut + 2])
    (told,) = found.message("python.traceback").to_dicts()
    assert (told["source"], told["line"]) == (sources[cut].name, 2)
    assert not any("not mine" in str(value) for value in told.values())


def test_a_plain_log_is_not_read_again(sources, monkeypatch):
    monkeypatch.setattr(log_reader, "_whole", None)
    monkeypatch.setattr(log_reader, "_put_together", None)
    names = {f"{k}.log" for k in ("plain", "steps", "dated", "CRLF", "calls")}
    plain = [source for source in sources if source.name in names]
    assert set(log_reader.read_all(plain)["events"]["source"]) == names


def test_neighbours_are_scanned_together_up_to_so_many_bytes(sources, monkeypatch):
    monkeypatch.setattr(small_logs, "TOGETHER_BYTES", 30_000)
    runs = [*small_logs.runs(sources)]
    assert [source for run in runs for source in run] == sources
    sizes = [sum(source.bytes for source in run) for run in runs if len(run) > 1]
    assert sizes
    assert max(sizes) <= 30_000 + small_logs.MOST_BYTES
    large = [s.name for run in runs for s in run if not small_logs.is_small(s)]
    assert large == ["large.log", "packed.log"]
