"""Writes before PyTorch is there, in a folder of its own, by links, SQLite and TorchScript; asks for ranks."""
# ruff: noqa: E402 (what it writes comes first)

import os
import shutil
import sqlite3
from os import remove

with open("first.txt", "x") as file:
    file.write("1")
remove("first.txt")
os.makedirs("runs/1")
os.chdir("runs/1")

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * ranks)
loader = DataLoader(TensorDataset(torch.randn(64, 6), torch.randn(64, 1)), batch_size=16, shuffle=True)
log = sqlite3.connect("log.db")
log.execute("create table losses (loss)")
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    log.execute("insert into losses values (1)")
    torch.save(model.state_dict(), f"{epoch}.pt")
    if os.path.islink("latest.pt"):
        remove("latest.pt")
    os.symlink(f"{epoch}.pt", "latest.pt")
    model.load_state_dict(torch.load("latest.pt"))
    shutil.copy2(os.path.abspath(f"{epoch}.pt"), "copy.pt")
    torch.jit.script(model).save("script.pt")
    torch.jit.load("script.pt")
    os.rename(src="script.pt", dst="old.pt")
