"""What the timeline looks like: lines of text, compared with kept ones.

`--write-goldens` writes them anew; read them before they are committed.
"""

from pathlib import Path

import pytest
from screen import chart, text

GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("torch-chain", ()),
        ("torch-chain", ("t",)),
        ("torch-missing-rank-two-hosts", ()),
        ("torch-straggler", ("t",)),
        ("torch-collective-mismatch", ("g", "g")),
        ("nccl-docker0", ()),
    ],
)
async def test_the_screen_reads_as_its_golden_file(opened, jobs, request, name, keys):
    async with opened(jobs / name / "evidence") as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause(0.4)
        shown = "\n".join([*text(app), ""])
    compare("-".join([name, *keys]), shown, request)


@pytest.mark.asyncio
@pytest.mark.parametrize("keys", [(), ("g",), ("g", "g"), ("minus",) * 3])
async def test_a_thousand_ranks_read_as_their_golden_file(
    opened, exported, request, keys
):
    async with opened(exported(), size=(120, 30)) as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause(0.2)
        shown = "\n".join([str(app.chart.border_title), *chart(app), ""])
    compare("-".join(["thousand", *keys]), shown, request)


def compare(name, shown, request):
    golden = GOLDENS / f"{name}.txt"
    if request.config.getoption("--write-goldens"):
        GOLDENS.mkdir(exist_ok=True)
        golden.write_text(shown, "utf-8")
    assert shown == golden.read_text("utf-8")
