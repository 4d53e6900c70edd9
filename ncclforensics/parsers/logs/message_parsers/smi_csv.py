"""`nvidia-smi --query-gpu=…,clocks_event_reasons.… --format=csv`: throttled GPUs.

A line of column names, then a line per GPU. Each reason has a column with `Active` or
`Not Active`; the column `active` holds all reasons as bits: 0x08 HW slowdown, 0x20 and
0x40 thermal (software, hardware), 0x80 power brake. Before driver 535:
`clocks_throttle_…`.
"""

from __future__ import annotations

from ncclforensics.parsers.logs.message_parsers.limits import capped

_BITS = {
    0x08: "HW Slowdown",
    0x20: "SW Thermal Slowdown",
    0x40: "HW Thermal Slowdown",
    0x80: "HW Power Brake Slowdown",
}
COLUMNS = ("index", "pci", "cause", "gpu_line", "below")
_REASONS = {
    "hw_slowdown": "HW Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
}


def parse(text: str) -> list[dict[str, object]]:
    """Return a row per GPU and reason: `index`, `pci`, `cause`, `gpu_line`, `below`.

    `gpu_line` is the GPU's line as printed, `below` its distance in lines from the
    column names. GPUs at full clocks yield no row.
    """
    lines = capped(text).splitlines()
    if not lines:
        return []
    names = [name.strip() for name in lines[0].split(",")]
    rows: list[dict[str, object]] = []
    for below, line in enumerate(lines[1:], 1):
        values = line.split(",")  # nvidia-smi quotes nothing
        if len(values) != len(names):
            break
        told = dict(zip(names, (value.strip() for value in values), strict=True))
        number = told.get("index", "")
        rows.extend(
            {
                "index": int(number) if number.isdigit() else None,
                "pci": told.get("pci.bus_id") or told.get("gpu_bus_id"),
                "cause": cause,
                "gpu_line": line,
                "below": below,
            }
            for cause in _causes(told)
        )
    return rows


def _causes(told: dict[str, str]) -> list[str]:
    found: list[str] = []
    for name, value in told.items():
        head, _, reason = name.partition(".")
        if head not in ("clocks_throttle_reasons", "clocks_event_reasons"):
            continue
        if reason == "active":
            bits = int(value, 16) if value.lower().startswith("0x") else 0
            found.extend(cause for bit, cause in _BITS.items() if bits & bit)
        elif reason in _REASONS and value == "Active":
            found.append(_REASONS[reason])
    return list(dict.fromkeys(found))
