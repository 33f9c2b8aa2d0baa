"""Files of ranks, in a folder that they have for their own."""

import os
from pathlib import Path

from training.workloads.script.spread.files import Layer


def test_a_folder_that_another_rank_made_first_is_there(tmp_path: Path) -> None:
    """Ranks of a port share a layer: between the look for a folder and its making another rank can make it."""
    layer = Layer(str(tmp_path), ())
    make = layer._mkdir

    def after_another(path: str) -> None:
        os.mkdir(path)  # noqa: PTH102 (as the layer does)
        make(path)

    layer._mkdir = after_another  # type: ignore[assignment]
    layer.folders(str(tmp_path / "kept" / "best"))

    assert (tmp_path / "kept" / "best").is_dir()
