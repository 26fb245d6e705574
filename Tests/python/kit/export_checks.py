"""Checks of exports to training formats that do not depend on the format, and takes that such formats cannot hold as they are."""

import os
import resource
import shutil

import h5py
from command import BINARY, measured
from geometry_oracle import Runs
from scene_oracle import export, files, record
from sealing import seal
from stack_sessions import v2
from system import mount_tmpfs


def refuses(takeset, dataset, form, output, *options, code=65):
    """The sentence with which an export is refused; it leaves nothing behind."""
    before = sorted(output.parent.iterdir())
    done = export(takeset, dataset, form, output, *options, check=code)
    assert sorted(output.parent.iterdir()) == before and not done.stdout
    (sentence,) = done.stderr.strip().splitlines()
    return sentence


def check_output(takeset, dataset, form, root, *options):
    """An output is never overwritten unless it is an earlier export, and the bytes depend neither on threads nor on the run."""
    output = root / "out"
    export(takeset, dataset, form, output, *options, "--jobs", 1)
    first = files(output)
    assert "--replace" in refuses(takeset, dataset, form, output, *options, code=73) and files(output) == first
    for jobs in 2, 5:
        export(takeset, dataset, form, output, *options, "--jobs", jobs, "--replace")
        assert files(output) == first
    found = record(output)
    assert found["format"] == form and found["export_version"] == 1
    sizes = [len(data) for name, data in first.items() if name != "takeset-export.json"]
    assert (found["files"], found["bytes"]) == (len(sizes), sum(sizes))
    shutil.rmtree(output)
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    refuses(takeset, dataset, form, output, *options, "--replace", code=73)
    assert (output / "notes.txt").read_text() == "mine"


def check_full_disk(takeset, dataset, form, root, *options, limit=100_000):
    """Where the output cannot be written: exit 1 with the reason, and nothing left behind."""

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = takeset("export", dataset, "--to", form, "--output", root / "limited", *options, preexec_fn=little)
    assert done.returncode == 1 and "File too large" in done.stderr and str(root / "limited") in done.stderr, done.stderr
    assert list(root.iterdir()) == []
    unmount = mount_tmpfs(root / "disk", "1m")
    try:
        done = takeset("export", dataset, "--to", form, "--output", root / "disk/out", *options)
        assert done.returncode == 1 and "No space left on device" in done.stderr and "MB are free" in done.stderr, done.stderr
        assert list((root / "disk").iterdir()) == []
    finally:
        unmount()
        (root / "disk").rmdir()


def check_each_write(takeset, failing_write, dataset, form, root, *options):
    """A disk that is full at any one write leaves a complete export or none. The number of writes that failed."""
    export(takeset, dataset, form, root / "whole", *options, "--jobs", 1)
    whole = files(root / "whole")
    for number in range(1, 3000):
        environment = os.environ | {"LD_PRELOAD": str(failing_write), "FAIL_AT": str(number)}
        done = takeset("export", dataset, "--to", form, "--output", root / "out", *options, "--jobs", 1, env=environment)
        if done.returncode == 0:
            assert files(root / "out") == whole
            return number - 1
        assert done.returncode == 1 and "No space left on device" in done.stderr, (number, done.stderr)
        assert sorted(p.name for p in root.iterdir()) == ["whole"], number
    raise AssertionError("it never succeeds")


def damaged(dataset, copy, take):
    """A copy of a dataset in which bytes of a compressed image are changed: that of row 7."""
    shutil.copytree(dataset, copy)
    shard = copy / f"episodes/{take}.h5"
    with h5py.File(shard) as file:
        place = file["data/demo_0/obs/camera_image"].id.get_chunk_info_by_coord((7, 0, 0, 0))
    assert place.filter_mask == 0
    data = bytearray(shard.read_bytes())
    middle = place.byte_offset + place.size // 2
    for at in range(middle, middle + 64):
        data[at] ^= 0xFF
    shard.write_bytes(data)
    return copy


def with_side_camera(dataset, copy):
    """A copy of a dataset whose takes have a second camera, `side`, whose images are the negatives of the first."""
    shutil.copytree(dataset, copy)
    for shard in (copy / "episodes").glob("*.h5"):
        with h5py.File(shard, "r+", libver=("earliest", "v108")) as file:
            observations, streams = file["data/demo_0/obs"], file["meta/demo_0/streams"]
            observations.copy("camera_image", "side_image")
            streams.copy("camera_image", "side_image")
            observations["side_image"][:] = 255 - observations["camera_image"][:]
    seal(copy)
    return copy


def incomplete_takes(takeset, root):
    """Takes with incomplete rows, and a complete one: the glove's readings begin late, frames are missing, images cannot be decoded."""
    late, cut, blind = v2(), v2(), v2()
    late.encoders = late.encoders[14:]
    for number in 17, 18, 19, 20:
        del cut.rgb[number]
    for number in 5, 6, 30:
        blind.rgb[number] = blind.rgb[number][:300]
    return Runs(takeset, root, {"late": late, "cut": cut, "blind": blind, "whole": v2()})


def dead_joint():
    """A take whose first joint never has a value."""
    found = v2()
    for reading in found.encoders:
        reading["index_mcp"] = None
    return found


def memory_of(dataset, form, output, *options):
    """Exit code, peak resident bytes and processor seconds of an export."""
    return measured(BINARY, "export", dataset, "--to", form, "--output", output, *options)
