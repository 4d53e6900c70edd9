"""What NVIDIA's Xids mean: which of them tell of broken hardware, and which do not."""

from __future__ import annotations

# hardware errors; for a link error, either end may be the broken one
LINK = {
    74: "NVLink error",
    121: "C2C link error",
    136: "NVLink training failed",
    **dict.fromkeys(range(144, 151), "NVLink error"),
    173: "C2C link fatal error",
}
BROKEN = {
    48: "double-bit ECC error",
    58: "memory error",
    61: "internal microcontroller halt",
    62: "internal microcontroller halt",
    64: "row remapping failed",
    79: "GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
    110: "security fault",
    119: "GSP timeout",
    120: "GSP error",
    140: "unrecovered ECC error",
    143: "GPU initialization failed",
    158: "GPU fatal timeout",
    167: "PCIe fatal timeout",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
    175: "memory subsystem error",
}
# not hardware errors by themselves, and why
HARMLESS = {
    13: "mostly an illegal address of the program",
    31: "mostly an illegal address of the program",
    43: "mostly a fault of the program",
    45: "follows whenever a process is killed",
    63: "a row was remapped successfully",
    154: "says what to do, not what happened",
    156: "a part of the GPU was retired successfully",
    69: "mostly a fault of the program",
}
