"""Sessions of an arm that knows its joints and has no camera poses: tables in `streams/`, and actions of them in NumPy."""

import numpy as np
from conversions import pipeline
from stack_sessions import COUNT, EPOCH, UNEVEN, v3_raw
from videos import video_file

OPTIONAL = {"name": "stack-session", "poses": "optional"}
TIMES = EPOCH - 0.2 + np.arange(int((COUNT / 60 + 0.5) * 200)) / 200


def table(columns, values):
    lines = [",".join(["unix_time", *columns])]
    lines += [",".join([f"{time:.6f}", *(f"{value:.7g}" for value in row)]) for time, row in zip(TIMES, values)]
    return "\n".join(lines) + "\n"


def arm(seed=0, gripper=True, joints=False, gap=False):
    """A raw session with the six angles of an arm, NaN for a while, and the width of its gripper."""
    session, random = v3_raw(), np.random.default_rng(seed)
    angles = np.cumsum(random.normal(0, 0.02, (len(TIMES), 6)), 0)
    angles[150:156, 2] = np.nan
    session.files["streams/arm.csv"] = table([f"j{k}" for k in range(6)], angles)
    if gripper:
        session.files["streams/gripper.csv"] = table(["width"], 0.04 + 0.03 * np.sin(TIMES[:, None]))
    if not joints:
        session.encoders = None
        del session.metadata["encoderCount"]
    if gap:
        session.video = video_file(ticks=UNEVEN)
    return session


def arms(takeset, root, takes, *steps, check=0, **options):
    """The dataset of such takes, by name, with these steps before the actions with these options."""
    for name, session in takes.items():
        session.write(root / "in" / name)
    found = dict(next(iter(step.items())) for step in steps)
    arguments = pipeline(root, OPTIONAL, **found, actions={name.replace("_", "-"): value for name, value in options.items()})
    takeset.convert(root / "in", output=root / "out", arguments=arguments, check=check)
    return root / "out"


def expected(demo, meta, parts, ahead=1):
    """The actions `ahead` rows later and whether each is known, of parts: names of streams, with whether their change is the action."""
    count = len(meta["timestamp_ns"])
    at, to = np.arange(count), np.minimum(np.arange(count) + ahead, count - 1)
    piece = np.zeros(count, int)
    piece[meta["gaps"][:, 0].astype(int) + 1] = 1
    piece = piece.cumsum()
    found, known = [], (at + ahead < count) & (piece[at] == piece[to])
    for name, is_change in parts:
        values = demo["obs"][name][:].astype("f8")
        found.append(values[to] - values[at] if is_change else values[to])
        known &= np.isfinite(found[-1]).all(1)
    return np.where(known[:, None], np.concatenate(found, 1), 0), known
