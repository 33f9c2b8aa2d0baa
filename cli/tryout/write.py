"""Writes what was tried into a stack's file, as the keys that `rwi up` measures it by; the rest of it stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cli.setup import project
from cli.setup.project import SMOKE, SWEEP_PREFIX, ToolError, capture, checked_stack_name, shown_file
from cli.stack import config as stack_config
from cli.stack import edit
from training.machine.command_line import quoted

if TYPE_CHECKING:
    from cli.tryout.typed import Typed

# Forms of services are as those services document them, and as detect-secrets and gitleaks look for them.
_NAMES = (
    r"passw(?:or)?d|passwd|passphrase|pwd|_pass|secret|token|credentials?|identity-?token|connection[_-]?string|"
    r"(?:api|access|secret|private|client|account|shared|signing|encryption|storage|license|master|ssh)[_-]?key|"
    r"client-key-data|access[_-]?key[_-]?id|aws_?secret_?access_?key|_auth|cookie|salt"
)
_IS_NAME = re.compile(rf"(?i).*(?:{_NAMES})|auth")
_SERVICES = (
    r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}\b",  # AWS
    r"\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}",  # GitHub
    r"\bgl(?:pat|rt|dt|oas|ptt|cbt|ft|soat|imt|agent)-[\w-]{20,}",  # GitLab
    r"\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}|(?<=hooks\.slack\.com/)(?:services|workflows)/[\w/+-]+",  # Slack
    r"\b[rs]k_(?:live|test)_\w{10,}",  # Stripe
    r"\bAIza[\w-]{35}|\bya29\.[\w-]{10,}|\bGOCSPX-[\w-]{20,}",  # Google
    r"\bsk-[\w-]{20,}",  # OpenAI, Anthropic
    r"\bhf_\w{20,}|\bnpm_\w{30,}|\bpypi-[\w-]{20,}|\bdckr_[a-z]+_[\w-]{20,}",  # Hugging Face and registries
    r"\bpul-[0-9a-f]{40}|\bhv[sbr]\.[\w-]{20,}|\bdo[opr]_v1_[0-9a-f]{40,}|\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # a JSON web token, as of a service account
)
_ADDRESSES = (
    r"(?<=://)[^\s/@\"'<>]{1,500}(?=@)",  # a user in an address, with or without a password
    r"(?<=://)[^\s/:@\"'<>]{0,200}:[^\s\"'<>]{0,500}(?=@(?!sha256:))",  # a password that holds / or @
)
_BY_FORM = re.compile("|".join(f"(?:{form})" for form in (*_SERVICES, *_ADDRESSES)))
_NAMED = re.compile(
    rf"(?i)(?:{_NAMES})[\"']?\s*[:=]\s*[\"']?[^\s\"']{{5,}}|authorization|\b(?:bearer|basic)\s+\S{{6,}}"
)
_MAY_BE_SECRET = re.compile(r"(?i)(?:key|pass|auth|authorization|webhook(?:_url)?|(?:^|[_.-])(?:pat|pw|sas|dsn))$")
"""Matches ends of names that may mean a secret. The names whose values are removed from logs are stricter; here a match
only means that the value is not written to a file."""


def keys(typed: Typed) -> dict[str, str]:
    """Return the typed values by key of a stack, without secret variables, because git tracks a stack's file."""
    secret = secrets(typed.variables)
    values = {
        "script": typed.script,
        "scriptArguments": " ".join(map(quoted, typed.arguments)),
        "scriptKind": typed.kind,
        "python": typed.python,
        "environment": " ".join(
            quoted(f"{name}={value}") for name, value in typed.variables.items() if name not in secret
        ),
        "workers": str(typed.workers or ""),
    }
    return {"workload": "script"} | {key: value for key, value in values.items() if value}


def secrets(variables: Mapping[str, str]) -> list[str]:
    """Return the names of variables that are secret, by their names or by the form of their values."""
    return [name for name, value in variables.items() if value and (_may_be_secret(name) or is_secret(value))]


def is_secret(text: str) -> bool:
    """Return whether a part of the text has the form of a secret, such as a service's key, or is named like a secret:
    --wandb-key x, logger.key=x."""
    return _has_secret_form(text) or any(
        _may_be_secret(word.partition("=")[0].lstrip("-"))
        for word in text.split()
        if word.startswith("-") or "=" in word
    )


def _may_be_secret(name: str) -> bool:
    """Return whether a name may be that of a secret. A number at the end is ignored, as in API_KEY_2."""
    of_all = name.rstrip("0123456789_-")
    return _is_secret_name(of_all) or bool(_MAY_BE_SECRET.search(of_all))


def stack_of(script: str) -> str:
    """Return a name for a stack that is only for this script, made from the script's file name."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(script).stem).strip("-.")[:80] or "script"
    return f"script-{name}" if name == SMOKE or name.startswith(SWEEP_PREFIX) else name


def check(stack: str, values: Mapping[str, str], *, is_named: bool) -> None:
    """Raise ToolError if the stack's file must not be changed. A file that measures something else is only changed if
    the user named the stack."""
    checked_stack_name(stack)
    path = _path(stack)
    if is_named or not path.is_file() or stack_config.config_of(stack).get("script") == values["script"]:
        return
    raise ToolError(
        f"{shown_file(path)} measures something else than {values['script']}, and --write would change it."
        f" Name a new stack, or this one if you want that: --stack {stack}-script"
    )


def _path(stack: str) -> Path:
    return project.STACKS / f"Pulumi.{checked_stack_name(stack)}.yaml"


def way_back(stack: str) -> str:
    """Return the command that undoes the next write to the stack's file; "" if there is no such command."""
    path = _path(stack)
    name = shown_file(path)
    if not path.is_file():
        return f"rm {name}"
    is_tracked = capture(["git", "ls-files", "--error-unmatch", str(path)]).returncode == 0
    if is_tracked and capture(["git", "status", "--porcelain", str(path)]).stdout == "":
        return f"git checkout {name}"
    return ""


def write(stack: str, values: Mapping[str, str]) -> Path:
    """Write the values into the stack's file, which is created if needed, and return the path. Raise ToolError if the
    file cannot be changed."""
    path = _path(stack)
    if not path.is_file():
        try:
            path.write_text(f"# {values['script']}, as `./rwi try` ran it.\nconfig: {{}}\n", encoding="utf-8")
        except OSError as error:
            raise ToolError(f"{path} can't be written: {error.strerror}") from None
    return edit.put(stack, values)


def _is_secret_name(name: str) -> bool:
    """Return whether a name means a secret, such as RAY_AUTH_TOKEN, dbPassword, client-key-data, but not secretName."""
    return bool(_IS_NAME.fullmatch(name))


def _has_secret_form(text: str) -> bool:
    """Return whether a text seems to contain a secret: a service's key, a user in an address, or `password: …`."""
    return bool(_BY_FORM.search(text) or _NAMED.search(text) or "PRIVATE KEY" in text)
