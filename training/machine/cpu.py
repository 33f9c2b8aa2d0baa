"""Reads this machine's processor model and features, as Linux reports them. Standard library only."""

import platform
import re
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BFLOAT16 = {"avx512_bf16", "amx_bf16"}
"""Flags of x86 processors that compute in bfloat16."""


@cache
def model() -> str:
    """Return the name of this machine's processor, with family and model if they are known, because hypervisors give
    all generations of a product line the same name."""
    fields = {name: value for name, value in reversed(_fields()) if value}
    name = fields.get("model name") or platform.processor() or platform.machine()
    if not {"cpu family", "model"} <= fields.keys():
        return name
    return f"{name} (family {fields['cpu family']}, model {fields['model']})"


def lacks_bfloat16() -> bool:
    """Return whether the CPU is known to have no bfloat16 instructions. This is known only for x86 on Linux; elsewhere
    the answer is False."""
    flags = dict(_fields()).get("flags", "")
    return bool(flags) and BFLOAT16.isdisjoint(flags.split())


def _fields() -> list[tuple[str, str]]:
    try:
        text = CPUINFO.read_text()
    except OSError:
        return []
    return [(name, value) for name, value in re.findall(r"^([^\t:\n]+?)\s*:[ \t]*(.*)$", text, re.MULTILINE)]
