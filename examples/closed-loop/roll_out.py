"""Lets a policy do the task and counts how often it succeeds, with an interval of 95 % (Wilson's).

    python roll_out.py POLICY.pt [--count N] [--animation FILE.webp]
"""

import argparse

import numpy as np
import torch
import torch._dynamo  # before MuJoCo draws: both bring an LLVM of their own
from loaders import EVERY
from PIL import Image
from scipy.spatial.transform import Rotation
from task import JOINTS_CLOSED, JOINTS_OPEN, RATE, SECONDS, Motion, Task, photo, row_image

STARTS = 1_000_000  # of the first attempt; demonstrations have others


def motion_of(task, action):
    """Where the hand shall be at the next row: 3 numbers of its motion, 6 of its rotation's columns, 4 joints."""
    x = action[3:6] / np.linalg.norm(action[3:6])
    y = action[6:9] - x * (x @ action[6:9])
    y /= np.linalg.norm(y)
    turn = Rotation.from_matrix(np.stack([x, y, np.cross(x, y)], axis=1))
    trigger = np.mean((action[9:] - JOINTS_OPEN) / (JOINTS_CLOSED - JOINTS_OPEN))
    hand = task.hand
    return Motion(hand.position + hand.rotation.apply(action[:3]), hand.rotation * turn, float(np.clip(trigger, 0, 1)))


def roll_out(policy, count, watch=None):
    """Whether each of so many attempts succeeds. `watch` is called with each attempt that goes on, at each row."""
    tasks = [Task(STARTS + number) for number in range(count)]
    going, successes = list(range(count)), np.zeros(count, bool)
    for _ in range(round(SECONDS * RATE / EVERY)):
        seen = np.stack([row_image(photo(tasks[number].image())) if policy.uses_images else tasks[number].state for number in going])
        joints = np.stack([tasks[number].joints for number in going])
        with torch.no_grad():
            seen = torch.from_numpy(seen) if policy.uses_images else torch.from_numpy(seen).float()
            actions = policy(seen, torch.from_numpy(joints).float()).double().numpy()
        for number, action in zip(going, actions):
            if watch:
                watch(number, tasks[number])
            tasks[number].move(motion_of(tasks[number], action), EVERY / RATE)
            successes[number] = tasks[number].is_done
        going = [number for number in going if not successes[number]]
        if not going:
            break
    return successes


def wilson(successes, count):
    """Wilson's interval of 95 % of a share."""
    z, share = 1.96, successes / count
    middle, half = share + z * z / (2 * count), z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def animate(policy, path, attempts=3):
    """Draws some attempts, seen from outside and by the phone."""
    frames = [[] for _ in range(attempts)]

    def watch(number, task):
        size = (240, 180)
        outside, phone = Image.fromarray(task.image(size, "outside")), Image.fromarray(task.image(size)).resize((96, 72))
        outside.paste(phone, (size[0] - 96, size[1] - 72))
        frames[number].append(outside)

    roll_out(policy, attempts, watch)
    first, *others = [frame for attempt in frames for frame in attempt]
    first.save(path, save_all=True, append_images=others, duration=50, loop=0, quality=60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--animation", help="a WebP file of the first attempts")
    options = parser.parse_args()
    policy = torch.load(options.policy, weights_only=False)
    successes = int(roll_out(policy, options.count).sum())
    low, high = wilson(successes, options.count)
    print(f"{successes} of {options.count} succeed ({100 * low:.1f} to {100 * high:.1f} %)")
    if options.animation:
        animate(policy, options.animation)


if __name__ == "__main__":
    main()
