"""What the actions of an episode must be: computed in float64 from its stored poses and joints, by SciPy's rotations. Swift compares the other
kinds with vectors (`VectorTests`)."""

import json

import h5py
import numpy as np
import pytest
from conversions import pipeline
from outputs import demos
from scipy.spatial.transform import Rotation
from stack_sessions import v1, v2

PARTS = {"relative-6d": ["relative_position", "relative_rotation_6d"], "delta-pose": ["delta_position", "delta_rotation_vector"]}
LOST = [12, 13, 14]


# Takes


def with_holes():
    """A session that lost three frames in a row, whose glove lost one joint for some readings and then all of them, and that has no
    depth value for some frames."""
    session = v2()
    session.poses = [entry for entry in session.poses if entry["rgbIndex"] not in LOST]
    for number in LOST:
        del session.rgb[number]
    for entry in session.poses[20:30]:
        del entry["depth"]
    for reading in session.encoders[3:6]:
        reading["index_pip"] = -1.0
    del session.encoders[20:27]
    return session


TAKES = {"bare": v1, "glove": v2, "holes": with_holes}


def written(root):
    for name, build in TAKES.items():
        build().write(root / name)
    return root


def convert(takeset, recordings, output, names=tuple(TAKES), writer=None, **options):
    """The demos and metas by take of one run with these options of `actions`."""
    output.parent.mkdir(exist_ok=True)
    arguments = pipeline(output.parent, actions={name.replace("_", "-"): value for name, value in options.items()})
    if writer:
        with open(arguments[1], "a") as file:
            file.write(f"writer: {json.dumps({'hdf5': writer})}\n")
    takeset.convert(*(recordings / name for name in names), output=output, arguments=arguments)
    found = demos(output)
    assert set(found) == set(names)
    return found


# Values


def six(rotation, layout="columns"):
    """Two columns of a rotation matrix, or two rows, one after the other."""
    matrices = rotation.as_matrix()
    first, second = (matrices[..., 0], matrices[..., 1]) if layout == "columns" else (matrices[..., 0, :], matrices[..., 1, :])
    return np.concatenate([first, second], -1)


class Expected:
    """The actions of one episode."""

    def __init__(self, demo, meta, kind="relative-6d", joints="none", angle="degree", horizon=1, rotation_layout="columns"):
        self.pose = demo["obs/pose"][:].astype("f8")
        self.count = len(self.pose)
        self.position, self.rotation = self.pose[:, :3], Rotation.from_quat(self.pose[:, 3:])
        self.kind, self.layout, self.horizon = kind, rotation_layout, horizon
        self.delta = joints == "delta"
        self.numbers = {}  # streams of numbers by the part's name: values and which rows have all of them
        self.asked = [*PARTS[kind]]
        if "joints" in demo["obs"]:
            self.numbers["joints"] = self.stream(demo, "joints", 1 if angle == "degree" else np.pi / 180)
            self.asked += ["joints"] if joints != "none" else []
        self.piece = np.zeros(self.count, int)  # rows between which there is no gap have one number
        self.piece[meta["gaps"][:, 0].astype(int) + 1] = 1
        self.piece = self.piece.cumsum()

    @staticmethod
    def stream(demo, name, scale=1.0):
        valid = demo[f"obs/{name}_valid"][:] == 1
        return np.where(valid, demo[f"obs/{name}"][:].astype("f8"), 0) * scale, valid.all(1)

    def motion(self, at, to):
        """The pose of rows `to` as rows `at` see it: the parts' values."""
        before, after = self.rotation[at], self.rotation[to]
        if self.kind == "relative-6d":
            step = before.inv() * after
            return [before.inv().apply(self.position[to] - self.position[at]), six(step, self.layout)]
        return [self.position[to] - self.position[at], (after * before.inv()).as_rotvec()]

    def parts(self, at, to):
        """Every part by its name, those included that are not asked for: its values and the rows that have it."""
        whole = self.piece[at] == self.piece[to]
        found = {name: (values, whole) for name, values in zip(PARTS[self.kind], self.motion(at, to))}
        for name, (values, valid) in self.numbers.items():
            if name == "joints" and self.delta:
                found[name] = values[to] - values[at], whole & valid[to] & valid[at]
            else:
                found[name] = values[to], whole & valid[to]
        return found

    def joined(self, at, to):
        """Actions and their mask; what is masked is 0."""
        found = self.parts(at, to)
        valid = np.logical_and.reduce([found[name][1] for name in self.asked])
        return np.where(valid[:, None], np.concatenate([found[name][0] for name in self.asked], 1), 0), valid

    @property
    def steps(self):
        """Each row and the one after; the last row and itself."""
        rows = np.arange(self.count)
        return rows, np.minimum(rows + 1, self.count - 1)

    def actions(self):
        """At the end of a recording: no motion, masked."""
        values, valid = self.joined(*self.steps)
        return values, valid & ~self.is_last

    @property
    def is_last(self):
        return np.arange(self.count) == self.count - 1

    def words(self):
        """The attribute `parts`."""
        widths = {name: values.shape[1] for name, (values, _) in self.parts(*self.steps).items()}
        return " ".join(f"{name}:{widths[name]}" for name in self.asked)

    def dictionary(self):
        """The parts by name, each 0 where an input of its own is missing: values and mask."""
        return {name: (np.where(mask[:, None], values, 0), mask & ~self.is_last) for name, (values, mask) in self.parts(*self.steps).items()}

    def chunk(self):
        """(T, h, A) and (T, h): row t + 1 + k as row t sees it; nothing past the end."""
        values, valid = [], []
        rows = np.arange(self.count)
        for ahead in range(1, self.horizon + 1):
            to = np.minimum(rows + ahead, self.count - 1)
            found, mask = self.joined(rows, to)
            mask = mask & (rows + ahead < self.count)
            values.append(np.where(mask[:, None], found, 0))
            valid.append(mask)
        return np.stack(values, 1), np.stack(valid, 1)


