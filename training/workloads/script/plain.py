"""What distributes a script that trains in one process, unchanged, and what was proved of it. Pure.

A mechanism is a program that runs in the script's own Python: `prove`, `ranks`, `member` and `ray` are its commands.
The proof comes first, outside every clock; only what it says that ranks do is measured.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training.contract.arms import counted
from training.contract.provenance import PROJECT
from training.contract.result import PROOF, SAME_BUT, MadeRanks
from training.machine.command_line import rwi
from training.workloads.script import ray_start
from training.workloads.script.facts import ArmFacts
from training.workloads.script.observations import BOOSTERS
from training.workloads.script.recognise import Script
from training.workloads.script.spread.under_ray import TRAINERS
from training.workloads.script.work_items import PROVED, TREES

PROGRAM = PROJECT / "training" / "workloads" / "script" / "spread"
"""The program that distributes scripts."""
PROOF_SECONDS, MOST_SECONDS = 120, 600
"""Seconds for the runs of a proof on the CPUs of all workers, and the most seconds on the CPUs of one worker."""
START_SECONDS = 60
"""Additional seconds, in which the script's Python imports its framework."""
PLAN = "ranks.json"
"""Name of the file that tells the ranks how they split their batches."""
KEPT = PROJECT / ".state" / "proved"
"""Folder with the outcomes of proofs, by `ResolvedScript.proof_key`, so that nothing is proved twice."""
OUTCOME = "proof.json"
"""Name of the file with the outcome of a proof."""
OF_RANKS = ("native", "ray")
INSTEAD = ("raystart",)
"""The arms that are measured where the script has no ranks."""
BY_PROOF = (*OF_RANKS, *INSTEAD)
LONGEST = 300
"""Most characters of a line of the script that a reason shows."""
RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit): .")
"""Matches the line of a traceback that says what was raised; libraries in C++ print more lines after it."""

