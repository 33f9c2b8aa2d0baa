"""One run as a job of a Ray cluster: submits it, follows it to its end, and leaves its result. Run under a guard.

    python -m infra.places.ray.run_job --address http://HEAD:8265 --stack STACK --result PATH ARM RECIPE

The token and the secret variables come by the environment. At SIGTERM, by which the guard ends it, the job is stopped.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from infra.places.ray import jobs, owner
from training.contract.codec import ResultError
from training.contract.progress import ECHO, Progress
from training.contract.recipe import Recipe
from training.contract.result import TrainingResult
from training.contract.workload import recipe_of
from training.launch.environment import SECRET
from training.launch.pod import log_result
from training.launch.ray import submit
from training.launch.ray.jobs_api import TOKEN, JobsApi, SubmitError, patiently
from training.launch.ray.other_jobs import mark
from training.launch.ray.submit import Whose


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m infra.places.ray.run_job", description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--stack", required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("arm")
    parser.add_argument("recipe", help="as JSON")
    options = parser.parse_args()
    recipe = recipe_of(json.loads(options.recipe))
    api = JobsApi(options.address, os.environ.get(TOKEN, ""))
    try:
        run_result = run(api, options.arm, recipe, options.stack, options.result.parent)
        run_result.write(options.result)
    except (SubmitError, ResultError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")


def run(api: JobsApi, arm: str, recipe: Recipe, stack: str, folder: Path) -> TrainingResult:
    """Run the job, which is named after the stack and the folder, and return the run's result."""
    name, whose = f"{stack}-{folder.name}", Whose(stack, owner.of(stack))
    job = jobs.job(arm, recipe, json.loads(os.environ.get(SECRET, "{}")), name)
    progress = _Shown(Progress(folder))

    def submitted() -> None:
        uri = patiently(lambda: api.upload(job.package), "send the files of the run")
        variables = {ECHO: "1"}
        patiently(
            lambda: api.submit(name, job.command, variables, mark(whose.owner), job.cpus, working_dir=uri),
            "submit the run",
        )

    submit.run_alone(api, name, submitted, whose, progress.visible)
    log = patiently(lambda: api.log(name), "read the run's result")
    return checked(log_result.find_result(log), arm, recipe)


def checked(run_result: TrainingResult, arm: str, recipe: Recipe) -> TrainingResult:
    """Return the result if it belongs to this run. Raise ResultError if it belongs to another run."""
    if run_result.arm != arm or run_result.recipe.get("seed") != recipe.seed:
        raise ResultError(
            f"the log holds the result of another run: {run_result.arm}, seed {run_result.recipe.get('seed')}"
        )
    return run_result


class _Shown:
    """A job's log without the result, as it is shown. The newest complete line is the run's progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._last = progress, ""

    def visible(self, log: str) -> str:
        """Return the part of the log that is shown so far."""
        text = log_result.without_result(log)
        *lines, _ = text.split("\n")
        if lines and lines[-1] != self._last:
            self._last = lines[-1]
            self._progress.write("line", text=self._last[:200])
        return text


if __name__ == "__main__":
    main()
