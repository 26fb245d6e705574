"""Trains a policy by behavior cloning: from one row, the hand's motion to the next and its joints there.

    python train.py DATASET POLICY.pt [--images] [--steps N] [--seed N]
"""

import argparse

import numpy as np
import torch
import torch._dynamo  # before MuJoCo draws: both bring an LLVM of their own
from loaders import from_takeset
from policy import Policy
from torch import nn


STEPS = 2500


def train(samples, uses_images, steps, seed, report=lambda step, loss: None):
    # By images it is less clear when to let go. The median of unclear actions is never to do it, the mean is to begin.
    beta = 1.0 if uses_images else 0.1
    torch.manual_seed(seed)
    policy = Policy(samples, uses_images)
    seen = torch.from_numpy(np.ascontiguousarray(samples["images" if uses_images else "state"]))
    joints, actions = torch.tensor(samples["joints"]), policy.scaled("actions", torch.tensor(samples["actions"]))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for step in range(1, steps + 1):
        rows = torch.randint(len(actions), (64 if uses_images else 256,))
        loss = nn.functional.smooth_l1_loss(policy.scaled_actions(seen[rows], joints[rows]), actions[rows], beta=beta)
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
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    samples = from_takeset(options.dataset)
    print(f"{len(samples['actions'])} rows")
    policy = train(samples, options.images, options.steps, options.seed, lambda step, loss: step % 500 or print(f"step {step:5}  loss {loss.item():.4f}"))
    torch.save(policy, options.policy)


if __name__ == "__main__":
    main()
