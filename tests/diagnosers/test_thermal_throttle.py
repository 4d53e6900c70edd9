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
    assert analysis.ranked.outcome == "no-failure"
