"""Many nodes at once: bounded, streamed, each within its limit."""

import io
import os
import signal
import sys
import tarfile
import threading
import time

import pytest

from ncclforensics.fleet import runner
from ncclforensics.fleet.nodes import Node
from ncclforensics.fleet.shares import Share, Shares


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "script.py"
    file.write_text("print('from the script')\n")
    return file


def tar(*members):
    """A tar with (name, bytes or a TarInfo to put as it is) of each member."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def whole(node, stream):
    """Take all that a node sends, as one file."""
    got = b"".join(iter(stream.read, b""))
    return Share(got.decode(), int(bool(got)), "" if got else "nothing")


def ask(nodes, script, take=whole, limit=20, at_once=8):
    return {
        answer.node: answer
        for answer in runner.ask(nodes, script, take, limit=limit, at_once=at_once)
    }


def shell(name, text):
    return Node(name, ("sh", "-c", text))


def test_a_node_reads_the_script_and_what_it_sends_is_taken(script):
    found = ask([Node("a", (sys.executable, "-"))], script)["a"]
    assert (found.kind, found.why, found.host) == ("share", "", "from the script\n")


def test_how_a_node_fails_says_whether_it_was_reached(script):
    nodes = [
        shell("late", "sleep 60"),
        shell("half", "echo half; sleep 60"),
        shell("gone", "echo 'ssh: connect to host gone port 22: No route to host' >&2; exit 255"),
        shell("locked", "echo 'x@locked: Permission denied (publickey).' >&2; exit 255"),
        shell("bare", "echo 'sh: 1: python3: not found' >&2; exit 127"),
        Node("pending", (), "Pending"),
        Node("no-tool", ("no-such-program-here",)),
        shell("good", "echo good"),
    ]  # fmt: skip
    found = ask(nodes, script, limit=1)
    assert {name: answer.kind for name, answer in found.items()} == {
        "late": "silent",
        "half": "part",
        "gone": "silent",
        "locked": "refused",
        "bare": "refused",
        "pending": "silent",
        "no-tool": "refused",
        "good": "share",
    }
    assert found["late"].why == "no answer within 1 s"
    assert found["gone"].why.endswith("No route to host")
    assert found["pending"].why == "Pending"


def test_a_thousand_shares_come_in_with_few_processes(tmp_path, script):
    share = tmp_path / "share.tar"
    share.write_bytes(tar(("gpu/state.txt", b"x" * 3000)))
    running, most = set(), 0
    lock = threading.Lock()
    into = tmp_path / "all"
    shares = Shares(into)

    def take(node, stream):
        nonlocal most
        with lock:
            running.add(node.name)
            most = max(most, len(running))
        try:
            return shares.take(node, stream)
        finally:
            with lock:
                running.discard(node.name)

    nodes = [Node(f"gpu{n:04}", ("cat", str(share))) for n in range(1000)]
    found = ask(nodes, script, take, at_once=16)
    shares.close()
    # they all call themselves gpu: the tool's names tell them apart
    assert len(list(into.iterdir())) == 1000
    assert {a.kind for a in found.values()} == {"share"}
    assert most <= 16
    assert sum(f.stat().st_size for f in into.rglob("state.txt")) == 3_000_000


def test_a_large_share_is_not_held_in_memory(tmp_path, script):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = (
        "import sys, tarfile, io\n"
        "class Zeros(io.RawIOBase):\n"
        "    def read(self, size=-1): return bytes(size)\n"
        "with tarfile.open(fileobj=sys.stdout.buffer, mode='w|') as to:\n"
        "    told = tarfile.TarInfo('gpu/big'); told.size = 200 << 20\n"
        "    to.addfile(told, Zeros())\n"
    )
    shares = Shares(tmp_path / "all")
    argv = (sys.executable, "-c", code)
    found = ask([Node("a", argv)], script, shares.take, limit=60)["a"]
    assert (found.kind, found.files) == ("share", 1)
    assert (tmp_path / "all" / "gpu" / "big").stat().st_size == 200 << 20
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 64 << 10  # KiB


@pytest.fixture
def interruptible():
    """Raise KeyboardInterrupt at SIGINT, which a shell ignores in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_processes_and_keeps_what_came(tmp_path, script):
    marks = tmp_path / "marks"
    marks.mkdir()
    # a child that outlives its shell is ended as well
    text = f"echo $$ > {marks}/$0; sleep 300 & echo $! > {marks}/$0.child; wait"
    nodes = [shell("first", "echo first")]
    nodes += [Node(f"n{n}", ("sh", "-c", text, f"n{n}")) for n in range(3)]
    nodes += [shell(f"never{n}", f"touch {marks}/never") for n in range(5)]
    answers = []
    asking = runner.ask(nodes, script, whole, limit=100, at_once=4)
    answers.append(next(asking))

    def interrupt():
        deadline = time.monotonic() + 20
        time.sleep(0.2)  # the thread has started, and its starter asks again
        while len(list(marks.glob("n*.child"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), 2)

    def rest():
        threading.Thread(target=interrupt).start()
        answers.extend(asking)

    with pytest.raises(KeyboardInterrupt):
        rest()
    kinds = {a.node: (a.kind, a.why) for a in answers}
    assert kinds["first"] == ("share", "")
    assert kinds["n0"] == ("unasked", "interrupted")
    pids = [int(f.read_text()) for f in marks.iterdir() if f.suffix == ".child"]
    assert [pid for pid in pids if alive(pid)] == []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
