"""What is known of a request's script before it runs: its kind, what its environment has, and what has Ray for it."""

from collections.abc import Callable, Mapping

from cli.setup.project import ToolError
from cli.tryout import explain
from cli.tryout.request import Request
from training.workloads.script import python_environment, ray_layer, resolve
from training.workloads.script.commands import WithRay
from training.workloads.script.recognise import Script, ScriptError, recognise


def known_script(request: Request) -> tuple[Script, Mapping[str, str]]:
    """Return the script, and the versions of packages in its environment. Raise ToolError if either cannot be used."""
    try:
        script = recognise(request.script, request.arguments, request.kind)
        return script, python_environment.checked(request.python, script)
    except ScriptError as error:
        raise ToolError(str(error)) from None
    except python_environment.PythonError as error:
        raise ToolError(explain.python_problem(error, request)) from None


def with_ray(request: Request, script: Script, versions: Mapping[str, str], say: Callable[[str], None]) -> WithRay:
    """Return where the script's arms find Ray (in its environment, or in a layer, a folder of packages over that, which
    is made if needed), or why nowhere."""
    if "ray" in versions:
        return WithRay(lacking=ray_layer.why_not_theirs(script, request.python))
    try:
        layer = ray_layer.over(script, request.python)
        if layer is None:
            return WithRay(lacking=resolve.NO_RAY)
        ray_layer.make(layer, script, say)
    except python_environment.PythonError as error:
        return WithRay(lacking=error.why)
    say(f"arms with Ray have {layer.words}: {python_environment.near(layer.folder)}")
    if names := ray_layer.brings(layer, script):
        say(f"  which also has what the script asks for and its environment lacks, so no other arm: {', '.join(names)}")
    return WithRay(python=layer.python)
