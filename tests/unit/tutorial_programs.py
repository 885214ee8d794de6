"""Programs as tutorials for PyTorch have them, for `torch`, `nn`, `F` and `optim` of the one library or the other.

Each gives its losses, and calls `start` with its networks, which have the same parameters in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Start = Callable[[Any], None]


def autoencoder(torch: Any, nn: Any, F: Any, optim: Any, data: Any, start: Start) -> list[float]:
    """A variational autoencoder of synthetic images, with batches of a loader."""

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(64, 32)
            self.fc21 = nn.Linear(32, 4)
            self.fc22 = nn.Linear(32, 4)
            self.fc3 = nn.Linear(4, 32)
            self.fc4 = nn.Linear(32, 64)

        def forward(self, x: Any, noise: Any) -> Any:
            hidden = F.relu(self.fc1(x.view(-1, 64)))
            mu, logvar = self.fc21(hidden), self.fc22(hidden)
            z = mu + noise * torch.exp(0.5 * logvar)
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar

    generator = np.random.default_rng(1)
    model = Autoencoder()
    start(model)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    images = torch.tensor(generator.random((64, 1, 8, 8)).astype(np.float32))
    loader = data.DataLoader(data.TensorDataset(images), batch_size=8, shuffle=False)
    losses: list[float] = []
    model.train()
    for (x,) in loader:
        noise = torch.tensor(generator.standard_normal((x.size(0), 4)).astype(np.float32))
        optimizer.zero_grad()
        found, mu, logvar = model(x.to("cpu"), noise)
        entropy = F.binary_cross_entropy(found, x.view(-1, 64), reduction="sum")
        loss = entropy - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(x))
    return losses


def adversaries(torch: Any, nn: Any, F: Any, optim: Any, data: Any, start: Start) -> list[float]:
    """Steps of a DCGAN (Radford, Metz and Chintala, 2016)."""
    width, latent = 4, 6

    def initialise(module: Any) -> None:
        kind = module.__class__.__name__
        if kind.find("Conv") != -1:
            nn.init.normal_(module.weight.data, 0.0, 0.02)
        elif kind.find("BatchNorm") != -1:
            nn.init.normal_(module.weight.data, 1.0, 0.02)
            nn.init.constant_(module.bias.data, 0)

    forger = nn.Sequential(
        *(nn.ConvTranspose2d(latent, width, 4, 1, 0, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)),
        *(nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False), nn.Tanh()),
    ).apply(initialise)
    critic = nn.Sequential(
        *(nn.Conv2d(1, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)),
        *(nn.Conv2d(width, 1, 4, 1, 0, bias=False), nn.Sigmoid()),
    ).apply(initialise)
    start(forger)
    start(critic)
    criterion = nn.BCELoss()
    of_critic = optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
    of_forger = optim.Adam(forger.parameters(), lr=2e-3, betas=(0.5, 0.999))
    generator = np.random.default_rng(2)
    losses: list[float] = []
    for _ in range(4):
        critic.zero_grad()
        real = torch.tensor(generator.uniform(-1, 1, (4, 1, 8, 8)).astype(np.float32))
        label = torch.as_tensor(torch.full((real.size(0),), 1.0, dtype=torch.float, device=real.device))
        of_real = criterion(critic(real).view(-1), label)
        of_real.backward()
        fake = forger(torch.tensor(generator.standard_normal((4, latent, 1, 1)).astype(np.float32)))
        label.fill_(0.0)
        of_fake = criterion(critic(fake.detach()).view(-1), label)
        of_fake.backward()
        of_critic.step()
        forger.zero_grad()
        label.fill_(1.0)
        fooled = criterion(critic(fake).view(-1), label)
        fooled.backward()
        of_forger.step()
        losses += [(of_real + of_fake).item(), fooled.item()]
    return losses


def language_model(torch: Any, nn: Any, F: Any, optim: Any, data: Any, start: Start) -> list[float]:
    """A small GPT: decay for some parameters, a warm-up by hand, clipped gradients, and tokens drawn at the end."""
    length, vocabulary, width, heads = 8, 17, 16, 2

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            seen = torch.tril(torch.ones(length, length))
            self.register_buffer("bias", seen.reshape(1, 1, length, length))

        def forward(self, x: Any) -> Any:
            B, T, C = x.size()
            q, k, v = (part.view(B, T, heads, C // heads).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=2))
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            return self.c_proj((F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.ln_1, self.attn, self.ln_f = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, idx: Any, targets: Any = None) -> Any:
            pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
            x = self.wte(idx) + self.wpe(pos)
            logits = self.lm_head(self.ln_f(x + self.attn(self.ln_1(x))))
            if targets is None:
                return logits, None
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    model = Model().requires_grad_()
    start(model)
    decayed = [p for _, p in model.named_parameters() if p.ndim >= 2]
    others = [p for _, p in model.named_parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    generator = np.random.default_rng(3)
    losses: list[float] = []
    batch: Any = None
    for step in range(10):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 4)
        batch = torch.from_numpy(generator.integers(0, vocabulary, (4, length + 1)))
        _, loss = model(batch[:, :-1], batch[:, 1:].contiguous())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        logits = model(batch[:1, :length])[0][:, -1, :]
        most, _ = torch.topk(logits, 5)
        logits[logits < most[:, [-1]]] = -float("inf")
        shares = F.softmax(logits, dim=-1)
        assert shares[0, torch.multinomial(shares, num_samples=1)[0, 0]] > 0
        tokens = torch.cat((batch[:1], torch.argmax(shares, dim=-1, keepdim=True)), dim=1)
    return [*losses, *map(float, tokens[0])]
