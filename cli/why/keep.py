"""Keeps what `rwi why` found as results/<stack>/why.json. Without the values of --env, which are often secret."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cli.setup.project import ROOT, ToolError
from cli.why.request import WhyRequest, without_secrets
from compare.value import Missing
from compare.why import ArmWhy, Distribution, Why
from training.contract.codec import encode, write_whole
from training.machine import cpu
from training.workloads.script.recognise import Script

SCHEMA_VERSION = 1
NAME = "why.json"


def kept(
    request: WhyRequest,
    script: Script,
    arms: Mapping[str, ArmWhy | Missing],
    gains: Sequence[Distribution],
    busy: str,
) -> Why:
    """Return all that is kept."""
    of_try = request.of_try
    return Why(
        schema_version=SCHEMA_VERSION,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=request.command,
        script=of_try.keys["script"],
        script_sha256=hashlib.sha256(script.path.read_bytes()).hexdigest(),
        arguments=without_secrets(of_try.arguments),
        workers=of_try.workers,
        cpu_model=cpu.model(),
        busy=busy,
        arms={arm: judged for arm, judged in arms.items() if isinstance(judged, ArmWhy)},
        unknown={arm: judged.reason for arm, judged in arms.items() if isinstance(judged, Missing)},
        distribution=list(gains),
    )


def keep(content: Why, stack: str) -> Path:
    """Write the file, and return its path relative to the project; it replaces an earlier one. Raises ToolError."""
    path = Path("results", stack, NAME)
    try:
        write_whole(ROOT / path, json.dumps(encode(content), indent=1) + "\n")
    except OSError as error:
        raise ToolError(f"{path} could not be written, so nothing is kept of it: {error.strerror or error}") from None
    return path
