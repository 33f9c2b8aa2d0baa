"""GPUs on this machine: which an arm's processes see, with a stand-in for NVIDIA's library and gloo for NCCL.

Nothing computes on a GPU here. TRY_PYTHON names an environment with PyTorch and Ray.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import nvml
from tests.script.tryout import EXAMPLES, NO_TORCH, PROJECT, measure_one
from tests.stacks import TORCH

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)

SAYS = """
import json, os, sys
names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LOCAL_RANK")
seen = {name: os.environ.get(name) for name in names}
if "ray" in sys.modules:
    import ray
    seen["of ray"] = ray.get_gpu_ids()
with open(f"{SEEN}/{os.environ.get('RANK', '0')}.json", "w") as file:
    json.dump(seen, file)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PyTorch's example, which also writes what each of its processes sees; on a machine with three GPUs."""
    text = (EXAMPLES / "torch_ddp.py").read_text(encoding="utf-8")
    seen = tmp_path / "seen"
    seen.mkdir()
    path = tmp_path / "train.py"
    path.write_text(text.replace("    torch.manual_seed(1)\n", "    torch.manual_seed(1)\n    exec(SAYS)\n", 1))
    path.write_text(f"SEEN = {str(seen)!r}\nSAYS = {SAYS!r}\n{path.read_text()}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml.library().parent))
    return path


@pytest.mark.parametrize(
    ("arm", "visible", "of_ray"),
    [("native", [1, 2], None), ("ray", [1, 2], [[nvml.uuid(1)], [nvml.uuid(2)]])],
)
def test_an_arm_sees_its_gpus_and_no_other(
    script: Path, tmp_path: Path, arm: str, visible: list[int], of_ray: list[list[str]] | None
) -> None:
    """The first N, of which LOCAL_RANK says the rank's own: torchrun's ranks and Ray's alike."""
    flags = ("--workers=2", "--worker-gpus=1", "--script-arguments=--epochs 1")

    result = measure_one(script, arm, tmp_path, *flags, python=TORCH)

    seen = [json.loads(path.read_text()) for path in sorted((tmp_path / "seen").iterdir())]
    assert 1 == result.recipe["workerGpus"]
    assert len(visible) == len(seen) == result.world_size
    assert {"PCI_BUS_ID"} == {each["CUDA_DEVICE_ORDER"] for each in seen}
    if of_ray is None:
        assert {",".join(map(nvml.uuid, visible))} == {each["CUDA_VISIBLE_DEVICES"] for each in seen}
    else:
        assert of_ray == [each["of ray"] for each in sorted(seen, key=lambda each: str(each["LOCAL_RANK"]))]
        assert {frozenset(map(nvml.uuid, visible))} == {
            frozenset(each["CUDA_VISIBLE_DEVICES"].split(",")) for each in seen
        }
    assert {"0", "1"} == {each["LOCAL_RANK"] for each in seen}


def test_the_benchmark_of_gpus_measures_its_steps_on_a_cpu(tmp_path: Path) -> None:
    """What needs a GPU is left out."""
    figures = tmp_path / "figures"
    options = ["--device=cpu", "--repeats=1", f"--into={figures}"]
    subprocess.run([sys.executable, "-m", "bench.gpu", TORCH, *options], cwd=PROJECT, check=True)

    lines = figures.read_text(encoding="utf-8").splitlines()
    assert 5 == len(lines)
    assert re.search(r"[\d.]+ %", lines[2])
