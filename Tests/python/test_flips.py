"""One flipped bit anywhere in a dataset is found and named; what another program adds beside it is no damage."""

import os
import random
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import BINARY, manifest

FLIPS = int(os.environ.get("TAKESET_FLIPS", 300))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, takeset):
    """A session of each kind that has depth maps or joints, a bundle and a scan."""
    root = tmp_path_factory.mktemp("inputs")
    tiny = ["--seconds", 0.2, "--size", "64x48"]
    takeset.simulate(root / "v1", *tiny, "--depth-size", "16x12")
    takeset.simulate(root / "v2", *tiny, "--variant", "v2")
    takeset("simulate", "realitycam-bundle", "--output", root / "pour", *tiny, check=0)
    takeset("simulate", "stray-scanner", "--output", root / "scan", *tiny, "--depth-size", "16x12", check=0)
    return root


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory, takeset):
    """A sound dataset, which each test copies."""
    output = tmp_path_factory.mktemp("whole") / "out"
    takeset.convert(inputs, output=output)
    takeset("verify", output, check=0)
    return output


@pytest.fixture(scope="module")
def encoded(inputs, tmp_path_factory, takeset):
    """A dataset whose pictures are sequences of bytes, which stand in heaps and not in chunks."""
    root = tmp_path_factory.mktemp("encoded")
    (root / "p.yaml").write_text("version: 1\ntransforms: [align]\nwriter: {hdf5: {image: jpeg-source}}\n")
    done = takeset("run", inputs / "v1", inputs / "v2", "--output", root / "out", "--pipeline", root / "p.yaml")
    if done.returncode == 64:  # before jpeg-source had its name
        (root / "p.yaml").write_text("version: 1\ntransforms: [align]\nwriter: {hdf5: {image: jpeg}}\n")
        takeset.convert(inputs / "v1", inputs / "v2", output=root / "out", arguments=["--pipeline", root / "p.yaml"])
    takeset("verify", root / "out", check=0)
    return root / "out"


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def flipped(path, offset, bit):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def chunks(path):
    """Where the chunks of a shard are: offset, size, and what a change there is to be called."""
    found = []

    def visit(name, item):
        if not isinstance(item, h5py.Dataset) or not item.chunks:
            return
        for index in range(item.id.get_num_chunks()):
            info = item.id.get_chunk_info(index)
            one_row = item.chunks == (1, *item.shape[1:]) and item.attrs["sha256_of"] == "rows"
            row = f"[{info.chunk_offset[0]}]" if one_row else ""
            found.append((info.byte_offset, info.size, f"episodes/{path.name}:/{name}{row}:"))

    with h5py.File(path) as file:
        file.visititems(visit)
    return sorted(found)


def files(directory):
    return [*sorted((directory / "episodes").glob("*.h5")), directory / "dataset.h5", directory / "manifest.json"]


def some_bit(path, taken, lottery):
    """An offset and a bit; as often outside of chunks, where the library's own structures are, as anywhere."""
    anywhere = lottery.random() < 0.5
    while True:
        offset = lottery.randrange(path.stat().st_size)
        if anywhere or not any(start <= offset < start + count for start, count, _ in taken):
            return offset, lottery.randrange(8)


# Flips


def told(found):
    """Misses one a line, for who reads the failure."""
    return f"{len(found)} missed:\n" + "\n".join(map(str, found))


def children_of(process):
    return [int(word) for path in Path(f"/proc/{process.pid}/task").glob("*/children") for word in path.read_text().split()]


