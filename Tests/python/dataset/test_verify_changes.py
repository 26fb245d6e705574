"""verify: what another program adds is noted and no damage; what it changes is found."""

import shutil

import h5py
import numpy as np
import pytest
from flips import of_take

ADDITIONS = {
    "a dataset": lambda file: file["data/demo_0/obs"].create_dataset("labels", data=np.arange(5000)),
    "a group": lambda file: file.create_group("notes").create_dataset("text", data=[b"x" * 3000]),
    "an attribute of the root": lambda file: file.attrs.update({"checked_by": "someone " * 100}),
    "an attribute of a take": lambda file: file["data/demo_0"].attrs.update({"rating": np.arange(300)}),
    "an attribute of a dataset": lambda file: file["data/demo_0/obs/camera_image"].attrs.update({"comment": "sharp " * 100}),
}


@pytest.fixture
def copy(tiny_dataset, tmp_path):
    return shutil.copytree(tiny_dataset, tmp_path / "copy")


@pytest.mark.parametrize("name", ["v1", "pour", "dataset.h5"])
@pytest.mark.parametrize("what", ADDITIONS)
def test_additions_are_noted_and_are_not_damage(takeset, copy, name, what):
    path = copy / name if name == "dataset.h5" else of_take(copy, name)
    size = path.stat().st_size
    with h5py.File(path, "r+") as file:
        if name == "dataset.h5":
            added = {"a dataset": "stats", "an attribute of a take": "mask", "an attribute of a dataset": "mask/train"}
            if what == "a dataset":
                file.create_dataset("labels", data=np.arange(5000))
            else:
                file[added.get(what, "/")].attrs["comment"] = "sharp " * 200
        else:
            ADDITIONS[what](file)
    assert path.stat().st_size > size
    done = takeset("verify", copy, check=0)
    assert any(path.name in line and "added" in line for line in done.stdout.splitlines()), done.stdout


ATTRIBUTES = [
    ("/", "format_version"), ("/", "tool_version"), ("/", "pipeline_sha256"), ("data", "env_args"), ("data", "total"),
    ("data/demo_0", "take_id"), ("data/demo_0", "reader"), ("data/demo_0", "num_samples"), ("data/demo_0/obs/pose", "unit"),
    ("data/demo_0/obs/pose", "camera_axes"), ("data/demo_0/obs/pose", "transform"), ("data/demo_0/obs/pose", "quaternion_order"),
    ("data/demo_0/obs/camera_depth", "unit"), ("data/demo_0/obs/camera_image", "channel_order"),
    ("data/demo_0/obs/camera_image", "sha256"), ("data/demo_0/obs/camera_image", "sha256_of"), ("meta/demo_0/timestamp_ns", "clock"),
    ("meta/demo_0/timestamp_ns", "origin_ns"),
]


@pytest.mark.parametrize("has_grown", [False, True])
@pytest.mark.parametrize("owner, name", ATTRIBUTES)
def test_an_attribute_with_another_value_is_found(takeset, copy, owner, name, has_grown):
    """Another value of the same type and length. Growth excuses nothing: the attributes of what Takeset wrote are compared too."""
    path = of_take(copy, "v1")
    before = path.read_bytes()
    with h5py.File(path, "r+") as file:
        attributes = file[owner].attrs
        value = attributes[name]
        attributes.modify(name, ("x" if value[0] != "x" else "y") + value[1:] if isinstance(value, str) else value + 1)
    assert path.read_bytes() != before
    if has_grown:
        with h5py.File(path, "r+") as file:
            file.create_dataset("labels", data=np.arange(5000))
    done = takeset("verify", copy, check=2)
    assert "episodes/v1.h5" in done.stdout
