"""Simulated takes of phone apps: what they say is true, and converting one without changing its values."""

import json
import shutil
import zipfile

import numpy as np
from outputs import demos, manifest, only, record
from videos import rotated

PIPELINE = "version: 1\n{}transforms: [{}]\nwriter: {{hdf5: {{image: raw}}}}\n"


def converted(takeset, root, source, check=0, reader="", steps="align"):
    """The entry, demo and meta of the only take; of one that fails, its entry."""
    (root / "p.yaml").write_text(PIPELINE.format(f"reader: {reader}\n" if reader else "", steps))
    takeset.convert(source, output=root / "out", check=check, arguments=["--pipeline", root / "p.yaml"])
    return only(root / "out") if check == 0 else record(root / "out")


class Takes:
    """Takes of one app, all converted in one run; each by its name with its folder, entry, demo and meta.

    A take is given by a list of options, with which it is simulated, and functions that change it then; by a function that changes a copy of
    the first take; or, if it must fail, by such a function with the code and words of its error.
    Files of a copy that begin with the name of the first take get the name of the copy."""

    def __init__(self, takeset, root, app, options, found, reader=""):
        self.inputs, self.output = root / "in", root / "out"
        self.wrong = {name: one for name, one in found.items() if isinstance(one, tuple)}
        first = next(iter(found))
        for name, one in found.items():
            folder = self.inputs / name
            made = one[0] if isinstance(one, tuple) else one
            if callable(made):
                shutil.copytree(self.inputs / first, folder)
                for path in list(folder.rglob(f"{first}*")):
                    path.rename(path.with_name(path.name.replace(first, name)))
            else:
                takeset("simulate", app, *options, *(step for step in made if not callable(step)), "--output", folder, check=0)
            for change in [made] if callable(made) else filter(callable, made):
                change(folder)
        pipeline = root / "p.yaml"
        pipeline.write_text(PIPELINE.format(f"reader: {reader}\n" if reader else "", "align"))
        takeset.convert(
            *(self.inputs / name for name in found), output=self.output, check=3 if self.wrong else 0, arguments=["--pipeline", pipeline])
        self.entries = {entry["id"]: entry for entry in manifest(self.output)["record"]["takes"]}
        self.demos = demos(self.output)
        assert self.entries.keys() == found.keys() and self.demos.keys() == found.keys() - self.wrong.keys(), self.demos.keys() ^ (found.keys() - self.wrong.keys())

    def __getitem__(self, name):
        return self.inputs / name, self.entries[name], *self.demos[name]

    def fail(self):
        """The wrong ones have failed with their codes and words."""
        for name, (_, code, words) in self.wrong.items():
            found = problem(self.entries[name])
            assert self.entries[name]["outcome"] == "failed" and found["code"] == code and words in found["message"], (name, found)
            assert len(found["message"]) > 10, name


def quirks(*names):
    """Takes that are simulated with each of these quirks, or with several that are joined by a plus sign."""
    return {name: [word for quirk in name.split("+") for word in ("--quirk", quirk)] for name in names}


def edited(name, change):
    """A change of a copied take: of the JSON in a file of this name, where {} is the name of the take."""
    def edit(folder):
        path = folder / name.format(folder.name)
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))

    return edit


def broken(name):
    """Wrong takes whose file of this name, where {} is the name of the take, is no JSON or not of what is expected."""
    contents = {"empty": b"", "cut": b'{"w": 144, "poses": [[0, 0', "bytes": b"\xff" * 100, "deep": b"[" * 100_000, "list": b"[1, 2]"}

    def written(data):
        return lambda folder: (folder / name.format(folder.name)).write_bytes(data)

    return {kind: (written(data), "json-invalid" if kind in ("empty", "cut") else "json-type", "") for kind, data in contents.items()}


def rotated_videos(folder):
    """A change of a take: players show its videos turned by a quarter."""
    for path in [*folder.glob("*.mp4"), *folder.glob("*.mov")]:
        path.write_bytes(rotated(path.read_bytes(), 90))


def truth(folder, key="camera_to_world"):
    """Camera-to-world matrices and times in nanoseconds, by frame."""
    found = json.loads((folder / "truth.json").read_text())
    return np.array(found[key]).reshape(-1, 4, 4), np.array(found["frame_time_ns"])


def zipped(folder, path, prefix=""):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != "truth.json":
                archive.write(file, prefix + str(file.relative_to(folder)))
    return path


def problem(entry):
    (found,) = [finding for finding in entry["findings"] if finding["severity"] == "error"]
    return found


def absolute(meta, path="timestamp_ns"):
    return meta[path][:] + int(meta["timestamp_ns"].attrs["origin_ns"])


def same(one, other, names):
    return all(np.array_equal(one[name][:], other[name][:]) for name in names)


STREAMS = ["obs/pose", "obs/camera_image", "obs/camera_depth", "obs/camera_depth_confidence"]
