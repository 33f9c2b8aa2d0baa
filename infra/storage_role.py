"""Temporary credentials: the role that `storageRole` names is assumed for one run, and for no longer.

Uses AWS' own client, which finds the caller's credentials wherever AWS' other tools do (variables, profiles, single
sign-on, a machine's or a workflow's identity). Stored nowhere: the caller passes them to one run.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from infra.programs import ProgramError
from infra.settings.storage import MARGIN_SECONDS

SHORTEST_SECONDS = 15 * 60
"""The shortest session in seconds that STS' AssumeRole gives."""
CHAINED_SECONDS = 3600
"""The longest session in seconds if the caller itself has assumed a role."""
SECONDS = 10
"""The seconds to wait for an answer of STS."""
ANY_REGION = "us-east-1"
"""The region that is asked if the user has none. Credentials from STS are valid in all regions."""


@dataclass(frozen=True)
class Assumed:
    """Temporary credentials from STS."""

    key_id: str
    key: str = field(repr=False)
    session: str = field(repr=False)
    expires: datetime

    def variables(self) -> dict[str, str]:
        """Return the credentials as the variables that S3 clients read."""
        return {
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.key,
            "AWS_SESSION_TOKEN": self.session,
        }


def assumed(role: str, timeout_minutes: float, run: str) -> Assumed:
    """Return credentials of the role for a run with this deadline. Raise ProgramError, with the answer of STS and a way
    to fix it, if the role cannot be assumed."""
    if find_spec("boto3") is None:
        raise ProgramError(
            "storageRole needs the package boto3, which is not installed:\n  uv sync --inexact --extra role"
        )
    from botocore.exceptions import BotoCoreError, ClientError

    seconds = seconds_of(timeout_minutes)
    try:
        response = _client().assume_role(RoleArn=role, RoleSessionName=_session(run), DurationSeconds=seconds)
    except (BotoCoreError, ClientError) as error:
        raise ProgramError(_explained(str(error), role, seconds)) from None
    keys: Mapping[str, Any] = response["Credentials"]
    return Assumed(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], keys["Expiration"])


def seconds_of(timeout_minutes: float) -> int:
    """Return the seconds for which a run's credentials are valid."""
    return max(SHORTEST_SECONDS, round(timeout_minutes * 60) + MARGIN_SECONDS)


def _client() -> Any:
    import boto3
    from botocore.config import Config

    limits = Config(connect_timeout=SECONDS, read_timeout=SECONDS, retries={"total_max_attempts": 2})
    session = boto3.Session()
    region = os.environ.get("AWS_REGION") or session.region_name or ANY_REGION
    return session.client("sts", region_name=region, config=limits)


def _session(run: str) -> str:
    """Return a session name that identifies the run in the cloud's own log."""
    return re.sub(r"[^\w+=,.@-]", "-", f"ray-worth-it-{run}")[:64]


def _explained(answer: str, role: str, seconds: int) -> str:
    minutes = (CHAINED_SECONDS - MARGIN_SECONDS) // 60
    if "chaining" in answer:
        requested = f"{seconds // 60} minutes were requested"
        why = f"the caller is itself a role, and can assume another for an hour at most; {requested}"
        way = f"pulumi config set runTimeoutMinutes {minutes}"
    elif "DurationSeconds" in answer:
        why = f"the role may not be assumed for as long as a run's deadline and {MARGIN_SECONDS // 60} minutes"
        way = f"aws iam update-role --role-name {role.rpartition('/')[2]} --max-session-duration {seconds}"
        way += f"\n  pulumi config set runTimeoutMinutes {minutes}    (or that)"
    elif "credentials" in answer.lower() or "token" in answer.lower():
        why, way = "STS accepts none of your credentials", "aws sts get-caller-identity    (shows which)"
    elif "endpoint" in answer.lower() or "timeout" in answer.lower():
        why, way = "STS does not answer", "curl --max-time 5 https://sts.amazonaws.com    (shows whether it does)"
    else:
        why, way = "STS refuses it", "pulumi config set storageRole …    (a role whose trust policy names you)"
    return f"storageRole {role} can't be assumed: {why}\n  {way}\nIts answer: {answer}"
