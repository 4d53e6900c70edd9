"""A JSON document of ranks and hosts: ranks get their hosts, a log stays a log."""

import json

from ncclforensics.sources import discover

HOSTS = {"gpu0001": [0, 1], "gpu0002": [2, 3]}
LINE = "2026-11-20 12:00:00 INFO [rank {}] step {} | data 3.1 ms | forward 58.3 ms\n"


def test_ranks_get_the_hosts_that_a_document_lists(analyzed):
    text = "".join(LINE.format(r, s) for s in range(3) for r in range(4))
    told = analyzed({"nodes.json": json.dumps(HOSTS, indent=1), "job.log": text})
    assert told.frames["ranks"]["host"].to_list() == [
        *("gpu0001", "gpu0001", "gpu0002", "gpu0002")
    ]


def test_a_cited_line_names_the_host(analyzed):
    told = analyzed({"nodes.json": json.dumps(HOSTS, indent=1)})
    assert told.frames.message("placement.json")["line"].to_list() == [2, 2, 6, 6]


def test_lines_of_records_stay_a_log(tmp_path):
    rows = (json.dumps({"rank": r, "host": f"gpu000{r}"}) for r in range(4))
    (tmp_path / "ranks.jsonl").write_text("\n".join(rows))
    (source,) = discover([str(tmp_path)], tmp_path / "scratch").sources
    assert source.kind == "log"
