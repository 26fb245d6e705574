"""Traces of rows, and the bytes that they name, read from the files by Python alone."""

import gzip
import json
import tarfile
import zipfile
import zlib

import h5py
import numpy as np
from outputs import manifest

INFLATE = {"gzip": gzip.decompress, "zlib": zlib.decompress, "deflate": lambda data: zlib.decompress(data, -15)}


def traced(takeset, dataset, episode, row, *arguments, check=0):
    """The trace of a row as an object."""
    done = takeset("trace", dataset, "--episode", episode, "--row", row, "--json", *arguments)
    assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def streams(trace):
    return {stream["name"]: stream for stream in trace["streams"]}


def cut(data, stretch):
    return data[stretch["offset"] : stretch["offset"] + stretch["bytes"]]


def root(trace):
    """The folder that the files of a take are in."""
    from pathlib import Path

    location = Path(trace["location"])
    return location if location.is_dir() else location.parent


def held(trace, origin):
    """The bytes of an origin, from the file on disk, through member, part and compression, as the trace describes them."""
    data = (root(trace) / origin["file"]).read_bytes()
    if origin["range_in_file"]:
        direct = cut(data, origin["range_in_file"])
    if member := origin["member"]:
        data = cut(data, member["data"])
        if member["compression"]:
            assert member["compression"] == "deflate"
            data = INFLATE["deflate"](data)
        assert len(data) == member["bytes"]
    if part := origin["part"]:
        data = cut(data, part["range"])
    if origin["compression"]:
        data = INFLATE[origin["compression"]](data)
    found = cut(data, origin["range"])
    assert len(found) == origin["range"]["bytes"]
    compressed = bool(origin["compression"] or member and member["compression"])
    assert (origin["range_in_file"] is None) == compressed
    if not compressed:
        assert found == direct
    return found


def check_member(trace, origin):
    """The member of a zip or tar is where Python's own libraries find it."""
    path = root(trace) / origin["file"]
    member = origin["member"]
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            info = archive.getmember(member["name"])
        assert (member["data"], member["bytes"]) == ({"offset": info.offset_data, "bytes": info.size}, info.size)
        return
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member["name"])
    head = path.read_bytes()[info.header_offset : info.header_offset + 30]
    start = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    assert member["data"] == {"offset": start, "bytes": info.compress_size}
    assert (member["bytes"], member["compression"] is None) == (info.file_size, info.compress_type == zipfile.ZIP_STORED)


def stored(dataset, trace, name):
    """The stored row of an array below the demo's `data`, by h5py."""
    with h5py.File(dataset / "dataset.h5") as file:
        return file[f"data/{trace['demo']}/{name}"][trace["row"]]


def times(dataset, trace, stream):
    """The provenance of the row's value, by h5py."""
    with h5py.File(dataset / "dataset.h5") as file:
        group = file[f"meta/{trace['demo']}/streams/{stream}"]
        return {name: group[name][trace["row"]].item() for name in ("source_index", "next_index", "weight", "dt_ns", "valid")}


def rotation(quaternion):
    x, y, z, w = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def check_whole(dataset, trace):
    """What holds for every trace of a sound row: provenance and steps as stored and recorded, files as recorded, row made again."""
    record = manifest(dataset)["record"]
    entry = next(one for one in record["takes"] if one["id"] == trace["episode"])
    for stream in trace["streams"]:
        if stream["kind"] not in ("action", "inertial"):
            found = {key: stream[key] for key in ("source_index", "next_index", "weight", "dt_ns")} | {"valid": int(stream["valid"])}
            assert found == times(dataset, trace, stream["name"])
            assert stream["reproduced"] is True and stream["as_recorded"] is True
            assert bool(stream["origins"]) == (stream["source_index"] >= 0), stream
    recorded = [{key: step[key] for key in ("name", "options", "frames_in", "frames_out", "dropped")} for step in entry["steps"]]
    assert [{key: step[key] for key in recorded[0]} for step in trace["steps"]] == recorded
    assert all(step["effects"] for step in trace["steps"])
    inputs = {one["path"]: one for one in entry["inputs"]}
    assert {o["file"] for s in trace["streams"] for o in s["origins"]} == {one["path"] for one in trace["inputs"]}
    for one in trace["inputs"]:
        assert {key: one[key] for key in ("path", "bytes", "sha256", "role")} == inputs[one["path"]]
        assert one["state"] == "unchanged"
    assert (trace["reproduced"], trace["difference"], trace["problems"], trace["unavailable"]) == (True, None, [], None)
    assert trace["other_inputs"] == {"count": len(inputs) - len(trace["inputs"]), "problems": []}
