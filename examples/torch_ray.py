"""Trains a small network on synthetic pictures with Ray Train's TorchTrainer, as Ray's guide has it.

python torch_ray.py --num-workers 2 --epochs 3
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def pictures(count: int, seed: int) -> TensorDataset:
    """Noise, half of it a little brighter."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (count,), generator=generator)
    images = torch.randn(count, 3, 32, 32, generator=generator) + 0.2 * labels[:, None, None, None]
    return TensorDataset(images, labels)


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[Any]) -> float:
    """Share of right answers."""
    right = [(model(images).argmax(1) == labels).float() for images, labels in loader]
    return torch.cat(right).mean().item()


def resume(trained: dict[str, Any]) -> int:
    """Restore from the checkpoint that Ray Train goes on from, if there is one; the epoch to begin with."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder, "state.pt"))
    for name, part in trained.items():
        part.load_state_dict(state[name])
    torch.set_rng_state(state["random"])
    return int(state["epoch"]) + 1


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    torch.manual_seed(1)
    context = ray.train.get_context()
    world = context.get_world_size()
    loader = DataLoader(pictures(2048, seed=0), batch_size=config["batch"] // world, shuffle=True)
    loader = ray.train.torch.prepare_data_loader(loader)
    test = DataLoader(pictures(512, seed=1), batch_size=256)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 28 * 28, 2)
    )
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config["epochs"])
    trained = {"model": model, "optimizer": optimizer, "schedule": schedule}

    start = resume(trained)
    for epoch in range(start, config["epochs"]):
        if world > 1:
            loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if (epoch + 1) % config["report_epochs"] and epoch + 1 < config["epochs"]:
            continue
        metrics = {"epoch": epoch, "loss": loss.item(), "accuracy": accuracy(model, test)}
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if context.get_world_rank() == 0:
                states = {name: part.state_dict() for name, part in trained.items()}
                torch.save({"epoch": epoch, "random": torch.get_rng_state(), **states}, Path(folder, "state.pt"))
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report(metrics, checkpoint=checkpoint)


def main() -> None:
    """Start the workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all workers")
    parser.add_argument("--report-epochs", type=int, default=1, help="epochs from one report to the next")
    parser.add_argument("--storage", help="where checkpoints go; Ray's own choice is ~/ray_results")
    parser.add_argument("--max-failures", type=int, default=0, help="failures of workers after which it goes on")
    options = parser.parse_args()
    trainer = TorchTrainer(
        train,
        train_loop_config={
            "batch": options.batch,
            "epochs": options.epochs,
            "report_epochs": options.report_epochs,
        },
        scaling_config=ray.train.ScalingConfig(num_workers=options.num_workers),
        run_config=ray.train.RunConfig(
            storage_path=options.storage, failure_config=ray.train.FailureConfig(max_failures=options.max_failures)
        ),
    )
    print(trainer.fit().metrics)


if __name__ == "__main__":
    main()
