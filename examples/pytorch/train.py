"""Trains a small policy by behavior cloning: from two images and the joints, the next 16 motions of the camera.

    python train.py DATASET [--steps N] [--workers N] [--seed N]
"""

import argparse
import itertools

import torch
from takeset.torch import Windows, collate
from torch import nn
from torch.utils.data import DataLoader

OBSERVED, AHEAD, SIZE, CROP = 2, 16, (96, 128), (84, 112)


class Policy(nn.Module):
    """Normalized actions (B, k, A) from images (B, o, 3, H, W) between 0 and 1, and normalized joints (B, o, 4)."""

    def __init__(self, actions):
        super().__init__()
        self.actions = actions
        self.see = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU(), nn.Conv2d(32, 32, 5, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )  # fmt: skip
        self.act = nn.Sequential(nn.Linear(OBSERVED * (32 * 16 + 4), 256), nn.ReLU(), nn.Linear(256, AHEAD * actions))

    def forward(self, images, joints):
        seen = self.see(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        return self.act(torch.cat([seen, joints], dim=-1).flatten(1)).unflatten(1, (AHEAD, self.actions))


def loss_of(policy, batch):
    """Mean squared error over the actions that are known; unknown joint angles are 0, the mean."""
    obs = batch["obs"]
    guess = policy(obs["camera_image"], obs["joints"].nan_to_num())
    valid = batch["actions_valid"]
    return nn.functional.mse_loss(guess[valid], batch["actions"][valid])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    windows = Windows(
        options.dataset, split="train", observation_horizon=OBSERVED, action_horizon=AHEAD, keys=("camera_image", "joints"),
        image_size=SIZE, crop=CROP, random_crop=True, image_floats=True, normalize=["joints", "actions"], normalization="gaussian",
    )  # fmt: skip
    loader = DataLoader(windows, batch_size=32, shuffle=True, drop_last=True, num_workers=options.workers, collate_fn=collate)
    policy = Policy(actions=windows[0]["actions"].shape[1])
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    print(f"{len(windows)} windows")

    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for step, batch in enumerate(itertools.islice(batches, options.steps), 1):
        loss = loss_of(policy, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1 or step % 10 == 0:
            print(f"step {step:4}  loss {loss.item():.3f}")

    with torch.no_grad():
        sample = windows[0]
        guess = policy(sample["obs"]["camera_image"][None], sample["obs"]["joints"].nan_to_num()[None])[0]
    meters = [windows.denormalize("actions", actions)[-1, :3].norm().item() for actions in (guess, sample["actions"])]
    print(f"after {AHEAD} rows the camera is {meters[0]:.2f} m away by the policy, {meters[1]:.2f} m by the recording")


if __name__ == "__main__":  # spawned workers import this file
    main()