def close(stored, expected, tolerance=1e-6):
    """Checks float32 values against float64 ones: to the tolerance, relative to what is above 1."""
    assert stored.shape == expected.shape, (stored.shape, expected.shape)
    assert np.isfinite(stored).all()
    errors = np.abs(stored.astype("f8") - expected) / np.maximum(np.abs(expected), 1)
    assert errors.max(initial=0) <= tolerance, (errors.max(), np.unravel_index(errors.argmax(), errors.shape))


def actions_are(demo, meta, **options):
    """Checks everything that the step writes for one episode. What was expected."""
    expected = Expected(demo, meta, **options)
    values, valid = expected.actions()
    stored, mask = demo["actions"], demo["actions_valid"]
    assert (stored.dtype, mask.dtype, mask.shape) == (np.float32, np.uint8, (expected.count,))
    assert stored.attrs["parts"] == expected.words() and stored.attrs["kind"] == "action"
    assert mask[:].tolist() == valid.astype(int).tolist()
    close(stored[:], values)
    assert not stored[:][~valid & ~expected.is_last].any()
    outcome_is(demo, expected.count)
    dictionary_is(demo, meta, expected)
    chunk_is(demo, expected)
    return expected


def outcome_is(demo, count):
    """Rewards and the end of the episode, as loaders want them."""
    rewards, dones = demo["rewards"], demo["dones"]
    assert (rewards.dtype, rewards.shape, dones.dtype, dones.shape) == (np.float32, (count,), np.int8, (count,))
    assert not rewards[:].any()
    assert dones[:].tolist() == [0] * (count - 1) + [1]


def dictionary_is(demo, meta, expected):
    found = expected.dictionary()
    assert set(demo["action_dict"]) == set(found)
    actions, mask, column = demo["actions"][:], demo["actions_valid"][:] == 1, 0
    for name, (values, valid) in found.items():
        stored = demo["action_dict"][name]
        assert stored.dtype == np.float32 and "unit" in stored.attrs, name
        close(stored[:], values)
        assert not stored[:][~valid & ~expected.is_last].any(), name
        if name in expected.asked:
            width = stored.shape[1]
            assert np.array_equal(stored[:][mask], actions[mask, column : column + width]), name
            column += width
        own = meta.get(f"action_dict/{name}_valid")  # only where it can differ from that of the actions
        assert own is None or own.dtype == np.uint8, name
        assert np.array_equal((mask if own is None else own[:]), valid), name
    assert column == actions.shape[1]


def chunk_is(demo, expected):
    if expected.horizon == 1:
        assert "action_chunk" not in demo and "action_chunk_valid" not in demo
        return
    values, valid = expected.chunk()
    stored, mask = demo["action_chunk"], demo["action_chunk_valid"]
    assert (stored.dtype, mask.dtype) == (np.float32, np.uint8)
    assert stored.shape[:2] == mask.shape == (expected.count, expected.horizon)
    assert np.array_equal(mask[:], valid)
    close(stored[:], values)
    assert not stored[:][~valid].any()
    inner = valid[:, 0]
    assert np.array_equal(stored[:, 0][inner], demo["actions"][:][inner])


# Statistics


def statistics_are(group, values, quantile=5e-4):
    """Checks a group of /stats against rows of values (n, channels), or against a list of each channel's, by NumPy in float64 in two passes."""
    columns = list(np.asarray(values).T) if not isinstance(values, list) else values
    found = {name: group[name][:] for name in ("count", "mean", "std", "min", "max", "q01", "q99")}
    assert {one.shape for one in found.values()} == {(len(columns),)}, {name: one.shape for name, one in found.items()}
    for channel, column in enumerate(columns):
        column = np.asarray(column, "f8")
        assert found["count"][channel] == len(column) > 0, channel
        mean = column.sum() / len(column)
        size = np.abs(column).max()  # a mean near 0 of large values is exact to their size
        assert found["mean"][channel] == pytest.approx(mean, rel=1e-6, abs=1e-9 * size), channel
        deviation = np.sqrt(((column - mean) ** 2).sum() / len(column))
        assert found["std"][channel] == pytest.approx(deviation, rel=1e-6, abs=1e-9 * size), channel
        assert (found["min"][channel], found["max"][channel]) == (column.min(), column.max()), channel
        for name, share in ("q01", 0.01), ("q99", 0.99):
            assert found[name][channel] == pytest.approx(np.quantile(column, share), rel=quantile, abs=1e-6), (name, channel)


def train(file):
    """The demos of the training split by name."""
    return {name.decode(): file["data"][name.decode()] for name in file["mask/train"][:]}


def summaries(stats):
    """The groups below /stats that hold figures, by their keys."""
    found = {}
    stats.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Group) and "mean" in item else None)
    return found


def every_dataset(group):
    """The datasets below a group by their paths."""
    found = {}
    group.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found
