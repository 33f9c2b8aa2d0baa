"""`rwi try` as a user calls it, and single arms of it."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.tryout.run_arm import Outcome, run
from tests.limits import LONGEST_SECONDS
from tests.stacks import OWN_PYTHON
from tests.typed import tried
from training.contract import result
from training.contract.result import TrainingResult
from training.workloads.script import commands, facts
from training.workloads.script.facts import ArmFacts
from training.workloads.script.recognise import recognise

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLES = PROJECT / "examples"
NO_ENVIRONMENT = f"there is no {OWN_PYTHON} (its line is in stacks/Pulumi.torch.yaml), and %s names no other with %s"
NO_TREES = NO_ENVIRONMENT % ("TRY_TREES_PYTHON", "XGBoost, LightGBM and Ray")
NO_RLLIB = NO_ENVIRONMENT % ("TRY_RLLIB_PYTHON", "RLlib and PyTorch")
NO_KERAS = "the environment with PyTorch that TRY_PYTHON names has no Keras 3"
OURS = ("r-", "ray-", "run-", "spread-", "try-", "why-")
"""Beginnings of the names of temporary folders that this project makes."""
NO_TORCH = NO_ENVIRONMENT % ("TRY_PYTHON", "PyTorch and Ray")


@dataclass(frozen=True)
class Tried:
    """What `rwi try` printed, and its exit code."""

    code: int
    text: str

    @property
    def kind(self) -> str:
        """What the script was recognised as."""
        return self._matches(r"^\S+\.py: (.+)$")[0]

    @property
    def absent(self) -> dict[str, str]:
        """The arms that there are not, each with why."""
        return dict(re.findall(r"^  (\w+) +absent: (.+)$", self.text, re.MULTILINE))

    @property
    def problem(self) -> str:
        """The message of the first arm that failed, without what it printed; "" if none did."""
        tried = re.split(r"\nabout \d+ steps of each arm.*\n", self.text)[-1]
        message = re.match(r"(?:  \w+: \d+ s\n)*  \w+: (.+)$", tried, re.MULTILINE)
        return message[1] if message and not re.fullmatch(r"\d+ s", message[1]) else ""

    @property
    def claim(self) -> str:
        """The letter of the claim that can be reached; "" if there is none."""
        return "".join(self._matches(r"^claim [^:]+: ([A-D]), "))

    @property
    def reporting_percent(self) -> dict[str, int]:
        """By arm that spends much of its time in `ray.train.report`, how much."""
        found = re.findall(r"^  (\w+): (\d+) % .*ray\.train\.report", self.text, re.MULTILINE)
        return {arm: int(percent) for arm, percent in found}

    @property
    def conclusions(self) -> str:
        """What is said below the table, from the first finding to the claim, less all that follows from times."""
        said = self.text.partition("\nseen\n")[2].partition("\n\nNo answer yet: ")[0]
        findings = [line for line in said.splitlines() if not re.match(r"  (arm  |\w+  +\d|\w+: \d+ % )", line)]
        return re.sub("; observing the steps took .*", "", "\n".join(findings))

    def _matches(self, pattern: str) -> list[str]:
        return [str(match) for match in re.findall(pattern, self.text, re.MULTILINE)]

    def row(self, arm: str) -> dict[str, str]:
        """The line of an arm in the table of what was seen, by its headings."""
        lines = [re.split(r"  +", line.strip()) for line in self.text.splitlines()]
        titles = next(words for words in lines if words[:2] == ["arm", "ranks"])
        (row,) = (words for words in lines if words[0] == arm and len(words) == len(titles))
        return dict(zip(titles, row, strict=True))


def try_script(
    path: Path,
    arguments: str = "",
    *,
    python: str = "",
    env: str = "",
    steps: str = "20",
    limit: str = "300",
    **variables: str,
) -> Tried:
    """All of it; `env` is the option, the variables are the environment's. None of its temporary folders is left."""
    options = ["--steps", steps, "--limit", limit]
    options += [part for option, given in (("--python", python), ("--env", env)) if given for part in (option, given)]
    with tempfile.TemporaryDirectory(prefix="t-") as temporary:
        done = subprocess.run(
            [sys.executable, "rwi", "try", str(path), *options, "--", *shlex.split(arguments)],
            cwd=PROJECT, env=os.environ | variables | {"TMPDIR": temporary}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert [] == [path.name for path in Path(temporary).iterdir() if path.name.startswith(OURS)]
    return Tried(done.returncode, done.stdout + done.stderr)


def run_one(
    path: Path, arm: str, folder: Path, arguments: str = "--epochs 1", python: str = sys.executable
) -> tuple[Outcome, ArmFacts]:
    """One arm, and what was seen of it."""
    asked = tried(str(path), "--python", python, "--limit", "300", "--", *shlex.split(arguments))
    script = recognise(path, asked.arguments)
    made = commands.commands(script, python, commands.Sizes(workers=2), {"storage": str(folder)})
    command = next(one for one in made if one.arm == arm)
    outcome = run(command, asked, folder, path.parent)
    assert outcome.seen, outcome.printed[-3000:]
    return outcome, facts.of_arm(arm, command.ranks, outcome.seen)


def measure_one(path: Path, arm: str, folder: Path, *flags: str, python: str = sys.executable) -> TrainingResult:
    """One run as an update makes it; its files are in `folder`."""
    command = [sys.executable, "-m", f"training.{arm}", "--workload=script", f"--result={folder / 'result.json'}"]
    with subprocess.Popen(
        [*command, f"--script={path}", f"--python={python}", *flags],
        cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as run_of_arm:  # fmt: skip
        try:
            printed, _ = run_of_arm.communicate(timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            run_of_arm.terminate()  # killed, it would leave its ranks and their Ray
            try:
                printed, _ = run_of_arm.communicate(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                run_of_arm.kill()
                raise
            pytest.fail(f"not within {LONGEST_SECONDS} s: {printed[-3000:]}")
    assert 0 == run_of_arm.returncode, printed[-3000:]
    return result.read(folder / "result.json")
