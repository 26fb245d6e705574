"""The policy that all rows are given to."""

import torch
import torch._dynamo  # before MuJoCo draws: both bring an LLVM of their own
from torch import nn


class Places(nn.Module):
    """Where in the image each feature is: of maps (n, c, h, w) the mean place (n, 2 c), weighted by their softmax, from -1 to 1."""

    def __init__(self, height, width):
        super().__init__()
        self.register_buffer("x", torch.linspace(-1, 1, width))
        self.register_buffer("y", torch.linspace(-1, 1, height))

    def forward(self, maps):
        weights = (10 * maps).contiguous().flatten(2).softmax(2).view(maps.shape)
        return torch.cat([(weights.sum(2) * self.x).sum(2), (weights.sum(3) * self.y).sum(2)], dim=1)


class Policy(nn.Module):
    """Actions (n, 13) from joints in degrees (n, 4) and either state (n, 8) or images (n, 48, 64, 3) of bytes."""

    def __init__(self, samples, uses_images):
        super().__init__()
        self.uses_images = uses_images
        names = ("joints", "actions") if uses_images else ("state", "joints", "actions")
        for name in names:
            self.register_buffer(f"{name}_mean", torch.tensor(samples[name].mean(0)))
            self.register_buffer(f"{name}_scale", torch.tensor(samples[name].std(0).clip(1e-3)))
        if uses_images:
            self.see = nn.Sequential(
                nn.Conv2d(3, 16, 5, stride=3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 1), Places(13, 18),
            ).to(memory_format=torch.channels_last)  # fmt: skip
        self.act = nn.Sequential(nn.Linear((64 if uses_images else 8) + 4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 13))

    def scaled(self, name, values):
        return (values - getattr(self, f"{name}_mean")) / getattr(self, f"{name}_scale")

    def scaled_actions(self, seen, joints):
        first = self.see(seen.permute(0, 3, 1, 2).float() / 255 - 0.5) if self.uses_images else self.scaled("state", seen)
        return self.act(torch.cat([first, self.scaled("joints", joints)], dim=1))

    def forward(self, seen, joints):
        return self.scaled_actions(seen, joints) * self.actions_scale + self.actions_mean