NOT_PROVED = "not-proved.txt"
"""Name of the file, next to the observations, in which rank 0 says that the script trains by something that the steps
of the proof did not have."""
OTHER_WORK = {
    "chance": "what is drawn by chance, as masks, noise or augmentation, by each rank for its own rows",
    "function": "a loss that is no mean over rows, of which ranks take the mean",
    "part": "a part of the loss that belongs to no row, as a regulariser, of which ranks take the mean",
    "statistics": "statistics of the batch, which each rank takes of its own rows",
    "sum": "a loss that is a sum over rows, of which ranks take the mean",
    "summed": "a mean over rows that its own `train_step` computes, of which ranks take the sum",
    "weights": "a mean by something else than rows, as tokens or class weights, which ranks take over rows",
}
"""What ranks do differently from one process, as those of a port would, by the kind that a proof names."""
OTHER_TREES = {
    "chance": "rows that each rank draws by chance",
    "other trees": "splits that ranks choose otherwise, and why is not known",
    "mean of the parts' means": "the number that they begin with, for LightGBM the mean of its ranks' means, and bins "
    "of the features, which come from a sketch of each rank's rows",
    "quantile sketch of the parts": "bins of the features, which come from a sketch of each rank's rows",
}
"""Why the trees of ranks differ from those of one process, as in every port, by the kind that a proof names."""
OWN_TYPES = "the same work in the script's own types, which proves less: it can't be computed in 64 bits"
APART = {
    "apart": "ranks branch apart, as the script decides by the loss of its own rank",
    "ranks differ": "ranks end with different weights, as the script decides by the loss of its own rank",
}
"""What a proof may name that no port may do, by the kind that the proof names."""
NO_OUTCOME = {"outcome": "failed"}
"""Stands for the outcome of a proof that did not finish."""
UNSPLIT = {
    "Keras 3 on TensorFlow": "nobody can distribute Keras 3 with TensorFlow as its backend, and neither as "
    "tf-keras (TF_USE_LEGACY_KERAS=1) nor on PyTorch (KERAS_BACKEND=torch) was it seen to train",
    "by hand": "it takes its batches by hand, and only those of a DataLoader can be split",
    "iterable": "its DataLoader reads an IterableDataset, whose rows have no numbers by which to split them; Keras on "
    "PyTorch makes one of a generator, a PyDataset or tf.data",
    "no room": "what it writes in its first steps, and their weights and gradients, which the proof keeps, would fill "
    "the disk",
    "no backward": "no loss.backward() was seen in it: it trains otherwise, or went on from files of an earlier run",
    "no fit": "no step of tf-keras' `fit` was seen in it",
    "no train": "no `train` of XGBoost or LightGBM was seen in it",
    "no trees": "it grows no trees (gblinear)",
    "not in 64 bits": "it can't be computed in 64 bits, in which the proof compares ranks with one process",
    "not split": "each rank would compute most of the work of all",
    "other steps": "ranks, or its rows in another order, end after another number of steps than one process",
    "own loop": "it takes steps of its own, and only those of tf-keras' `fit` and `train_on_batch` can be split",
    "own optimizer": "no step of an optimizer of torch.optim, or of Keras on PyTorch, was seen in it",
    "ranks fail": "as ranks it fails",
    "rows by an iterator": "its rows come from an iterator, which is read once",
    "rows in a file": "LightGBM alone holds rows of its data sets, as of a file or of a `subset`",
    "torch.autograd.grad": "it takes its gradients by torch.autograd.grad",
    "unbatched": "its DataLoader has no batches (batch_size=None)",
}
"""Why a script can't be split among ranks, by the reason that the proof gives."""
NOT_IN_TIME = (
    "not known whether it can be split: the runs of the proof did not end in time. What usually helps: try again on a "
    "quiet machine, or have the script do less before its first step"
)
"""The words of a proof that ran out of time."""
_ROWS = "each trains its rows of every batch that the script draws, and"
_PART = "each has its rows of the script's data, and"
SHARES = {
    "torch": f"{_ROWS} PyTorch's DDP reducer averages the gradients by rows",
    "tensorflow": f"{_ROWS} TensorFlow's MultiWorkerMirroredStrategy averages the gradients by rows",
    "xgboost": f"{_PART} XGBoost's own collective grows the same trees in all",
    "lightgbm": f"{_PART} LightGBM's own collective (tree_learner=data) grows the same trees in all",
}
"""What each rank does, by the framework that distributes the script."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was proved about the ranks of one script."""

    works: bool
    """Whether the arms with ranks are measured."""
    item: str
    """The outcome in the work of an arm: PROVED, or what the ranks do differently."""
    words: str
    """The same outcome in a sentence."""
    plan: Mapping[str, Any]
    """How ranks split the batches, in the form that the mechanism (the program that distributes the script) reads."""
    about: str = PROOF
    """Name of the item of the work that the outcome belongs to; another one for trees that differ as in every port."""
    port: Mapping[str, str] | None = None
    """The outcome of the search for the smallest port; None where no port was searched for."""

    @property
    def rows(self) -> int:
        """Return the number of rows of a step if only the proof counts them; 0 otherwise."""
        return int(max(self.plan.get("rowsOfSteps") or [0]))

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables with which every arm is run, and without which the script can't be distributed."""
        return self.plan.get("environment", {}) if self.works else {}

    @property
    def counts_rows(self) -> bool:
        """Return whether the proof has counted that each rank has rows of its own, where nothing else sees the rows."""
        return self.works and self.plan.get("framework", "torch") != "torch"

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the arms that are not measured after this outcome."""
        return INSTEAD if self.works else OF_RANKS


UNTRIED = Proof(works=False, item="", words="nothing is proved of its ranks: it failed in one process", plan={})
"""The proof of a script that no arm of one process trained."""


def without_outcome(code: int, printed: str) -> dict[str, Any]:
    """Return what stands for the outcome of a proof that ended with this exit code and no outcome."""
    return {**NO_OUTCOME, "reason": f"{last_line(printed) or 'it says nothing'} (exit code {code})"}


def framework(script: Script) -> str:
    """Return the framework whose mechanism distributes a plain script, by the script's imports; "" if none can."""
    trainer = ray_start.trainer_of(script) if script.kind == "plain" else ray_start.TASKS
    return "" if trainer == ray_start.TASKS else trainer


def mechanism(script: Script) -> Path | None:
    """Return the program that distributes a plain script; None if there is no such program for the script."""
    return PROGRAM if framework(script) else None


def comes_first(script: Script) -> bool:
    """Return whether the proof runs before the arms of one process, because it may name variables for them."""
    return framework(script) == "tensorflow"


