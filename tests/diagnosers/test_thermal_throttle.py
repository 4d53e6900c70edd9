"""thermal-throttle reads `Active`, not `Not Active`, and names the section's GPU."""

import pytest

from nccl_lines import found, init

SLUG = "thermal-throttle"


def smi(states, head="Clocks Event Reasons", pci="00000000:9B:00.0"):
    names = [
        "Idle",
        "SW Power Cap",
        "HW Slowdown",
        "HW Thermal Slowdown",
        "HW Power Brake Slowdown",
        "SW Thermal Slowdown",
    ]
    lines = [
        f"        {name:34}: {'Active' if name in states else 'Not Active'}"
        for name in names
    ]
    return "\n".join([f"GPU {pci}", f"    {head}", *lines, ""])


@pytest.mark.parametrize("head", ["Clocks Event Reasons", "Clocks Throttle Reasons"])
@pytest.mark.parametrize("cause", ["HW Thermal Slowdown", "SW Thermal Slowdown"])
def test_the_gpu_whose_section_it_is_is_named(analyzed, cause, head):
    text = smi([], head, "00000000:1B:00.0") + smi([cause], head)
    files = {
        "gpu0002/nvidia-smi.txt": text,
        "gpu0002/rank_3.log": init("gpu0002", 3, 4, bus="9b000"),
        "gpu0002/rank_2.log": init("gpu0002", 2, 4, bus="1b000", pid=8),
    }
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu0002",), (3,))
    assert "9B:00.0" in finding.headline


@pytest.mark.parametrize("states", [[], ["SW Power Cap"], ["Idle"]])
def test_cool_gpus_and_the_power_cap_are_ruled_out(analyzed, states):
    analysis = analyzed({"gpu0002/nvidia-smi.txt": smi(states)})
    assert not found(analysis, SLUG)
    assert SLUG in [s.slug for s in analysis.ranked.ruled_out]
    # nothing of a job is here that could have gone well
    assert analysis.ranked.outcome == "inconclusive"


CSV = """index, pci.bus_id, clocks_event_reasons.{}, temperature.gpu
0, 00000000:1B:00.0, {}, 61
1, 00000000:9B:00.0, {}, 94
"""


@pytest.mark.parametrize(
    ("column", "cool", "hot", "cause"),
    [
        ("active", "0x0000000000000004", "0x0000000000000040", "HW Thermal Slowdown"),
        ("active", "0x0000000000000000", "0x0000000000000028", "SW Thermal Slowdown"),
        ("hw_thermal_slowdown", "Not Active", "Active", "HW Thermal Slowdown"),
    ],
)
def test_a_list_in_csv_names_the_gpu_of_its_line(analyzed, column, cool, hot, cause):
    files = {"gpu0002/smi.csv.log": CSV.format(column, cool, hot)}
    (finding,) = found(analyzed(files), SLUG)
    assert "00000000:9B:00.0" in finding.headline
    assert "1B:00.0" not in finding.headline
    assert cause in finding.headline
    assert [cite.line for cite in finding.evidence] == [3]


def test_a_list_in_csv_of_gpus_at_full_clocks_is_healthy(analyzed):
    text = CSV.format("active", "0x0000000000000000", "0x0000000000000004")
    analysis = analyzed({"smi.csv.log": text})
    assert not found(analysis, SLUG)
    # nothing of a job is here that could have gone well
    assert analysis.ranked.outcome == "inconclusive"


def test_who_asked_only_what_slows_the_clocks_got_the_answer(analyzed):
    text = """    Clocks Event Reasons
        Idle                              : Active
        HW Slowdown                       : Not Active
        SW Thermal Slowdown               : Not Active
"""
    assert analyzed({"smi.txt": text}).ranked.outcome == "no-failure"
    hot = text.replace("Slowdown                       : Not A", "Slowdown : A")
    assert [f.slug for f in found(analyzed({"smi.txt": hot}), SLUG)] == [SLUG]


def test_a_slowdown_whose_reason_is_not_told_is_taken_for_heat(analyzed):
    (finding,) = found(analyzed({"smi.txt": smi(["HW Slowdown"])}), SLUG)
    assert finding.confidence == "likely"
    power = smi(["HW Slowdown", "HW Power Brake Slowdown"])
    (finding,) = found(analyzed({"smi.txt": power}), SLUG)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(("why", "cards"), [("thermal", ["GPU 5"]), ("power", [])])
def test_the_gpu_that_dcgm_finds_hot_is_named(analyzed, why, cards):
    text = (
        f"ERROR [411:413] [[Health]] Detected a WARNING in health system Thermal: "
        f"'Detected clocks event due to {why} violation in GPU 5. Verify the cooling.\n"
    )
    told = found(analyzed({"nv-hostengine.log": text}), SLUG)
    assert [f.headline.partition(" is ")[0] for f in told] == cards


def test_the_slow_rank_of_the_host_is_that_of_the_throttled_gpu(analyzed):
    head = "timestamp, index, clocks.current.sm [MHz], utilization.gpu [%], "
    csv = f"{head}clocks_throttle_reasons.active\n"
    for gpu in range(4):
        bits = "0x0000000000000040" if gpu == 1 else "0x0000000000000000"
        csv += f"2026/06/12 05:38:05.671, {gpu}, 1275 MHz, 100 %, {bits}\n"
    text = ""
    for step in range(20):
        for rank in range(8):
            work = 0.4 + 0.001 * ((step * 7 + rank * 3) % 5) + (rank == 5) * 0.2
            text += (
                f"node=gpu000{1 + rank // 4} rank={rank} step={step} "
                f"compute={work:.4f}s allreduce={0.7 - work:.4f}s\n"
            )
    files = {"smi/gpu0002-smi.csv": csv, "job.log": text}
    (finding,) = found(analyzed(files), SLUG)
    assert (finding.hosts, finding.ranks) == (("gpu0002",), (5,))
