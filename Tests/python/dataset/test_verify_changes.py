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


def changed(path, owner, name):
    """Gives an attribute another value of the same type and length."""
    before = path.read_bytes()
    with h5py.File(path, "r+") as file:
        attributes = file[owner].attrs
        value = attributes[name]
        attributes.modify(name, ("x" if value[0] != "x" else "y") + value[1:] if isinstance(value, str) else value + 1)
    assert path.read_bytes() != before


@pytest.mark.parametrize("owner, name", ATTRIBUTES)
def test_an_attribute_with_another_value_is_found(takeset, copy, owner, name):
    path = of_take(copy, "v1")
    changed(path, owner, name)
    done = takeset("verify", copy, check=2)
    assert "episodes/v1.h5" in done.stdout


@pytest.mark.parametrize("owner, name", ATTRIBUTES)
def test_an_attribute_with_another_value_is_found_in_a_file_that_has_grown(takeset, copy, owner, name):
    """Growth excuses nothing: the attributes of what Takeset wrote are compared too."""
    path = of_take(copy, "v1")
    changed(path, owner, name)
    with h5py.File(path, "r+") as file:
        file.create_dataset("labels", data=np.arange(5000))
    done = takeset("verify", copy, check=2)
    assert "episodes/v1.h5" in done.stdout


def recompressed(source, target):
    """The same datasets and attributes in a new file, with another compression."""

    def attributes(one, other):
        for index in range(h5py.h5a.get_num_attrs(one.id)):
            attribute = h5py.h5a.open(one.id, index=index)
            value = np.zeros((), f"V{attribute.get_storage_size()}")
            attribute.read(value, mtype=attribute.get_type())
            h5py.h5a.create(other.id, attribute.name, attribute.get_type(), attribute.get_space()).write(value, mtype=attribute.get_type())

    def visit(name, item):
        if isinstance(item, h5py.Group):
            made = target.create_group(name)
        else:
            packing = dict(chunks=item.chunks, compression=9) if item.chunks else {}
            made = target.create_dataset(name, data=item[()], dtype=item.dtype, **packing)
        attributes(item, made)

    attributes(source, target)
    source.visititems(visit)


def test_a_rewritten_file_is_not_damaged_and_changed_rows_are_still_named(takeset, copy, tmp_path):
    path = of_take(copy, "v1")
    with h5py.File(path) as source, h5py.File(tmp_path / "new.h5", "w") as target:
        recompressed(source, target)
    assert (tmp_path / "new.h5").stat().st_size != path.stat().st_size
    shutil.copy(tmp_path / "new.h5", path)
    takeset("verify", copy, check=0)
    with h5py.File(path, "r+") as file:
        file["data/demo_0/obs/camera_image"][3, 5, 7, 1] ^= 4
    done = takeset("verify", copy, check=2)
    assert "episodes/v1.h5:/data/demo_0/obs/camera_image[3]" in done.stdout, done.stdout
