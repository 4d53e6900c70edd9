"""`serve` as a browser meets it: over HTTP, and only with the printed URL."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest

import ncclforensics
from ncclforensics.cli import commands
from ncclforensics.model.errors import UsageError
from ncclforensics.servers import pages as made
from ncclforensics.servers.http import HOST, server
from ncclforensics.servers.pages import Pages


@pytest.fixture(scope="module")
def pages(request):
    jobs = request.path.parents[1] / "fixtures" / "jobs"
    found = ncclforensics.analyze(jobs / "torch-missing-rank" / "evidence")
    return Pages(found._paper())


@pytest.fixture(scope="module")
def url(pages):
    listening, url = server(pages, 0)
    with listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield url
        listening.shutdown()


def get(url, method="GET", **headers):
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection = http.client.HTTPConnection(HOST, parts.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.found += [v for k, v in attributes if k in ("href", "src", "action")]


def test_every_link_from_the_first_page_on_leads_to_a_page(url, pages):
    seen, pending = {}, [url]
    while pending:
        here = pending.pop()
        status, headers, body = get(here)
        assert status == 200, here
        seen[here.removeprefix(url)] = headers["Content-Type"]
        if not headers["Content-Type"].startswith("text/html"):
            continue
        links = Links(body.decode())
        assert not links.tags & {"script", "img", "iframe"}
        for link in links.found:
            there = urljoin(here, link).partition("#")[0]
            if there == "data:,":  # the icon of a page that asks for none
                continue
            if here.endswith("report.html") and not there.startswith(url):
                continue  # references of the class, which a reader may follow
            assert there.startswith(url), link
            if there.removeprefix(url) not in seen and there not in pending:
                pending.append(there)
    assert {f"frames/{name}.parquet" for name in pages.frames} <= seen.keys()
    assert seen["report.json"] == "application/json"


def test_the_report_is_the_report(url, pages):
    assert json.loads(get(f"{url}report.json")[2])["verdict"]["class"] == "missing-rank"
    assert get(f"{url}report.zip")[2] == pages.paper.render(".zip")[0]


def test_frames_are_narrowed_and_paged(url, pages, monkeypatch):
    monkeypatch.setattr(made, "MOST", 5)
    height = pages.frames["collectives"].height
    page = get(f"{url}frames/collectives.html")[2].decode()
    assert f"rows 1 to 5 of {height}" in page
    assert "?from=5" in page
    narrowed = pages.frames["collectives"]["rank"].value_counts().row(0)
    page = get(f"{url}frames/collectives.html?rank={narrowed[0]}&from=5")[2].decode()
    assert f"of {narrowed[1]}" in page
    assert f"?rank={narrowed[0]}&amp;from=0" in page
    late = get(f"{url}frames/collectives.html?from=99999999999999999999")
    assert late[0] == 200


def test_only_the_printed_url_has_pages(url):
    root = url.rsplit("/", 2)[0]
    secret = url.split("/")[-2]
    for path in ("", "/", "/report.json", f"/{secret[:-1]}x/", f"/{secret}"):
        status, _, body = get(root + path)
        assert (status, body) == (404, b"no such page\n")
    for path in ("nope", "frames/nope.html", "frames/ranks.exe", "../../etc/passwd"):
        assert get(url + path)[0] == 404
    assert secret not in str(get(url)[2])
    assert get(url)[1]["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::"])
def test_a_name_that_was_rebound_to_this_machine_is_refused(url, host):
    assert get(url, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:8765"])
def test_the_end_of_a_tunnel_has_a_port_of_its_own(url, host):
    assert get(url, Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_answered(url, method):
    assert get(url, method)[0] == 501


def test_text_of_a_log_stays_text(analyzed):
    text = "<script>alert(1)</script>"
    found = analyzed({"rank_0.log": f"ValueError: {text}\nTraceback {text}\n"})
    paper = ncclforensics.Incident(found)._paper()
    shown = Pages(paper)
    for path in ["", *(f"frames/{name}.html" for name in shown.frames)]:
        assert b"<script" not in shown.page(path, {})[1]
    assert b"&lt;script" in shown.page("frames/events.html", {})[1]
    query = {"source": '"><script>'}
    assert b"<script" not in shown.page("frames/events.html", query)[1]


def test_a_port_in_use_is_said(url, pages):
    with pytest.raises(UsageError, match=r"^port \d+: Address already in use"):
        server(pages, urlsplit(url).port)


def test_the_command_serves_until_it_is_interrupted(jobs):
    evidence = str(jobs / "torch-missing-rank-two-hosts" / "evidence")
    command = [sys.executable, "-m", "ncclforensics", "serve", evidence]
    with subprocess.Popen(
        [*command, "--redact", "hosts"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as served:
        url = served.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", url)
        assert "gpu000" not in get(f"{url}report.html")[2].decode()
        assert "ssh -L" in served.stderr.readline()
        served.send_signal(signal.SIGINT)
        assert served.wait(20) == 0
        assert "Traceback" not in served.stderr.read()


def test_a_saved_report_has_no_frames_and_says_so(jobs, tmp_path):
    found = ncclforensics.analyze(jobs / "torch-missing-rank" / "evidence")
    saved = found.save(tmp_path / "saved.json")
    from ncclforensics.cli.publish import made_of

    paper, _ = made_of([str(saved)], redact=None, hushed=True)
    page = Pages(paper).page("", {})[1].decode()
    assert "has no frames" in page
    assert commands.main(["serve", "-"]) == 2
