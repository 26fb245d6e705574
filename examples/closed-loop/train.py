"""Trains a policy by behavior cloning: from one row, the hand's motion to the next and its joints there.

    python train.py DATASET POLICY.pt [--images] [--steps N] [--seed N]
"""

import argparse

import numpy as np
import torch
import torch._dynamo  # before MuJoCo draws: both bring an LLVM of their own
from loaders import from_takeset
from torch import nn


STEPS = {False: 2500, True: 2000}  # by whether it sees images


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
                nn.Conv2d(3, 16, 5, stride=3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(),
                nn.Linear(32 * 5 * 7, 128), nn.ReLU(),
            ).to(memory_format=torch.channels_last)  # fmt: skip
        self.act = nn.Sequential(nn.Linear((128 if uses_images else 8) + 4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 13))

    def scaled(self, name, values):
        return (values - getattr(self, f"{name}_mean")) / getattr(self, f"{name}_scale")

    def scaled_actions(self, seen, joints):
        first = self.see(seen.permute(0, 3, 1, 2).float() / 255 - 0.5) if self.uses_images else self.scaled("state", seen)
        return self.act(torch.cat([first, self.scaled("joints", joints)], dim=1))

    def forward(self, seen, joints):
        return self.scaled_actions(seen, joints) * self.actions_scale + self.actions_mean


def train(samples, uses_images, steps, seed, report=lambda step, loss: None):
    torch.manual_seed(seed)
    policy = Policy(samples, uses_images)
    seen = torch.from_numpy(np.ascontiguousarray(samples["images" if uses_images else "state"]))
    joints, actions = torch.tensor(samples["joints"]), policy.scaled("actions", torch.tensor(samples["actions"]))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for step in range(1, steps + 1):
        rows = torch.randint(len(actions), (128 if uses_images else 256,))
        loss = nn.functional.smooth_l1_loss(policy.scaled_actions(seen[rows], joints[rows]), actions[rows], beta=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        report(step, loss)
    return policy.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("policy")
    parser.add_argument("--images", action="store_true", help="see the phone's images instead of the task's state")
    parser.add_argument("--steps", type=int, help="default: 2500, or 2000 with images")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    samples = from_takeset(options.dataset)
    print(f"{len(samples['actions'])} rows")
    steps = options.steps or STEPS[options.images]
    policy = train(samples, options.images, steps, options.seed, lambda step, loss: step % 500 or print(f"step {step:5}  loss {loss.item():.4f}"))
    torch.save(policy, options.policy)


if __name__ == "__main__":
    main()
