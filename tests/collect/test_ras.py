"""RAS is asked by its client, or by its port where there is none."""

import socket
import threading
import time

import pytest

from ncclforensics.collect import ras
from ncclforensics.collect.children import ask_all
from ncclforensics.collect.processes import Process

STATUS = b"NCCL version 2.28.3 compiled with CUDA 12.9\nJob summary\n"


def process(**environment):
    return Process(1, 0, "python", "python", 0, environment)


@pytest.fixture
def server():
    """A port that answers one client as RAS does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            client, _ = listening.accept()
            with client:
                asked = client.recv(100)
                client.sendall(STATUS if asked == b"verbose status\n" else b"")

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_without_a_client_the_port_is_asked(server, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    asked, _ = ras.questions([process(NCCL_RAS_ADDR=f"127.0.0.1:{server}")])
    *failed, answer = ask_all(asked, time.monotonic() + 20)
    assert [a.why_not for a in failed] == ["not found on this node"] * 2
    assert answer.data == STATUS
    assert answer.question.file == "commands/ncclras.txt"


def test_a_job_that_turned_it_off_is_not_asked():
    asked, why = ras.questions([process(NCCL_RAS_ENABLE="0")])
    assert asked == []
    assert "NCCL_RAS_ENABLE=0" in why["ncclras"]
