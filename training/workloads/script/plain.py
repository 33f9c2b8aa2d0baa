"""What distributes a script that trains in one process, unchanged, and what was proved of it. Pure.

A mechanism is a program that runs in the script's own Python: `prove`, `ranks` and `ray` are its commands. The proof
comes first, outside every clock; only what it says that ranks do is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training.contract.provenance import PROJECT
from training.contract.result import PROOF, SAME_BUT
from training.workloads.script.facts import ArmFacts
from training.workloads.script.recognise import Script
from training.workloads.script.work_items import PROVED

MECHANISMS = {"torch": PROJECT / "training" / "workloads" / "script" / "spread"}
"""By a framework that a script imports, the program that distributes it; the first counts."""
PROOF_SECONDS = 120
"""Time for the runs of a proof."""
START_SECONDS = 60
"""More time, in which the script's Python imports its framework."""
PLAN = "plan.json"
"""The file by which ranks split their batches."""
OUTCOME = "proof.json"
"""The file with the outcome of a proof."""
OF_RANKS = ("native", "ray")
INSTEAD = ("raystart",)
"""What is measured where no ranks are."""
BY_PROOF = (*OF_RANKS, *INSTEAD)
LONGEST = 300
"""Characters of a line of the script in a reason."""

NOT_PROVED = "not-proved.txt"
"""The file, next to what is observed, in which rank 0 says that the script trains by what the steps of the proof did
not have."""
OTHER_WORK = {
    "chance": "what is drawn by chance, as masks, noise or augmentation, by each rank for its own rows",
    "function": "a loss that is no mean over rows, of which ranks take the mean",
    "part": "a part of the loss that belongs to no row, as a regulariser, of which ranks take the mean",
    "statistics": "statistics of the batch, which each rank takes of its own rows",
    "sum": "a loss that is a sum over rows, of which ranks take the mean",
    "weights": "a mean by something else than rows, as tokens or class weights, which ranks take over rows",
}
"""By what a proof names, what ranks do otherwise than one process, as those of a port would."""
APART = {
    "apart": "ranks branch apart, as the script decides by the loss of its own rank",
    "ranks differ": "ranks end with different weights, as the script decides by the loss of its own rank",
}
"""What a proof names and no port may do."""
NO_OUTCOME = {"outcome": "failed"}
"""Stands for the outcome of a proof that came to no end."""
UNSPLIT = {
    "by hand": "it takes its batches by hand, and only those of a DataLoader can be split",
    "iterable": "its DataLoader reads an IterableDataset, whose rows have no numbers by which to split them",
    "no room": "the weights and gradients of its first steps, which the proof keeps, would fill the disk",
    "no backward": "no loss.backward() was seen in it",
    "not in 64 bits": "it can't be computed in 64 bits, in which the proof compares ranks with one process",
    "not in time": f"a run of the proof did not end within {PROOF_SECONDS} s",
    "not split": "each rank would compute most of the work of all",
    "other steps": "ranks, or its rows in another order, end after another number of steps than one process",
    "own optimizer": "no step of an optimizer of torch.optim was seen in it",
    "ranks fail": "as ranks it fails",
    "torch.autograd.grad": "it takes its gradients by torch.autograd.grad",
    "unbatched": "its DataLoader has no batches (batch_size=None)",
}
"""Why a script can't be split, by the reason of the proof."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was proved of the ranks of one script."""

    works: bool
    """Whether ranks are measured."""
    item: str
    """What stands in the work of an arm: PROVED, or what is other."""
    words: str
    """The same in a sentence."""
    plan: Mapping[str, Any]
    """What ranks split, as the mechanism reads it."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the arms that are not measured then."""
        return INSTEAD if self.works else OF_RANKS


UNTRIED = Proof(works=False, item="", words="nothing is proved of its ranks: it failed in one process", plan={})
"""Of a script that no arm of one process trained."""


def mechanism(script: Script) -> Path | None:
    """Return the program that distributes a plain script; None if there is none for it."""
    if script.kind != "plain":
        return None
    return next((program for framework, program in MECHANISMS.items() if script.uses(framework)), None)


def prove_command(script: Script, python: str, arguments: list[str], workers: int, file: Path) -> tuple[str, ...]:
    """Return the command that proves, and writes the outcome into a file."""
    of_proof = ("--workers", str(workers), "--seconds", str(PROOF_SECONDS), "--write", str(file))
    return (python, str(mechanism(script)), "prove", *of_proof, "--", str(script.path), *arguments)


def is_of_a_moment(outcome: Mapping[str, Any]) -> bool:
    """Return whether another moment may have another outcome: a run of the proof failed, or ended too late."""
    return outcome["outcome"] == "failed" or bool(outcome.get("error"))


def proof_of(outcome: Mapping[str, Any], script: Script) -> Proof:
    """Return what an outcome says."""
    if outcome["outcome"] == "failed":
        why = last_line(str(outcome.get("reason") or "")) or f"no outcome within {PROOF_SECONDS} s"
        return _unproved(f"the proof failed, which is ours and no fault of the script: {why}")
    at = _at(outcome.get("line") or "", script)
    if outcome["outcome"] == "equal":
        words = "proved: ranks of the unchanged script do the work of one process, by weights and gradients in 64 bits"
        return Proof(works=True, item=PROVED, words=words, plan=outcome["plan"])
    if outcome["outcome"] == "bound":
        why = UNSPLIT.get(outcome["reason"], outcome["reason"])
        error = last_line(outcome.get("error") or "")
        return _unproved(f"it can't be split as it is: {why}{f' ({error})' if error else ''}")
    kind = outcome["kind"]
    if kind in APART:
        return _unproved(f"it can't be split as it is: {APART[kind]}")
    if kind not in OTHER_WORK:
        return _unproved("as ranks it does other work, and why is not known, which may be ours and no fault of it")
    item = f"{SAME_BUT if outcome['elseAgrees'] else 'other work, at least by'} {OTHER_WORK[kind]}{at}"
    words = f"proved: ranks of the unchanged script do {item}; those of a port would, too"
    return Proof(works=True, item=item, words=words, plan=outcome["plan"])


def not_proved(observed: Path) -> str:
    """Return what ranks say of work that no step of the proof had, in the folder of what is observed; "" if nothing."""
    file = observed / NOT_PROVED
    return last_line(file.read_text(encoding="utf-8", errors="replace")) if file.exists() else ""


def but(proof: Proof | None, later: str) -> Proof | None:
    """Return the proof with work that is not proved, as `not_proved` returns it."""
    if proof is None or not proof.works or not later:
        return proof
    of_steps = "the work of one process" if proof.item == PROVED else proof.item
    return replace(proof, item=f"in the steps of the proof {of_steps}; {later}")


def _unproved(words: str) -> Proof:
    return Proof(works=False, item="", words=words, plan={})


def _at(line: str, script: Script) -> str:
    """Return where the loss is made, as `(train.py:12)`."""
    path, _, number = line.rpartition(":")
    return f" ({Path(path).name or script.path.name}:{number})" if number.isdecimal() else ""


def last_line(text: str) -> str:
    """Return the last line that says something, or its beginning."""
    return next((line.strip()[:LONGEST] for line in reversed(text.splitlines()) if line.strip()), "")


def proved(arm: ArmFacts, proof: Proof | None) -> ArmFacts:
    """Return an arm's facts with what was proved of its ranks."""
    if proof is None or not proof.works or arm.arm not in OF_RANKS:
        return arm
    return replace(arm, work=replace(arm.work, items={PROOF: proof.item, **arm.work.items}))
