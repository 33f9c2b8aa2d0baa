"""`rwi bench recovery`: what the loss of a worker costs a training with checkpoints, and how exactly it resumes.

This is no part of a measurement: the stack's workload is trained twice in the arm ray with the same seed, once
undisturbed, and once with one worker killed after the first checkpoint. With --of head Ray's head is killed, and the
job with it, which is resubmitted with the same storage; with both named both are done, and compared with one
undisturbed run. Only checkpoints are kept, if the stack has storage.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cli.recovery.run import Ended, Victim, Wanted, run
from cli.setup.project import ToolError
from cli.stack import settings as stack_settings
from cli.stack.lines import for_rwi
from infra.settings.key import CLUSTER, OWN_PROCESSES
from infra.settings.settings import Settings
from report import terminal
from training.launch.storage.run_storage import Storage
from training.machine.command_line import rwi
from training.workloads.cnn.detail import WEIGHTS, detail_of
from training.workloads.cnn.recipe import CnnRecipe

Runs = Callable[[str, Victim | None], Ended]
"""A function that runs a training under a name, kills the victim if one is given, and returns the ended run."""
KILLED = {
    Victim.WORKER: "one of {workers} workers killed: {seconds:.1f} s",
    Victim.HEAD: "the head killed, and the job resumed from storage: {seconds:.1f} s of that job alone",
}


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What was observed when a run recovered from a kill."""

    recovery_seconds: float
    """Seconds from the kill to the first optimizer step after it."""
    lost_steps: int
    """Steps done before the kill that had to be repeated."""
    after_epoch: int
    """The epoch of the checkpoint from which training resumed."""
    largest_difference: float
    """The largest difference of an epoch's loss from the undisturbed run's."""
    same_weights: bool
    """Whether the newest checkpoints of both runs are equal, bit for bit; the killed run wrote its checkpoint after the
    kill."""

    @property
    def is_exact(self) -> bool:
        """Return whether training resumed exactly, with the same weights and losses as in the undisturbed run."""
        return self.same_weights and not self.largest_difference


def recover(stack: str, overrides: dict[str, str], victims: Sequence[Victim]) -> int:
    """Train once undisturbed, and once for each victim. Return 1 if a training did not resume exactly, else 0."""
    settings = stack_settings.load(stack, overrides)
    recipe = _recipe(settings, victims)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    with tempfile.TemporaryDirectory(prefix="recovery-") as name:
        folder = Path(name)
        kept = stack_settings.kept_at(settings) if settings.storage else f"{folder / 'storage'}/{stack}"
        if settings.storage:
            _refuse_unreadable(kept)
        storage = f"{kept}/recovery-{stamp}"
        wanted = Wanted(
            recipe=recipe,
            dataset_path=settings.dataset_path or "",
            storage=storage,
            minutes=settings.run.run_timeout_minutes,
        )
        train = _runs(settings, overrides, wanted, folder)
        terminal.write(
            f"checkpoints: {storage}" if settings.storage else "checkpoints: in a folder that is gone at the end"
        )
        undisturbed = train("undisturbed", None)
        terminal.write(f"undisturbed: {undisturbed.result.seconds.wall:.1f} s, {_epochs(undisturbed)}")
        seen = [_lose(of, train, undisturbed) for of in victims]
    return 0 if all(each.is_exact for each in seen) else 1


def _lose(of: Victim, train: Runs, undisturbed: Ended) -> Recovery:
    """Train while the victim is killed, print what the kill cost, and return the recovery."""
    killed = train(f"killed-{of}", of)
    workers, seconds = killed.result.recipe["workers"], killed.result.seconds.wall
    terminal.write(f"{KILLED[of].format(workers=workers, seconds=seconds)}, {_epochs(killed)}")
    seen = judge(undisturbed, killed)
    terminal.write(show(seen, killed))
    return seen


def _refuse_unreadable(kept: str) -> None:
    """Raise ToolError if this machine cannot read the storage, because checkpoints are compared here."""
    try:
        next(Storage.at(kept).names(), None)
    except OSError as error:
        raise ToolError(
            f"nothing was trained: checkpoints are compared on this machine, which can't read {kept}; with keys:\n"
            f"  export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…\nThe error: {error}"
        ) from None


def _runs(settings: Settings, overrides: dict[str, str], wanted: Wanted, folder: Path) -> Runs:
    """Return the function that trains on the stack's target, each run with its own storage. Raise ToolError if the
    target cannot be used."""

    def named(name: str) -> Wanted:
        return replace(wanted, storage=f"{wanted.storage}/{name}")

    if settings.target in CLUSTER:
        from cli.recovery.on_cluster import OnCluster

        on_cluster = OnCluster.of(settings.stack, overrides)
        return lambda name, kill: on_cluster.run(named(name), kill=kill)
    return lambda name, kill: run(named(name), folder / name, kill=kill)


