"""What is known of a request's script before it runs: its kind, and what its environment has."""

from collections.abc import Mapping

from tools.setup.project import ToolError
from tools.tryout import explain
from tools.tryout.request import Request
from training.workloads.script import python_environment
from training.workloads.script.recognise import Script, ScriptError, recognise


def known_script(request: Request) -> tuple[Script, Mapping[str, str]]:
    """Return the script, and the versions in its environment. Raises ToolError."""
    try:
        script = recognise(request.script, request.arguments, request.kind)
        return script, python_environment.checked(request.python, script)
    except ScriptError as error:
        raise ToolError(str(error)) from None
    except python_environment.PythonError as error:
        raise ToolError(explain.python_problem(error, request.command)) from None
