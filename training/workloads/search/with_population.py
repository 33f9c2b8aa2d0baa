"""Population based training with Ray Tune, as its documentation has it for a class `Trainable`: a step is a segment.

https://docs.ray.io/en/latest/tune/examples/pbt_guide.html. Asynchronously: with `synch=True` one trial that failed
left the others waiting. Every checkpoint is kept until the search has ended: Ray deletes older ones before another
trial takes them.
"""

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from training.workloads.search import population, trial
from training.workloads.search.plan import Plan
from training.workloads.search.population import Origin
from training.workloads.search.recipe import CHECKPOINT
from training.workloads.search.space import Choice, Range, Space, Whole
from training.workloads.search.trial import TrialFailedError

DRAWN, NUMBER, VALUES = "trial", "number", "values"
"""Keys of what Tune gives a trial. The number is that of the trial whose values they are, and it goes with the values
to the trial that takes them."""
LOG = "pbt_global.txt"
"""Name of the file in which Ray logs which trial took the checkpoint of which other trial:
https://docs.ray.io/en/latest/tune/api/doc/ray.tune.schedulers.PopulationBasedTraining.html"""


class SegmentedTrial(tune.Trainable):  # type: ignore[misc]
    """A trial whose script is started, and for which Ray makes an object of this class, for each segment."""

    def setup(self, config: dict[str, Any], plan: Plan) -> None:
        """Take the values of this trial; they may be those of another trial, changed."""
        self._plan, self._values = plan, config[DRAWN][VALUES]
        self._number = _number(plan, self.trial_id, config[DRAWN][NUMBER])
        self._folder = plan.trial_folder(self._number)
        self._checkpoint = self._folder / CHECKPOINT
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self._checkpoint.mkdir(parents=True)
        self._empty = population.digest(self._checkpoint)
        self._origin: Origin | None = None
        self._running: trial.RunningTrial | None = None

    def step(self) -> dict[str, Any]:
        """Train a segment, and return the metric at its end. Raises TrialFailedError."""
        recipe, index = self._plan.settings, len(population.folders(self._folder))
        before = self._origin.until if self._origin else 0
        until = min(before + recipe.search_grace, recipe.epochs)
        part = trial.Part(
            folder=self._folder / population.SEGMENTS / f"{index}", checkpoint=self._checkpoint, until=until
        )
        before_it = population.digest(self._checkpoint)
        self._running = trial.start(self._plan, self._number, self._values, decides=False, within=part)
        self._running.next_report()
        record = self._running.end()
        self._running = None
        digests = (before_it, population.digest(self._checkpoint))
        segment = population.segment_of(record, until, self._origin, digests)
        population.write(part.folder, segment)
        if record.state == "finished" and (why := population.why_not(segment, before, self._empty)):
            record = population.failed(record, why)
            record.write(part.folder)
        self._origin = Origin(trial=self._number, segment=index, until=until)
        if record.state == "failed" or until == recipe.epochs:
            self._write()
        if record.state == "failed":
            raise TrialFailedError(record.why)
        return {recipe.metric: record.metric, tune.result.DONE: until == recipe.epochs}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save in Ray's checkpoint what the script has left."""
        assert self._origin  # noqa: S101 (Ray saves what has made a step)
        population.save(self._checkpoint, Path(checkpoint_dir), self._origin)

    def load_checkpoint(self, checkpoint: str) -> None:
        """Load the checkpoint that this trial or a better one has left."""
        self._origin = population.load(Path(checkpoint), self._checkpoint)

    def cleanup(self) -> None:
        """End the script if the search ends first, and delete the trial's checkpoint, of which Ray has copies."""
        if self._running:
            self._running.abandon()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _write(self) -> None:
        record = population.record_of(self._number, self._folder)
        record.write(self._folder)
        trial.tell(self._plan, record)


def tuner(plan: Plan, folder: Path) -> tune.Tuner:
    """Return the tuner that runs the search, with its files in a folder of the run. `max_concurrent_trials` would limit
    the population, and not the trials that run at the same time, which the CPUs limit."""
    recipe = plan.settings
    random.seed(recipe.seed)  # which Ray's scheduler draws by
    numpy.random.seed(recipe.seed)
    space = Space.parse(recipe.search_space)
    mutations = {name: _mutation(values) for name, values in space.ranges.items()}
    drawn = [{NUMBER: number, VALUES: values} for number, values in enumerate(plan.configurations or [])]
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(SegmentedTrial, plan=plan), {"cpu": plan.threads}),
        param_space={DRAWN: tune.grid_search(drawn)},
        tune_config=tune.TuneConfig(
            metric=recipe.metric,
            mode=recipe.metric_mode,
            scheduler=PopulationBasedTraining(
                time_attr="training_iteration",
                perturbation_interval=1,
                hyperparam_mutations={DRAWN: {VALUES: mutations}},
                custom_explore_fn=lambda config: _within(space, config),
            ),
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(folder / population.KEPT),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )


def check(plan: Plan, folder: Path) -> None:
    """Check that each checkpoint that was handed over arrived. Raise HandOverError if one did not."""
    log = folder / population.KEPT / "search" / LOG
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    taken = [json.loads(line)[-2:] for line in lines]
    segments = {
        number: [segment for own in population.folders(plan.trial_folder(number)) if (segment := population.read(own))]
        for number in range(plan.settings.search_trials)
    }
    population.check(segments, [(donor[DRAWN][VALUES], values[DRAWN][VALUES]) for donor, values in taken])


def _mutation(values: Range) -> Any:
    """Return a range in Ray's form: a choice changes to a neighbouring value, a number by a factor."""
    if isinstance(values, Choice):
        return [*values.values]
    if isinstance(values, Whole):
        return tune.randint(values.low, values.high + 1)
    return (tune.loguniform if values.log else tune.uniform)(values.low, values.high)


def _within(space: Space, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that Ray tries next, with its values moved within the search space, because Ray
    multiplies by 1.2 or 0.8 whatever the bounds are."""
    drawn = config[DRAWN]
    return {**config, DRAWN: {**drawn, VALUES: space.within(drawn[VALUES])}}


def _number(plan: Plan, name: str, number: int) -> int:
    """Return the number of a trial by Ray's name of it. The trial's first segment stores `number`; for later segments
    `number` may be another trial's."""
    path = Path(plan.folder) / population.NUMBERS / name
    if path.exists():
        return int(path.read_text(encoding="utf-8"))
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{number}", encoding="utf-8")
    return number
