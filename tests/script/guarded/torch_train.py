"""Calls all that the observer looks at in PyTorch; ends by an error of its own, after others that it expects."""

import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Sixteen rows, of which one can't be read in the second pass."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        if index == 9 and epoch == 1 and torch.is_grad_enabled():
            raise LookupError("no row 9")
        return torch.full((4,), float(index)), torch.tensor([1.0])


torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/group", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)))
optimizer, loader = torch.optim.SGD(model.parameters(), lr=0.0), DataLoader(Rows(), batch_size=4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for epoch in range(4):
    try:
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss)
            print(epoch, f"{float(loss.detach()):.6f}")
    except LookupError as error:
        print(type(error).__name__, error.__cause__, error.__context__)
    schedule.step()
    with torch.no_grad():
        print(sum(len(x) for x, _ in loader))
other = torch.nn.Linear(4, 1)
second = torch.optim.SGD(other.parameters(), lr=0.0)
with Join([model]):
    for x, y in loader:
        second.zero_grad()
        (other(x) - y).square().mean().backward()
        second.step()
# As the mechanism of a plain script's ranks tells it
if observed := sys.modules.get("ray_worth_it_observe.torch_ranks"):
    observed.exchange(dist.group.WORLD, [*other.parameters()])
(other(x) - y).square().mean().backward()
try:
    loss.backward()
except RuntimeError as error:
    print(type(error).__name__, error.__cause__, error.__context__)
torch.save(model.state_dict(), "weights.pt")
dist.destroy_process_group()
print("ends")
sys.exit(3)
