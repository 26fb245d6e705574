"""Run by a Python that has LeRobot: reads a dataset by LeRobot's own classes, without network, and saves what it gives.

    lerobot_reader.py DATASET OUTPUT.npz REQUEST.json

The request has `rows` (numbers of frames), `deltas` (delta_timestamps), `episodes` (those to load, or null), `backend` (of videos, or null)
and `statistics` (whether to compute those of every episode by LeRobot's own function, from the images as it shows them).
"""

import json
import sys

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset


def main(root, output, request):
    request = json.loads(request)
    options = {"video_backend": request["backend"]} if request["backend"] else {}
    dataset = LeRobotDataset("any/name", root=root, delta_timestamps=request["deltas"], episodes=request["episodes"], **options)
    found = {"length": np.array(len(dataset)), "episodes": np.array(dataset.num_episodes)}
    texts, subtasks = [], []
    for row in request["rows"]:
        item = dataset[row]
        texts.append(item.pop("task"))
        subtasks.append(subtask(float(item["timestamp"]), item.pop("language_persistent", [])))
        found |= {f"{row}/{name}": value.numpy() for name, value in item.items()}
    found["tasks"], found["subtasks"] = np.array(texts), np.array(subtasks)
    found["take_ids"] = np.array([row["takeset/take_id"] for row in dataset.meta.episodes])
    for name, entry in dataset.meta.stats.items():
        found |= {f"stats/{name}/{key}": value for key, value in entry.items()}
    if request["statistics"]:
        found |= statistics(dataset)
    np.savez(output, **found)


def subtask(time, texts):
    """What LeRobot takes for the subtask at a time; nothing before the first one."""
    from lerobot.datasets.language_render import active_at

    active = active_at(time, persistent=texts, style="subtask")
    return active["content"] if active else ""


def statistics(dataset):
    """LeRobot's statistics of each episode and of all, from its own items; of images as files, as it computes them."""
    import os
    import tempfile

    from lerobot.datasets.compute_stats import aggregate_stats, compute_episode_stats
    from PIL import Image

    found, every = {}, []
    stored = dataset.hf_dataset.with_format(None)
    for number, entry in enumerate(dataset.meta.episodes):
        rows = range(entry["dataset_from_index"], entry["dataset_to_index"])
        with tempfile.TemporaryDirectory() as folder:
            columns = {}
            for name, feature in dataset.meta.features.items():
                values = [stored[row][name] for row in rows]
                if feature["dtype"] == "image":
                    suffix = "tiff" if feature.get("info", {}).get("is_depth_map") else "png"
                    columns[name] = []
                    for row, image in enumerate(values):
                        columns[name].append(os.path.join(folder, f"{name}-{row}.{suffix}"))
                        Image.fromarray(np.array(image)).save(columns[name][-1])
                else:
                    columns[name] = np.array(values, dtype=feature["dtype"])
            every.append(compute_episode_stats(columns, dataset.meta.features))
        found |= {f"computed/{number}/{name}/{key}": value for name, one in every[-1].items() for key, value in one.items()}
    merged = aggregate_stats(every)
    return found | {f"merged/{name}/{key}": value for name, one in merged.items() for key, value in one.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
