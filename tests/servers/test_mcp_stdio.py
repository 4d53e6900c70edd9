"""An agent's client talks to `ncclforensics mcp` over stdin and stdout."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

mcp = pytest.importorskip("mcp")


def parameters(*arguments):
    return mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "ncclforensics", "mcp", *arguments],
        env=dict(os.environ),
    )


@pytest.mark.asyncio
async def test_an_agent_asks_all_four(jobs):
    evidence = str(jobs / "torch-missing-rank" / "evidence")
    async with mcp.Client(parameters(evidence, "--no-cache")) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {"analyze", "evidence", "explain", "lines"}
        assert all(tool.annotations.read_only_hint for tool in listed.values())
        told = (await client.call_tool("analyze", {})).structured_content
        verdict = told["report"]["verdict"]
        assert verdict["culprits"]["ranks"] == [2]
        cite = verdict["evidence"][0]
        asked = {"source": cite["source"], "first": cite["line"], "last": cite["line"]}
        lines = (await client.call_tool("lines", asked)).structured_content
        assert "seq=5" in lines["lines"][str(cite["line"])]
        files = (await client.call_tool("evidence", {})).structured_content["files"]
        assert cite["source"] in {file["source"] for file in files}
        known = await client.call_tool("explain", {"failure_class": "missing-rank"})
        assert "What to do" in known.content[0].text


@pytest.mark.asyncio
async def test_a_mistake_is_told_and_the_server_goes_on(jobs):
    evidence = str(jobs / "torch-missing-rank" / "evidence")
    async with mcp.Client(parameters(evidence)) as client:
        refused = await client.call_tool("analyze", {"path": "/etc"})
        assert refused.is_error
        assert "not in what was named" in refused.content[0].text
        fine = await client.call_tool("explain", {})
        assert not fine.is_error


def test_it_needs_its_extra_and_a_path(jobs):
    evidence = str(jobs / "torch-missing-rank" / "evidence")
    hidden = "import sys; sys.modules['mcp'] = None\n"
    hidden += "from ncclforensics.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", hidden, "mcp"]
    missing = subprocess.run([*command, evidence], capture_output=True, text=True)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "pip install 'ncclforensics[mcp]'" in missing.stderr
    nowhere = subprocess.run([*command, "nope"], capture_output=True, text=True)
    assert nowhere.returncode == 2
    stdin = subprocess.run([*command, "-"], capture_output=True, text=True)
    assert "not stdin" in stdin.stderr