def is_running(process):
    """Whether there is such a process, and not only its exit code that nobody has asked for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def verified(directory, seconds=20):
    """The exit code and output of verify; of one that does not end, "endless"."""
    process = subprocess.Popen(
        [BINARY, "verify", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        for child in children_of(process):
            os.kill(child, signal.SIGKILL)
        process.kill()
        return "endless", *process.communicate()


def harm(path, offset, bit, original):
    """What a flip that was missed does to a reader: nothing, when every value of the shard is read as before."""

    def values(path):
        found = {}
        with h5py.File(path) as file:
            file.visititems(lambda name, item: found.update({name: (dict(item.attrs), item[()] if isinstance(item, h5py.Dataset) else 0)}))
            return repr({name: (str(attributes), np.asarray(value).tolist()) for name, (attributes, value) in found.items()})

    if path.parent.name != "episodes":
        return "unknown"
    flipped(path, offset, bit)
    child = os.fork()
    if child == 0:  # the library may crash or never come back
        signal.alarm(10)
        try:
            os._exit(values(path) != values(original))
        except Exception:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    flipped(path, offset, bit)
    return {0: "none", 1: "other values", 2: "unreadable"}.get(os.waitstatus_to_exitcode(status), "crash or no end")


def misses(takeset, directory, original, count, seed):
    """Flips that verify does not answer with exit 2 and the name of the file, and what harm they do."""
    lottery = random.Random(seed)
    places = [(path, chunks(path) if path.parent.name == "episodes" else []) for path in files(directory)]
    found = []
    for number in range(count):
        path, taken = places[number % len(places)]
        offset, bit = some_bit(path, taken, lottery)
        flipped(path, offset, bit)
        code, out, errors = verified(directory)
        flipped(path, offset, bit)
        if code != 2 or path.name not in out:
            effect = harm(path, offset, bit, original / path.relative_to(directory))
            found.append((path.name, offset, bit, code, effect, out, errors))
    takeset("verify", directory, check=0)
    return found


def test_every_flipped_bit_is_found(takeset, copy, whole):
    """In shards, index and manifest; the file is named."""
    found = misses(takeset, copy, whole, FLIPS, seed=1)
    assert not found, told(found)


def test_every_flipped_bit_of_encoded_pictures_is_found(takeset, encoded, tmp_path):
    copy = shutil.copytree(encoded, tmp_path / "copy")
    found = misses(takeset, copy, encoded, max(FLIPS // 6, 24), seed=2)
    assert not found, told(found)


def test_a_flip_in_a_chunk_is_told_by_dataset_and_row(takeset, copy, whole):
    lottery = random.Random(3)
    found = []
    shards = {path: chunks(path) for path in (copy / "episodes").iterdir()}
    kinds = {name.split("[")[0].split("/")[-1].rstrip(":") for places in shards.values() for _, _, name in places}
    assert {"camera_image", "camera_depth", "camera_depth_valid", "camera_depth_confidence"} <= kinds
    for number in range(max(FLIPS // 3, 40)):
        path, places = sorted(shards.items())[number % len(shards)]
        start, count, name = lottery.choice(places)
        offset, bit = start + lottery.randrange(count), lottery.randrange(8)
        flipped(path, offset, bit)
        code, out, errors = verified(copy)
        flipped(path, offset, bit)
        if code != 2 or not any(line.startswith(name) for line in out.splitlines()):
            effect = harm(path, offset, bit, whole / path.relative_to(copy))
            found.append((name, path.name, offset, bit, f"-{start + count - offset} of {count}", code, effect, out, errors))
    assert not found, told(found)


def lengths_of_texts(data):
    """Where the lengths of the objects of every global heap are (HDF5 file format, III.E), but that of free space."""
    found, heap = [], data.find(b"GCOL")
    while heap >= 0:
        end, at = heap + struct.unpack_from("<Q", data, heap + 8)[0], heap + 16
        while at + 16 <= end:
            number, _, size = struct.unpack_from("<HH4xQ", data, at)
            if number == 0:
                break
            found.append(at + 8)
            at += 16 + -(-size // 8) * 8
        heap = data.find(b"GCOL", end)
    return found


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_verify_ends_when_lengths_of_texts_have_changed(takeset, copy, name):
    """The library that reads HDF5 runs in circles over some of them."""
    path = of_take(copy, name)
    places = lengths_of_texts(path.read_bytes())
    assert len(places) > 60
    lottery, found = random.Random(5), []
    for start in lottery.sample(places, min(len(places), max(FLIPS // 4, 40))):
        offset, bit = start + lottery.choice([0, 1, 1, 7]), lottery.randrange(8)
        flipped(path, offset, bit)
        code, out, errors = verified(copy, seconds=5)
        flipped(path, offset, bit)
        if code != 2:
            found.append((offset, bit, code, out, errors))
        if len(found) == 3:
            break
    assert not found, told(found)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_goes_on_when_verify_is_stopped(takeset, copy, number):
    """What reads foreign HDF5 for it ends with it, even in the middle of a file that is slow to read."""
    path = of_take(copy, "v1")
    for place in lengths_of_texts(path.read_bytes()):
        flipped(path, place + 1, 2)
        process = subprocess.Popen([BINARY, "verify", copy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            children = children_of(process)
            process.send_signal(number)
            process.wait(timeout=10)
            time.sleep(1)
            left = [child for child in children if is_running(child)]
            for child in left:
                os.kill(child, signal.SIGKILL)
            assert left == [], "it goes on"
            return
        flipped(path, place + 1, 2)
    pytest.skip("no file was found that takes long")


# The journal


def test_a_flipped_bit_in_the_journal_never_reaches_the_record(takeset, inputs, tmp_path):
    """The next run, with one take more, ends with what a run over the same inputs makes from nothing."""
    three, four = sorted(inputs.iterdir())[:3], sorted(inputs.iterdir())
    takeset.convert(*four, output=tmp_path / "clean")
    expected = manifest(tmp_path / "clean")
    shards = {path.name: path.read_bytes() for path in (tmp_path / "clean/episodes").iterdir()}
    lottery = random.Random(4)
    output, found = tmp_path / "out", []
    for number in range(max(FLIPS // 5, 20)):
        shutil.rmtree(output, ignore_errors=True)
        takeset.convert(*three, output=output)
        journal = output / "journal.jsonl"
        contents = journal.read_bytes()
        newlines = [at for at, byte in enumerate(contents) if byte == 10]
        offset = lottery.choice(newlines) if number % 10 == 0 else lottery.randrange(len(contents))
        bit = lottery.randrange(8)
        flipped(journal, offset, bit)
        done = takeset("run", *four, "--output", output)
        after = manifest(output)
        noted = "journal" in done.stdout + done.stderr or offset == newlines[-1]  # a last line without its end is one that a crash cut
        same = {path.name: path.read_bytes() for path in (output / "episodes").iterdir()} == shards
        sound = done.returncode == 0 and takeset("verify", output).returncode == 0
        if not (sound and noted and same and after["record"] == expected["record"] and after["record_sha256"] == expected["record_sha256"]):
            found.append((offset, bit, done.returncode, noted, same, after["record"] == expected["record"], done.stdout, done.stderr))
    assert not found, told(found)


# What another program writes


def of_take(directory, name):
    return directory / "episodes" / f"{name}.h5"


ADDITIONS = {
    "a dataset": lambda file: file["data/demo_0/obs"].create_dataset("labels", data=np.arange(5000)),
    "a group": lambda file: file.create_group("notes").create_dataset("text", data=[b"x" * 3000]),
    "an attribute of the root": lambda file: file.attrs.update({"checked_by": "someone " * 100}),
    "an attribute of a take": lambda file: file["data/demo_0"].attrs.update({"rating": np.arange(300)}),
    "an attribute of a dataset": lambda file: file["data/demo_0/obs/camera_image"].attrs.update({"comment": "sharp " * 100}),
}


@pytest.mark.parametrize("name", ["v1", "pour", "dataset.h5"])
@pytest.mark.parametrize("what", ADDITIONS)
def test_what_is_added_is_noted_and_no_damage(takeset, copy, name, what):
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


def test_a_file_that_is_stored_anew_is_no_damage_and_its_rows_still_have_numbers(takeset, copy, tmp_path):
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
