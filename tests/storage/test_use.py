"""Storage in S3 can be used as runs will, or it is said why not, with the line that mends it. A real server answers."""

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from infra.programs import ProgramError
from infra.settings.storage import Storage
from infra.storage import ask
from infra.storage_role import assumed
from tests.golden import Wording
from tests.storage.cloud import KEEPER, PREFIX, ROLE, Cloud

MINUTES = 1.0


def of_role(cloud: Cloud, role: str = ROLE) -> Storage:
    """The storage that a role may use."""
    return Storage(address=PREFIX, endpoint=cloud.url, role=role)


def with_keys(cloud: Cloud, keys: Mapping[str, str], address: str = PREFIX) -> Storage:
    """Storage with credentials of its own."""
    return Storage(address=address, endpoint=cloud.url, credentials=keys)


def own_words(said: str) -> str:
    """What the project says, with the line to type; what the server or Arrow said stands below."""
    return "\n".join(said.splitlines()[:2])


def refusal(storage: Storage) -> str:
    """Why it can't be used."""
    with pytest.raises(ProgramError) as refused:
        ask(storage, MINUTES)
    return str(refused.value)


@pytest.mark.usefixtures("as_caller")
def test_a_role_writes_lists_reads_deletes_and_leaves_nothing(cloud: Cloud) -> None:
    """With a session token, and a policy that is checked."""
    assert "" == ask(of_role(cloud), MINUTES)
    assert [] == [name for name in cloud.names() if "write-test" in name]
    assert cloud.asked() > 4


@pytest.mark.usefixtures("as_caller")
def test_what_may_not_be_deleted_stays_and_it_is_said(cloud: Cloud, wording: Wording) -> None:
    """Ray would only log it."""
    known = ask(of_role(cloud, KEEPER), MINUTES)

    (left,) = {name.split("/")[1] for name in cloud.names() if "write-test" in name}
    assert left in known
    wording("storage", known.replace(left, "NAME").replace(cloud.url, "SERVER"))


@pytest.mark.usefixtures("as_caller")
def test_what_lies_outside_of_the_role_s_prefix_is_refused(cloud: Cloud, wording: Wording) -> None:
    """By the policy, with the rights that it lacks."""
    said = refusal(replace(of_role(cloud), address="s3://runs/outside"))

    assert "s3:PutObject" in said
    assert "pulumi config set storageRole" in said
    wording("storage", own_words(said).replace(cloud.url, "SERVER"))


def test_a_bucket_that_is_not_there_is_named(cloud: Cloud, wording: Wording) -> None:
    """With the line that makes it."""
    said = refusal(with_keys(cloud, cloud.owner, "s3://nowhere/x"))

    assert cloud.url in said
    assert "aws s3 mb s3://nowhere" in said
    wording("storage", own_words(said).replace(cloud.url, "SERVER"))


@pytest.mark.parametrize("wrong", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_wrong_credentials_are_known_for_such(
    cloud: Cloud, wrong: str, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Not for missing rights, as an answer to HEAD reads: LIST is asked, which has the reason."""
    for name, value in cloud.variables(cloud.caller).items():
        monkeypatch.setenv(name, value)
    keys = assumed(ROLE, MINUTES, "a-run").variables()

    said = refusal(with_keys(cloud, keys | {wrong: "wrong"}))

    assert "pulumi config set --secret storageCredentials" in said
    assert keys["AWS_SECRET_ACCESS_KEY"] not in said
    wording("storage", own_words(said).replace(cloud.url, "SERVER"))


@pytest.mark.parametrize(
    ("refused", "what", "line"),
    [
        ("expired", "no longer valid", "pulumi config set --secret storageCredentials"),
        ("elsewhere", "in another region", "pulumi config set storageRegion eu-central-1"),
        ("unknown key", "does not know the credentials", "pulumi config set --secret storageCredentials"),
    ],
)
def test_what_a_server_answers_is_understood(cloud: Cloud, refused: str, what: str, line: str) -> None:
    """What moto never says, a guard before it does, in S3's own words, or another server's."""
    cloud.refusal = refused

    said = refusal(with_keys(cloud, cloud.owner))

    assert what in said
    assert line in said


def test_an_endpoint_that_does_not_answer_is_named(wording: Wording) -> None:
    """Not after Arrow has asked for each of its questions again and again."""
    said = refusal(Storage(address=PREFIX, endpoint="http://127.0.0.1:9", credentials={"AWS_ACCESS_KEY_ID": "x"}))

    assert "http://127.0.0.1:9" in said
    assert "pulumi config set storageEndpoint" in said
    wording("storage", own_words(said))


@pytest.mark.usefixtures("as_caller")
def test_a_role_that_is_refused_is_so_by_its_own_answer(cloud: Cloud, wording: Wording) -> None:
    """Before anything of storage is asked."""
    before = cloud.asked()

    said = refusal(of_role(cloud, ROLE + "s"))

    assert f"storageRole {ROLE}s" in said
    assert "AssumeRole" in said
    wording("storage", own_words(said).replace(cloud.url, "SERVER"))
    assert before == cloud.asked()


@pytest.mark.usefixtures("as_caller")
@pytest.mark.parametrize(("minutes", "lives"), [(1.0, 16), (60.0, 75), (705.0, 720)])
def test_a_role_lives_for_a_run_and_a_margin(minutes: float, lives: int) -> None:
    """From STS' shortest to its longest."""
    from datetime import UTC, datetime

    left = assumed(ROLE, minutes, "baseline-1").expires - datetime.now(UTC)

    assert lives == round(left.total_seconds() / 60)


def test_what_is_shown_of_credentials_is_no_secret(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of those that are given, nor of those that are made."""
    for name, value in cloud.variables(cloud.caller).items():
        monkeypatch.setenv(name, value)
    made = assumed(ROLE, MINUTES, "a-run")

    assert made.key not in repr(made)
    assert made.session not in repr(made)
    assert cloud.owner["AWS_SECRET_ACCESS_KEY"] not in repr(with_keys(cloud, cloud.owner))
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == cloud.caller["AWS_SECRET_ACCESS_KEY"]
