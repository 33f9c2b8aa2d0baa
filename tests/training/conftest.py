"""One run of each arm, for all tests of this folder that look at one."""

import pytest

from tests.training.looked_at import Ended, run


class Arms(dict[str, Ended]):
    """Finished runs by arm, each made when it is first asked for."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        super().__init__()
        self._folders = folders

    def __missing__(self, arm: str) -> Ended:
        home = self._folders.mktemp("home") if arm == "ray" else None  # a home is where Ray would keep its token
        self[arm] = run(arm, self._folders.mktemp(arm), self._folders.mktemp("project"), home)
        return self[arm]


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Arms:
    """A finished run of an arm, in a project that has the files of its code hash and no other."""
    return Arms(tmp_path_factory)
