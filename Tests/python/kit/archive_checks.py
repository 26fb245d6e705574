"""Converting sessions in archives, and comparing what became of them."""

import dataclasses
import json
import zlib

import h5py
from archives import deflated, members, zip_of, zipped
from outputs import manifest
from small_sessions import put, session


def placed(root, found):
    """Folders of files by path, and files of bytes, by name."""
    for name, one in found.items():
        put(root / name, one) if isinstance(one, dict) else put(root, {name: one})
    return root


def entries(output):
    return {one["id"]: one for one in manifest(output)["record"]["takes"]}


def searched(takeset, root, found, check=0, arguments=()):
    """The entries of a run over a directory with all of these in it."""
    takeset.convert(placed(root / "in", found), output=root / "out", check=check, arguments=arguments)
    return entries(root / "out")


def reader(directory, writer=None, **options):
    """A pipeline file with options of the reader."""
    steps = {"version": 1, "reader": {"name": "stack-session", **options}, "transforms": ["align"]} | ({"writer": writer} if writer else {})
    path = directory / "pipeline.yaml"
    path.write_text(json.dumps(steps))
    return ["--pipeline", path]


def content(output, name):
    """Type, shape, bytes and attributes of every dataset of an episode's obs and meta."""
    found = {}

    def see(_, item):
        if isinstance(item, h5py.Dataset):
            found[item.name] = item.dtype.str, item.shape, item[()].tobytes(), dict(item.attrs)

    with h5py.File(output / f"episodes/{name}.h5") as file:
        for group in "data/demo_0/obs", "meta/demo_0":
            file[group].visititems(see)
    rows = "/meta/demo_0/row_sha256/"  # digests have none of their own
    assert all(("sha256" in attributes) != name.startswith(rows) for name, (*_, attributes) in found.items())
    assert {"/data/demo_0/obs/camera_image", rows + "camera_image", "/meta/demo_0/statistics"} <= set(found)
    return found


def noticed(one):
    return [(f["code"], f["severity"], f.get("count")) for f in one["findings"]]


def named(zips, tars):
    """Files by name: each zip and tar by what is special about it."""
    return {f"zip-{name}.zip": data for name, data in zips.items()} | {f"tar-{name}.tar": data for name, data in tars.items()}


WHOLE = session("v2")
JUNK = {
    ".DS_Store": b"\0\0\0\1Bud1", "._poses.json": b"\0\5\x16\7", "rgb/.DS_Store": b"", "rgb/._000000.jpg": b"\0\5\x16\7",
    "rgb/000003 copy.jpg": b"", "viz/frame_000.png": b"png", "viz/deep/stats.txt": b"", "notes.txt": b"good",
    "__MACOSX/._poses.json": b"\0\5\x16\7", "__MACOSX/rgb/._000000.jpg": b"\0\5\x16\7", "inner.zip": zip_of(session("v2", seed=2)),
}
DAMAGES = {
    "sum": lambda data: {"method": 0, "crc": zlib.crc32(data) ^ 1},
    "flip": lambda data: {"method": 0, "packed": bytes([data[0] ^ 1]) + data[1:]},
    "deflate": lambda data: {"packed": b"\xff" * 40},
    "cut": lambda data: {"packed": deflated(data)[:-9]},
    "long": lambda data: {"packed": deflated(data + bytes(1000))},
    "short": lambda data: {"packed": deflated(data[:-2])},
    "gone": lambda data: {"packed": b""},
    "gone-stored": lambda data: {"packed": b"", "method": 0},
}


def damaged(files, *names, kind="sum"):
    """A zip in which the bytes of some members are not those that were put in."""
    found = [dataclasses.replace(one, **DAMAGES[kind](one.data)) if one.name[10:] in names else one for one in members(files)]
    return zipped(found)
