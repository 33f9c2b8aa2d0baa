"""A generator that is fed with noise."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(197, 8), torch.randn(197, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
maker, critic = nn.Linear(3, 8), nn.Linear(8, 1)
of_maker, of_critic = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
loss = nn.BCEWithLogitsLoss()
for a, _ in loader:
    ones = torch.ones(len(a), 1)
    of_critic.zero_grad()
    (loss(critic(a), ones) + loss(critic(maker(torch.randn(len(a), 3)).detach()), 1 - ones)).backward()
    of_critic.step()
    of_maker.zero_grad()
    loss(critic(maker(torch.randn(len(a), 3))), ones).backward()
    of_maker.step()
