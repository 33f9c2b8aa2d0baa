"""Trains a small network on pictures in parquet files with Ray Train, read by PyTorch's DataLoader or by Ray Data.

The files are in a folder, into which they are written first, or in a bucket. Reading a picture costs as much as
--decode says, so that it can be found from which cost on another way to read is worth it.

python torch_data.py --num-workers 1 --input ray-data --decode 50
"""

import argparse
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray.data
import ray.train
import torch
from pyarrow import fs, parquet
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, Dataset

PARTS = 8
SIDE = 32


def write(folder: Path, rows: int, seed: int) -> None:
    """Write the pictures, compressed, into a folder that lacks them: noise, half of it a little brighter."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(PARTS):
        labels = generator.integers(0, 2, rows // PARTS)
        noise = generator.integers(0, 200, (len(labels), 3, SIDE, SIDE)) + 20 * labels[:, None, None, None]
        images = [zlib.compress(image.tobytes(), 1) for image in noise.astype(np.uint8)]
        path = folder / f"part-{part}.parquet"
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as whole:
            parquet.write_table(pa.table({"image": images, "label": labels}), whole.name)
        Path(whole.name).rename(path)


def decoded(image: bytes, times: int) -> np.ndarray:
    """One picture. It is decompressed `times` times, as one that is larger would cost."""
    for _ in range(times):
        pixels = zlib.decompress(image)
    return np.frombuffer(pixels, np.uint8).reshape(3, SIDE, SIDE).astype(np.float32) / 255


class Pictures(Dataset[Any]):
    """The rows of all files, each decoded when it is asked for."""

    def __init__(self, address: str, decode: int) -> None:
        system, path = fs.FileSystem.from_uri(address)
        table = parquet.read_table(path, filesystem=system)
        self.images, self.labels = table["image"].to_pylist(), table["label"].to_numpy()
        self.decode = decode

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[np.ndarray, int]:
        return decoded(self.images[row], self.decode), int(self.labels[row])


def by_loader(config: dict[str, Any]) -> DataLoader[Any]:
    """PyTorch's own way: processes beside the training, or none, decode."""
    size = config["batch"] // ray.train.get_context().get_world_size()
    pictures = Pictures(config["address"], config["decode"])
    loader = DataLoader(pictures, batch_size=size, shuffle=True, num_workers=config["loader_processes"])
    return ray.train.torch.prepare_data_loader(loader)


def by_ray_data(config: dict[str, Any]) -> Any:
    """Ray's way: tasks of Ray Data decode, on any CPU that no worker holds."""
    size = config["batch"] // ray.train.get_context().get_world_size()
    shard = ray.train.get_dataset_shard("train")
    return shard.iter_torch_batches(
        batch_size=size, local_shuffle_buffer_size=256, drop_last=config["drop_last"], prefetch_batches=2
    )


def dataset(address: str, decode: int) -> ray.data.Dataset:
    """What Ray Data reads, and what it does with each part of a file."""

    def decode_rows(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"image": np.stack([decoded(image, decode) for image in rows["image"]]), "label": rows["label"]}

    system, path = fs.FileSystem.from_uri(address)
    return ray.data.read_parquet(path, filesystem=system).map_batches(decode_rows, batch_size=128)


def batches(config: dict[str, Any], source: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One pass over the pictures."""
    for batch in source:
        yield (batch["image"], batch["label"]) if config["input"] == "ray-data" else batch


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    torch.manual_seed(config["seed"])
    world = ray.train.get_context().get_world_size()
    source = by_ray_data(config) if config["input"] == "ray-data" else by_loader(config)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 5 * 5, 2),
    )  # fmt: skip
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(config["epochs"]):
        if config["input"] == "loader" and world > 1:
            source.sampler.set_epoch(epoch)
        for images, labels in batches(config, source):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ray.train.report({"loss": loss.item()})


def main() -> None:
    """Start the workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", choices=("loader", "ray-data"), default="loader")
    parser.add_argument("--loader-processes", type=int, default=1, help="that a worker's DataLoader starts")
    parser.add_argument("--decode", type=int, default=20, help="times that each picture is decompressed")
    parser.add_argument("--path", default="data", help="where the files are: a folder, or s3://bucket/prefix")
    parser.add_argument("--rows", type=int, default=4096, help="pictures to write into a folder that has none")
    parser.add_argument("--drop-last", action="store_true", help="ray-data leaves out a batch that is not whole")
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--storage", help="where Ray Train's results go; Ray's own choice is ~/ray_results")
    options = parser.parse_args()
    address = options.path
    if "://" not in address:
        address = str(Path(address).absolute())
        if len(list(Path(address).glob("*.parquet"))) < PARTS:
            write(Path(address), options.rows, seed=0)
    sets = {"train": dataset(address, options.decode)} if options.input == "ray-data" else None
    trainer = TorchTrainer(
        train,
        train_loop_config={**vars(options), "address": address},
        scaling_config=ray.train.ScalingConfig(num_workers=options.num_workers),
        run_config=ray.train.RunConfig(storage_path=options.storage),
        datasets=sets,
    )
    print(trainer.fit().metrics)


if __name__ == "__main__":
    main()