def seconds(workers: int, in_pods: bool) -> int:
    """Return the seconds for the runs of a proof; a pod needs more, because it has the CPUs of one worker alone."""
    return min(MOST_SECONDS, PROOF_SECONDS * workers) if in_pods else PROOF_SECONDS


def is_of_a_moment(outcome: Mapping[str, Any]) -> bool:
    """Return whether the outcome may change: a run of the proof failed, ended too late, or trained nothing."""
    return outcome["outcome"] == "failed" or bool(outcome.get("error")) or outcome.get("reason") == "no backward"


def proof_of(outcome: Mapping[str, Any], script: Script) -> Proof:
    """Return the proof that an outcome stands for, with the port that was found for the same script."""
    return replace(_of_ranks(outcome, script), port=outcome.get("port"))


def _of_ranks(outcome: Mapping[str, Any], script: Script) -> Proof:
    if outcome["outcome"] == "failed":
        why = _raised(str(outcome.get("reason") or ""))
        if not why:
            return _unproved(NOT_IN_TIME)
        return _unproved(f"the proof failed, which is ours and no fault of the script: {why}")
    if outcome["outcome"] == "equal":
        return _equal(outcome)
    if outcome["outcome"] == "bound" and outcome["reason"] == "not in time":
        return _unproved(NOT_IN_TIME)
    if outcome["outcome"] == "bound":
        why = UNSPLIT.get(outcome["reason"], outcome["reason"])
        error = _raised(outcome.get("error") or "")
        return _unproved(f"it can't be split as it is: {why}{f' ({error})' if error else ''}")
    return _trees(outcome) if outcome["plan"].get("framework") in BOOSTERS else _named(outcome, script)


def _equal(outcome: Mapping[str, Any]) -> Proof:
    plan = outcome["plan"]
    by = "trees" if plan.get("framework") in BOOSTERS else "weights, but for rounding"
    words = f"proved: ranks of the unchanged script do the work of one process, with the same {by}{_as_another(plan)}"
    return Proof(works=True, item=PROVED, words=words, plan=plan)


def _as_another(plan: Mapping[str, Any]) -> str:
    """Return the end of a sentence that names the variables with which a script of Keras 3 is run in every arm; ""
    without such variables."""
    variables = " ".join(f"{name}={value}" for name, value in plan.get("environment", {}).items())
    if not variables:
        return ""
    return f". Nobody can distribute Keras 3 on TensorFlow: every arm is run with {variables}"


def _trees(outcome: Mapping[str, Any]) -> Proof:
    """Return the proof for different trees, as every port has, so that only a target for the metric decides."""
    alone, ranks = outcome["evidence"]["metrics"]
    metrics = ", ".join(f"{name} {alone[name]:.4g} and {ranks[name]:.4g}" for name in alone if name in ranks)
    seen = f"one process and ranks have {metrics}" if metrics else "the script evaluates no metric"
    item = f"other trees, by {OTHER_TREES[outcome['kind']]}; after {outcome['plan']['rounds']} rounds {seen}"
    words = f"proved: ranks of the unchanged script grow {item}; those of a port would, too"
    return Proof(works=True, item=item, words=words, plan=outcome["plan"], about=TREES)


def _named(outcome: Mapping[str, Any], script: Script) -> Proof:
    kind, at = outcome["kind"], _at(outcome.get("line") or "", script)
    if kind in APART:
        return _unproved(f"it can't be split as it is: {APART[kind]}")
    if kind == "own types alone" and outcome["elseAgrees"]:
        words = f"ranks of the unchanged script do {OWN_TYPES}{_as_another(outcome['plan'])}"
        return Proof(works=True, item=OWN_TYPES, words=words, plan=outcome["plan"])
    if kind not in OTHER_WORK:
        return _unproved("as ranks it does other work, and why is not known, which may be ours and no fault of it")
    item = f"{SAME_BUT if outcome['elseAgrees'] else 'other work, at least by'} {OTHER_WORK[kind]}{at}"
    words = f"proved: ranks of the unchanged script do {item}; those of a port would, too{_as_another(outcome['plan'])}"
    return Proof(works=True, item=item, words=words, plan=outcome["plan"])


def not_proved(observed: Path) -> str:
    """Return what ranks, in the folder of observations, say of work that no step of the proof had; "" if nothing."""
    files = sorted(observed.glob(f"*{NOT_PROVED}"))  # of a worker in another pod the name begins with its node's
    return last_line(files[0].read_text(encoding="utf-8", errors="replace")) if files else ""


