"""Keeps what `make why` found as results/<stack>/why.json. Without the values of ENV, which are often secret."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from compare.why import ArmWhy, Distribution
from tools.setup.project import ROOT
from tools.tryout.request import Request
from training.contract.codec import encode, write_whole
from training.machine import cpu
from training.workloads.script.recognise import Script

SCHEMA_VERSION = 1
NAME = "why.json"


@dataclass(frozen=True, kw_only=True)
class Why:
    """The file."""

    schema_version: int
    made_at: str
    """UTC, ISO 8601."""
    script: str
    script_sha256: str
    arguments: list[str]
    workers: int
    cpu_model: str
    busy: str
    """What other programs took meanwhile, in words; "" if they took nothing to speak of."""
    arms: dict[str, ArmWhy]
    distribution: list[Distribution]


def keep(
    request: Request, script: Script, arms: Mapping[str, ArmWhy], gains: Sequence[Distribution], busy: str
) -> Path:
    """Write the file, and return its path relative to the project; it replaces an earlier one."""
    path = Path("results", request.own_stack, NAME)
    content = Why(
        schema_version=SCHEMA_VERSION,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        script=request.keys["script"],
        script_sha256=hashlib.sha256(script.path.read_bytes()).hexdigest(),
        arguments=list(request.arguments),
        workers=request.workers,
        cpu_model=cpu.model(),
        busy=busy,
        arms=dict(arms),
        distribution=list(gains),
    )
    write_whole(ROOT / path, json.dumps(encode(content), indent=1) + "\n")
    return path
