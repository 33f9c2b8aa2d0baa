"""Providers in the state are names, which are the same in every version."""

import base64
import pickle

import pytest
from pulumi.dynamic.dynamic import serialize_provider

from infra.provider import Provider, changed
from training.contract.recipe import from_texts, texts

STATE = {
    "ClaimProvider": "gASVMwAAAAAAAACMGmluZnJhLnBsYWNlcy5jbHVzdGVyLmNsYWltlIwNQ2xhaW1Qcm92aWRlcpSTlCmBlC4=",
    "CrdsProvider": "gASVMQAAAAAAAACMGWluZnJhLnBsYWNlcy5jbHVzdGVyLmNyZHOUjAxDcmRzUHJvdmlkZXKUk5QpgZQu",
    "ImageCheckProvider": "gASVPgAAAAAAAACMIGluZnJhLnBsYWNlcy5jbHVzdGVyLmltYWdlX2NoZWNr"
    "lIwSSW1hZ2VDaGVja1Byb3ZpZGVylJOUKYGULg==",
    "JobResultProvider": "gASVPAAAAAAAAACMH2luZnJhLnBsYWNlcy5jbHVzdGVyLmpvYl9yZXN1bHSU"
    "jBFKb2JSZXN1bHRQcm92aWRlcpSTlCmBlC4=",
    "RunCredentialsProvider": "gASVRgAAAAAAAACMJGluZnJhLnBsYWNlcy5jbHVzdGVyLnJ1bl9jcmVkZW50"
    "aWFsc5SMFlJ1bkNyZWRlbnRpYWxzUHJvdmlkZXKUk5QpgZQu",
    "StorageProbeProvider": "gASVQgAAAAAAAACMImluZnJhLnBsYWNlcy5jbHVzdGVyLnN0b3JhZ2VfcHJv"
    "YmWUjBRTdG9yYWdlUHJvYmVQcm92aWRlcpSTlCmBlC4=",
    "RayDashboardsProvider": "gASVRAAAAAAAAACMI2luZnJhLnBsYWNlcy5jbHVzdGVyLnJheV9kYXNo"
    "Ym9hcmRzlIwVUmF5RGFzaGJvYXJkc1Byb3ZpZGVylJOUKYGULg==",
    "RayReadyProvider": "gASVOgAAAAAAAACMHmluZnJhLnBsYWNlcy5jbHVzdGVyLnJheV9yZWFkeZSMEFJheVJlYWR5UHJvdmlkZXKUk5QpgZQu",
    "RayWorkersProvider": "gASVPgAAAAAAAACMIGluZnJhLnBsYWNlcy5jbHVzdGVyLnJheV93b3Jr"
    "ZXJzlIwSUmF5V29ya2Vyc1Byb3ZpZGVylJOUKYGULg==",
    "PinnedClusterProvider": "gASVRwAAAAAAAACMJmluZnJhLnBsYWNlcy5rdWJlcm5ldGVzLnBpbm5lZF9j"
    "bHVzdGVylIwVUGlubmVkQ2x1c3RlclByb3ZpZGVylJOUKYGULg==",
    "DestroyCheckProvider": "gASVRgAAAAAAAACMJmluZnJhLnBsYWNlcy5rdWJlcm5ldGVzLnBpbm5lZF9j"
    "bHVzdGVylIwURGVzdHJveUNoZWNrUHJvdmlkZXKUk5QpgZQu",
    "TrainingRunProvider": "gASVNQAAAAAAAACMFmluZnJhLnBsYWNlcy5sb2NhbC5ydW6UjBNUcmFpbmluZ1J1blByb3ZpZGVylJOUKYGULg==",
    "RayJobRunProvider": "gASVMQAAAAAAAACMFGluZnJhLnBsYWNlcy5yYXkucnVulIwRUmF5Sm9iUnVuUHJvdmlkZXKUk5QpgZQu",
}
"""`__provider` of each dynamic resource, as the first version of it wrote it into states."""


@pytest.mark.parametrize("name", STATE)
def test_a_provider_in_a_state_is_read_and_written_as_ever(name: str) -> None:
    """Code in the state would be this version's for ever; a name that moved would break `refresh` and `destroy`."""
    provider = pickle.loads(base64.b64decode(STATE[name]))

    assert (name, True) == (type(provider).__name__, isinstance(provider, Provider))
    assert STATE[name] == serialize_provider(provider)
    assert 100 > len(base64.b64decode(STATE[name]))


def test_every_provider_is_among_them() -> None:
    """So a new one is added here once, and keeps its name."""
    for encoded in STATE.values():
        pickle.loads(base64.b64decode(encoded))

    kinds, pending = set(), [Provider]
    while pending:
        subclasses = pending.pop().__subclasses__()
        kinds |= {kind.__name__ for kind in subclasses if kind.__module__.startswith("infra.")}
        pending += subclasses
    assert STATE.keys() == kinds


def test_properties_are_compared_by_their_keys() -> None:
    """A property that is missing on one side differs."""
    assert ["b", "c"] == changed({"a": 1, "b": 1}, {"a": 1, "b": 2, "c": 3, "d": 4}, "a", "b", "c")


def test_settings_as_texts_are_read_as_what_they_were() -> None:
    """A text that looks like a number stays one."""
    values = {"number": 4, "text": "4", "word": "digits", "share": 1e-05, "none": None, "no": False, "empty": ""}
    values |= {"true": "true", "nan": "NaN", "quoted": '"a"', "open": '{"a"', "map": '{"a": 1}', "line": "a\nb"}

    assert values == from_texts(texts(values))
    assert {str} == {type(text) for text in texts(values).values()}
    assert ("4", "digits", '"4"') == tuple(texts(values)[name] for name in ("number", "word", "text"))