def but(proof: Proof | None, later: str) -> Proof | None:
    """Return the proof with the unproved work that `later` (from `not_proved`) names, if `later` names any."""
    if proof is None or not proof.works or not later:
        return proof
    of_steps = "the work of one process" if proof.item == PROVED else proof.item
    item = f"in the steps of the proof {of_steps}; {later}"
    return replace(proof, item=item, words=f"proved: {item}")


def _unproved(words: str) -> Proof:
    return Proof(works=False, item="", words=words, plan={})


def _at(line: str, script: Script) -> str:
    """Return the place of the script at which the loss is computed, as `(train.py:12)`; "" if `line` names no place."""
    path, _, number = line.rpartition(":")
    return f" ({Path(path).name or script.path.name}:{number})" if number.isdecimal() else ""


def _raised(text: str) -> str:
    """Return the line of a traceback that says what was raised, or the text's last line if no line says so."""
    raised = [line.strip() for line in text.splitlines() if RAISED.match(line.strip())]
    return raised[-1][:LONGEST] if raised else last_line(text)


def last_line(text: str) -> str:
    """Return the last line that is not empty, cut to LONGEST characters; "" if all lines are empty."""
    return next((line.strip()[:LONGEST] for line in reversed(text.splitlines()) if line.strip()), "")


def proved(arm: ArmFacts, proof: Proof | None) -> ArmFacts:
    """Return an arm's facts with what was proved of its ranks."""
    if proof is None or not proof.works:
        return arm
    items, unknown, disjoint = dict(arm.work.items), dict(arm.work.unknown), arm.rows_disjoint
    if proof.counts_rows and (rows := arm.rows_per_step or proof.rows) and "rowsPerStep" in unknown:
        items["rowsPerStep"] = f"{rows:g}"
        unknown = {name: why for name, why in unknown.items() if name not in ("rowsPerStep", "rows")}
    if arm.arm in OF_RANKS:
        items[proof.about] = proof.item
    if arm.arm in OF_RANKS and proof.counts_rows:
        unknown.pop("rowsDisjoint", None)
        items |= {"sharedRows": "0", "sameDataSet": "yes"}
        disjoint = (True, "rows disjoint")
    return replace(arm, work=replace(arm.work, items=items, unknown=unknown), rows_disjoint=disjoint)


def ranks_in_words(arm: str, proof: Proof, workers: int, *, in_pods: bool = False) -> str:
    """Return a sentence that says what the ranks of an arm are, and what each of them does."""
    by = proof.plan.get("framework", "torch")
    each = f"a worker of Ray's {TRAINERS[by][1]}" if arm == "ray" else "a pod" if in_pods else "a process"
    return f"{counted(workers, 'rank')}, each in {each}: {SHARES[by]}"


def made_ranks(
    proof: Proof | None, arm: str, script: Script, workers: int, *, in_pods: bool = False
) -> MadeRanks | None:
    """Return what a result says about ranks that this project made; None where the project made none."""
    if proof is None or not proof.works:
        return None
    write, diff = to_write(proof, script, workers)
    words = ranks_in_words(arm, proof, workers, in_pods=in_pods)
    return MadeRanks(words=words, proof=proof.words, write=write, port=diff)


def to_write(proof: Proof, script: Script, workers: int) -> tuple[str, str]:
    """Return what the user writes to have such ranks without this project, and the smallest port as a diff, or ""."""
    by, port = proof.plan.get("framework", framework(script)), proof.port
    general = ray_start.PORTS[by]
    if by != "torch":
        return general, ""
    if port is None:
        look = f"`{rwi('try')}` with the same script looks for the smallest port of it, and gives it as a diff"
        return f"{general}. {look}", ""
    if port["outcome"] != "port":
        return f"{general}. No port of the script is given here: {port['reason']}", ""
    count = sum(line.startswith("+") for line in port["diff"].splitlines()) - 1
    was_run = (
        f"{counted(count, 'line')} for torchrun, whose ranks Ray's TorchTrainer runs, too. Proved: run as "
        f"{counted(workers, 'rank')}, this port has the weights of one process, but for rounding; rows of a last batch "
        "that ranks can't share evenly are left out"
    )
    return was_run, port["diff"]
