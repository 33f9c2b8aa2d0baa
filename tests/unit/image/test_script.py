"""Which images are brought to which nodes; docker and minikube are replaced by what they would list."""

import pytest

from infra.image import command as image

ENGINE = {"training:1", "operator:1"}
NODES = {"a": {"docker.io/library/training:1", "docker.io/library/operator:1"}, "b": {"docker.io/library/operator:1"}}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[str]]]:
    """What was loaded: nodes and images."""
    done: list[tuple[list[str], list[str]]] = []

    def run(*command: str, **_: object) -> str:
        if command[0] == "minikube":
            return "".join(f"{node}\t192.168.49.2\n" for node in NODES)
        return "\n".join(NODES[command[2]])

    monkeypatch.setattr(image, "run", run)
    monkeypatch.setattr(image, "succeeds", lambda *command: command[-1] in ENGINE)
    monkeypatch.setattr(image, "_import", lambda nodes, images: done.append((nodes, images)))
    return done


def test_a_node_that_lost_an_image_gets_that_one_again(loaded: list[tuple[list[str], list[str]]]) -> None:
    """And the others are left alone."""
    image.bring_back("profile", ["training:1", "operator:1"])
    assert loaded == [(["b"], ["training:1"])]


def test_what_the_engine_has_not_is_for_the_build_to_make(loaded: list[tuple[list[str], list[str]]]) -> None:
    """A new image is built after the program has run."""
    image.bring_back("profile", ["training:2"])
    assert loaded == []