def _recipe(settings: Settings, victims: Sequence[Victim]) -> CnnRecipe:
    """Return the stack's recipe with checkpoints, and with one failure allowed if a worker is killed. Raise ToolError
    for a stack that keeps no checkpoints."""
    recipe = settings.recipe
    if settings.target not in OWN_PROCESSES:
        raise ToolError(f"target = {settings.target}: allowed are {', '.join(OWN_PROCESSES)}, which keep checkpoints")
    if settings.target in CLUSTER and settings.storage is None:
        line = for_rwi("pulumi config set storage s3://bucket/prefix", settings.stack, {})
        raise ToolError(f"storage is not set: pods keep nothing else\n  {line}")
    if not isinstance(recipe, CnnRecipe):
        raise ToolError(f"workload = {recipe.workload}: allowed is cnn; a script of your own makes its own checkpoints")
    every = recipe.checkpoint_epochs or 1
    if recipe.epochs < 2 * every:
        command = " ".join(["bench recovery", *(f"--of {each}" for each in victims)])
        raise ToolError(
            f"epochs = {recipe.epochs} with a checkpoint every {every}: allowed are epochs from {2 * every} up, so that"
            f" a checkpoint is written after the kill, too\n"
            f"  {rwi(command, settings={'epochs': str(2 * every + 1)})}"
        )
    fewest = int(Victim.WORKER in victims)
    return replace(recipe, checkpoint_epochs=every, max_failures=max(fewest, recipe.max_failures))


def judge(undisturbed: Ended, killed: Ended) -> Recovery:
    """Return the recovery, from a comparison of the two runs. Raise ToolError if the killed run did not resume from a
    checkpoint and write another."""
    at = next((index for index, seen in enumerate(killed.events) if seen.event["event"] == "resume"), None)
    if killed.killed_at is None:
        raise ToolError("the run was over before anything of it could be killed: train more epochs")
    if at is None:
        raise ToolError("training started from the beginning: no checkpoint was complete")
    resumed, before, after = killed.events[at], killed.events[:at], killed.events[at:]
    if killed.newest.epoch <= resumed.event["epoch"]:
        raise ToolError("no checkpoint was written after the kill, so no weights can be compared: train more epochs")
    from_step = resumed.step or 0
    first = next(seen for seen in after if (seen.step or 0) > from_step)
    return Recovery(
        recovery_seconds=first.at - killed.killed_at,
        lost_steps=max([from_step, *(seen.step or 0 for seen in before)]) - from_step,
        after_epoch=resumed.event["epoch"],
        largest_difference=_largest_difference(undisturbed, killed),
        same_weights=undisturbed.newest.files[WEIGHTS] == killed.newest.files[WEIGHTS],
    )


def _largest_difference(undisturbed: Ended, killed: Ended) -> float:
    """Return the largest difference of an epoch's loss. Raise ToolError if the numbers of epochs differ."""
    losses, losses_of_killed = (
        [epoch.loss for epoch in detail_of(ended.result).history] for ended in (undisturbed, killed)
    )
    if len(losses) != len(losses_of_killed):
        raise ToolError(
            f"the undisturbed run has the loss of {len(losses)} epochs, the killed one of {len(losses_of_killed)}:"
            " what it wrote before the kill is not in its checkpoint, or it did not train to its end"
        )
    return max(abs(each - same) for each, same in zip(losses, losses_of_killed, strict=True))


def show(seen: Recovery, killed: Ended) -> str:
    """Return the lines that describe a recovery."""
    same = (
        "equal to the undisturbed run's in every epoch"
        if not seen.largest_difference
        else (f"at most {seen.largest_difference:.3g} from the undisturbed run's in an epoch")
    )
    weights = "equal to the undisturbed run's, bit for bit" if seen.same_weights else "other than the undisturbed run's"
    return "\n".join(
        (
            f"recoverySeconds: {seen.recovery_seconds:.1f}, from the kill to the first step after it",
            f"lostSteps: {seen.lost_steps}, repeated from the checkpoint after epoch {seen.after_epoch}",
            f"loss: {same}",
            f"weights: {weights} (SHA-256 {killed.newest.files[WEIGHTS][:16]}…)",
        )
    )


def _epochs(ended: Ended) -> str:
    detail = detail_of(ended.result)
    return "loss " + ", ".join(f"{epoch.loss:.4f}" for epoch in detail.history)
