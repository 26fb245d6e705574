"""Datasets from somebody else: no command reads or writes outside of what it was given, crashes, or waits for ever."""

import hashlib
import json
import os
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from command import BINARY
from outputs import manifest
from sealing import rewrite, seal

EXPORTS = "tum", "kitti", "mcap", "ply", "colmap", "nerfstudio", "webdataset", "zarr", "aloha"
READERS = [
    ["verify", "{ds}"], ["verify", "{ds}", "--for", "robomimic"], ["verify", "{ds}", "--inputs"], ["describe", "{ds}"], ["report", "{ds}", "--output", "{out}"],
    ["trace", "{ds}", "--episode", "v2", "--row", "0"], ["select", "{ds}", "--where", "seconds > 0", "--output", "{out}"], ["pack", "{ds}", "--output", "{out}"], ["inspect", "{ds}"],
    *(["export", "{ds}", "--to", to, "--output", "{out}"] for to in EXPORTS),
]


@pytest.fixture
def copy(tiny_dataset, tmp_path):
    return shutil.copytree(tiny_dataset, tmp_path / "given" / "ds")


def ended(arguments, ds, out):
    """Runs a command on a dataset, which has to end by itself and with words where it does not succeed."""
    command = [BINARY, *(a.format(ds=ds, out=out) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    # What crashes libhdf5 as it copies crashes a process of its own.
    lawful = {"pack": (0, 1, 2, 64, 65), "inspect": (0, 2, 3, 64, 65)}.get(arguments[0], (0, 2, 64, 65))
    assert done.returncode in lawful, (command, done.returncode, done.stderr[-2000:])
    assert done.returncode == 0 or done.stderr or done.stdout, command
    return done


@pytest.mark.parametrize("name", ["../../ESC", "a/b", "..", ".", "", "a\0b", "a\nb", "x" * 300, "/tmp/ESC"])
def test_the_id_of_a_take_is_never_a_path(copy, tmp_path, name):
    def change(record):
        old = record["takes"][0]["id"]
        record["takes"][0]["id"] = name
        for part in "train", "valid", "test":
            record["splits"][part] = [name if one == old else one for one in record["splits"][part]]

    rewrite(copy, change)
    for arguments in READERS:
        done = ended(arguments, copy, tmp_path / "outs/out")
        assert done.returncode != 0, arguments
        assert not list(tmp_path.rglob("*ESC*"))
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)


def test_the_ids_of_a_journal_are_never_paths(takeset, copy, tiny_takes, tmp_path):
    import zlib

    victim = tmp_path / "given/victim.h5"
    victim.write_bytes(b"mine")
    journal = copy / "journal.jsonl"
    lines = []
    for line in journal.read_bytes().splitlines():
        body = line[: line.index(b',"crc32":"')].replace(b'"id":"v1"', b'"id":"../../victim"', 1)
        lines.append(body + b',"crc32":"%08x"}\n' % zlib.crc32(body))
    journal.write_bytes(b"".join(lines))
    done = takeset("run", tiny_takes, "--output", copy, "--progress", "plain")
    assert victim.read_bytes() == b"mine" and "damaged" in done.stderr
    assert done.returncode == 0
    takeset("verify", copy, check=0)


@pytest.mark.parametrize("name,arguments", [
    (".README.md.partial", ["describe", "{ds}"]), (".croissant.json.partial", ["describe", "{ds}"]), (".attestation.json.partial", ["sign", "{ds}", "--key", "{key}"]),
    ("../.r.html.partial", ["report", "{ds}", "--output", "{ds}/../r.html"]), ("../.m.partial", ["run", "{takes}", "--output", "{ds}", "--metrics", "{ds}/../m"]),
])
def test_nothing_is_written_through_a_link(copy, tiny_takes, tmp_path, name, arguments):
    victim, key = tmp_path / "victim", tmp_path / "key.pem"
    victim.write_text("mine")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    (copy / name).symlink_to(victim)
    done = subprocess.run([BINARY, *(a.format(ds=copy, key=key, takes=tiny_takes) for a in arguments)], capture_output=True, text=True, timeout=300)
    assert victim.read_text() == "mine" and not victim.is_symlink(), done
    assert done.returncode == 0, done.stderr


def test_a_journal_that_is_a_link_is_refused(takeset, copy, tiny_takes, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (copy / "journal.jsonl").unlink()
    (copy / "journal.jsonl").symlink_to(victim)
    done = takeset("run", tiny_takes, "--output", copy)
    assert victim.read_text() == "mine" and done.returncode in (1, 64, 65)


def test_a_linked_journal_hides_nothing_from_pack(takeset, copy, tmp_path):
    """It was taken for none, and the dataset for one that no run had left unfinished."""
    (copy / "journal.jsonl").rename(tmp_path / "moved")
    (copy / "journal.jsonl").symlink_to(tmp_path / "moved")
    done = takeset("pack", copy, "--output", tmp_path / "packed.h5")
    assert done.returncode == 64 and "journal.jsonl is a symbolic link" in done.stderr
    assert not (tmp_path / "packed.h5").exists()


@pytest.mark.parametrize("folder", ["episodes", "results"])
def test_a_folder_that_is_a_link_is_named_and_not_written_through(takeset, tiny_takes, tmp_path, folder):
    outside, tasks = tmp_path / "outside", tmp_path / "tasks"
    outside.mkdir()
    takeset("plan", tiny_takes, "--output", tasks, "--tasks", check=0)
    shutil.rmtree(tasks / folder, ignore_errors=True)
    (tasks / folder).symlink_to(outside)
    done = takeset("convert", tasks, "--task", 0)
    assert done.returncode in (73, 74) and f"{folder}: it is a symbolic link" in done.stderr, done.stderr
    assert list(outside.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [-1, 2**53 - 1, 2**62])
@pytest.mark.parametrize("place", ["samples", "bytes", "frames", "shape", "chunk", "count"])
def test_numbers_of_a_manifest_never_trap(copy, tmp_path, place, number):
    def change(record):
        for take in record["takes"]:
            match place:
                case "samples" | "bytes": take["output"][place] = number
                case "frames": take["steps"][0]["frames_in"] = number
                case "shape": take["output"]["datasets"][0]["shape"] = [number] * 3
                case "chunk": take["output"]["datasets"][0]["chunk"] = [number] * 3
                case "count": take["findings"] = [{"code": "frames-dropped", "severity": "info", "message": "", "count": number}]

    rewrite(copy, change)
    for arguments in READERS:
        ended(arguments, copy, tmp_path / "outs/out")
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)


# What an attribute may be in place of one value, and where the readers look.
ATTRIBUTES = [
    ("meta/demo_0/timestamp_ns", "origin_ns", np.full(5000, 0x4141414141414141)), ("meta/demo_0/timestamp_ns", "origin_ns", np.full(8, 7)),
    ("meta/demo_0/timestamp_ns", "tick_ns", np.full(100, 7)), ("meta/demo_0/timestamp_ns", "clock", np.array(["a"] * 5000, dtype=h5py.string_dtype())),
    ("data/demo_0", "take_id", np.array(["a"] * 5000, dtype=h5py.string_dtype())), ("data/demo_0", "num_samples", np.full(5000, 1)),
    ("data/demo_0/obs/pose", "kind", "image"), ("data/demo_0/obs/pose", "kind", np.array(["pose"] * 500, dtype=h5py.string_dtype())),
    ("data/demo_0/obs/camera_image", "rotation_applied", np.full(3000, 1)), ("meta/demo_0/timestamp_ns", "origin_ns", h5py.Empty("i8")),
    ("meta/demo_0/timestamp_ns", "origin_ns", np.void(b"x" * 4000)), ("data/demo_0/obs/pose", "unit", np.bytes_(b"y" * 9000)),
]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(ATTRIBUTES)))
def test_attributes_that_are_no_single_value_are_refused(copy, tmp_path, index):
    place, name, value = ATTRIBUTES[index]
    shard = copy / "episodes/v2.h5"
    with h5py.File(shard, "r+") as f:
        f[place].attrs.create(name, value)
    seal(copy, "v2")
    for arguments in READERS:
        ended(arguments, copy, tmp_path / "outs/out")
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)
    done = subprocess.run([BINARY, "verify", shard], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 2, 64, 65)


SECRET = 4711000815


def led_astray(shard, how, where, secret):
    """Makes an array of a shard lead to another file."""
    with h5py.File(shard, "r+") as f:
        shape, dtype = f[where].shape, f[where].dtype
        attributes = dict(f[where].attrs)
        del f[where]
        match how:
            case "external": f[where] = h5py.ExternalLink(str(secret), "/i8")
            case "pipe": f[where] = h5py.ExternalLink(str(secret.parent / "pipe"), "/i8")
            case "soft": f[where] = h5py.SoftLink("/data/demo_0/obs/pose")
            case "storage": f.create_dataset(where, shape, dtype, external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
            case "virtual":
                layout = h5py.VirtualLayout(shape, dtype)
                layout[:] = h5py.VirtualSource(str(secret), "i8", shape=shape)
                f.create_virtual_dataset(where, layout)
        if how in ("storage", "virtual"):
            for key, value in attributes.items():
                f[where].attrs[key] = value


@pytest.mark.slow
@pytest.mark.parametrize("where", ["meta/demo_0/timestamp_ns", "data/demo_0/obs/pose"])
@pytest.mark.parametrize("how", ["external", "pipe", "soft", "storage", "virtual"])
def test_a_shard_leads_to_no_other_file(copy, tmp_path, how, where):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as f:
        f["i8"] = np.full(1000, SECRET, "i8")
    os.mkfifo(tmp_path / "pipe")
    shard = copy / "episodes/v2.h5"
    led_astray(shard, how, where, secret)
    seal(copy, "v2")
    for arguments in READERS:
        done = ended(arguments, copy, tmp_path / "outs/out")
        if arguments[0] in ("export", "pack", "select") or arguments == ["verify", "{ds}"]:
            assert done.returncode != 0, arguments
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("shape, chunk", [((2**50, 7), (1, 7)), ((2**40, 7), (2**16, 7)), ((2**31, 7), (2**26, 7))])
def test_an_array_that_is_not_there_is_not_read_for_years(takeset, copy, tmp_path, shape, chunk):
    """A file of some kilobytes that claims an array of exabytes, of which nothing is stored."""
    shard = copy / "episodes/v2.h5"
    with h5py.File(shard, "r+") as f:
        attributes, dtype = dict(f["data/demo_0/obs/pose"].attrs), f["data/demo_0/obs/pose"].dtype
        del f["data/demo_0/obs/pose"]
        f.create_dataset("data/demo_0/obs/pose", shape, dtype, chunks=chunk, compression="gzip").attrs.update(attributes)
    seal(copy, "v2")
    for arguments in READERS:
        ended(arguments, copy, tmp_path / "outs/out")
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)
    done = subprocess.run([BINARY, "verify", shard], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "many times the bytes" in done.stdout, done


@pytest.mark.slow
def test_a_pipe_in_place_of_a_file_is_not_waited_for(copy, tmp_path):
    for name in "dataset.h5", "episodes/v2.h5", "manifest.json", "journal.jsonl":
        path = copy / name
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        for arguments in READERS:
            ended(arguments, copy, tmp_path / "outs/out")
            shutil.rmtree(tmp_path / "outs", ignore_errors=True)
        path.unlink()
        path.write_bytes(kept)


@pytest.mark.parametrize("year", [1902, 2262, 2300, 2446])
def test_files_of_any_year_are_converted(takeset, tiny_takes, tmp_path, year):
    takes = shutil.copytree(tiny_takes, tmp_path / "takes")
    for file in (takes / "v2").rglob("*.jpg"):
        subprocess.run(["touch", "-d", f"{year}-06-01", file], check=True)
    takeset.convert(takes, output=tmp_path / "out")
    for arguments in ["inspect", takes], ["plan", takes], ["verify", tmp_path / "out", "--inputs"]:
        takeset(*arguments, check=0)
    assert "nothing to do" in takeset.convert(takes, output=tmp_path / "out").stdout


@pytest.mark.slow
def test_a_damaged_shard_is_rebuilt_and_never_packed(takeset, copy, tiny_takes, tmp_path):
    shard = copy / "episodes/v1.h5"
    whole = shard.read_bytes()
    expected = manifest(copy)["record"]
    for offset in range(100, len(whole), max(1, len(whole) // 60)):
        changed = bytearray(whole)
        changed[offset] ^= 0x10
        shard.write_bytes(changed)
        done = takeset("pack", copy, "--output", tmp_path / "packed.h5")
        assert done.returncode == 65 and "is damaged" in done.stderr and not (tmp_path / "packed.h5").exists(), offset
    done = takeset.convert(tiny_takes, output=copy)
    assert "rebuilt" in done.stderr and shard.read_bytes() == whole and manifest(copy)["record"] == expected


# The index


def reindexed(ds, change):
    """Changes dataset.h5, and gives the manifest its size and digest."""
    with h5py.File(ds / "dataset.h5", "r+") as f:
        change(f)
    data = (ds / "dataset.h5").read_bytes()
    rewrite(ds, lambda record: record["index"].update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))


def replaced(place, target, path):
    def change(f):
        del f[place]
        f[place] = h5py.ExternalLink(str(target), path)

    return change


@pytest.mark.parametrize("place, path", [("stats", "/"), ("mask/train", "/names"), ("data/demo_000000", "/"), ("data", "/"), ("stats/more", "/")])
@pytest.mark.parametrize("target", ["secret.h5", "pipe"])
def test_the_index_leads_to_the_shards_only(takeset, copy, tmp_path, place, path, target):
    """Whatever its digest is: verify says so, and pack copies nothing from there."""
    with h5py.File(tmp_path / "secret.h5", "w") as f:
        f["i8"], f["names"] = np.full(1000, SECRET, "i8"), np.array([b"demo_000000"])
    os.mkfifo(tmp_path / "pipe")

    def change(f):
        if place == "stats/more":
            f[place] = h5py.ExternalLink(str(tmp_path / target), path)
        else:
            replaced(place, tmp_path / target, path)(f)

    reindexed(copy, change)
    assert ended(["verify", "{ds}"], copy, tmp_path).returncode == 2
    done = ended(["pack", "{ds}", "--output", "{out}"], copy, tmp_path / "packed.h5")
    assert done.returncode == 65 and not (tmp_path / "packed.h5").exists()


# Folders and times


def test_episodes_in_a_linked_folder_are_not_read(copy, tmp_path):
    shutil.move(copy / "episodes", tmp_path / "elsewhere")
    (copy / "episodes").symlink_to(tmp_path / "elsewhere")
    for arguments in READERS:
        done = ended(arguments, copy, tmp_path / "outs/out")
        if arguments[0] in ("verify", "export", "select", "pack", "trace"):
            assert done.returncode != 0, arguments
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)


def test_times_that_do_not_ascend_are_refused(copy, tmp_path):
    with h5py.File(copy / "episodes/v2.h5", "r+") as f:
        f["meta/demo_0/timestamp_ns"][:] = f["meta/demo_0/timestamp_ns"][:][::-1]
    seal(copy, "v2")
    for arguments in READERS:
        ended(arguments, copy, tmp_path / "outs/out")
        shutil.rmtree(tmp_path / "outs", ignore_errors=True)


# Lists of tasks


@pytest.mark.parametrize("change", [
    lambda r: r.update(outcome="written", output={"path": "episodes/x.h5", "bytes": 1, "samples": 2**62, "content_sha256": "0" * 64, "structure_sha256": "0" * 64, "datasets": []}),
    lambda r: r.update(steps=[{"name": "a", "options": {}, "frames_in": 2**62, "frames_out": 0, "dropped": []}] * 2), lambda r: r.update(take="../../evil"),
    lambda r: r.update(part=-5), lambda r: r.update(id="../x"), lambda r: r["findings"][0].update(count=-1),
])
def test_a_list_of_tasks_says_of_other_inputs_only_that_they_failed(takeset, tiny_takes, tmp_path, change):
    output, takes = tmp_path / "out", shutil.copytree(tiny_takes, tmp_path / "in")
    (takes / "broken.zip").write_bytes(b"PK\3\4" + bytes(40))
    takeset("plan", takes, tmp_path / "gone", "--output", output, "--tasks")
    takeset("convert", output, "--task", 0, "--count", 4)
    path = output / "tasks.json"
    first, rest = path.read_bytes().split(b"\n", 1)
    head = json.loads(first.removesuffix(b',"tasks":[') + b"}")
    assert head["unmatched"]
    record = json.loads(head["unmatched"][0]["record"])
    change(record)
    head["unmatched"][0]["record"] = json.dumps(record)
    path.write_bytes(json.dumps(head, separators=(",", ":")).encode().removesuffix(b"}") + b',"tasks":[\n' + rest)
    done = takeset("publish", output)
    assert done.returncode == 64 and "is damaged" in done.stderr, done


def test_an_input_of_another_size_is_not_read(takeset, tiny_takes, tmp_path):
    """A record of somebody else could name a file without an end."""
    takes, out = shutil.copytree(tiny_takes, tmp_path / "in"), tmp_path / "out"
    takeset.convert(takes, output=out)
    with (takes / "v2/poses.json").open("r+b") as file:
        file.truncate(1 << 42)
    done = subprocess.run([BINARY, "verify", out, "--inputs"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and f"has {1 << 42} bytes, recorded" in done.stdout


@pytest.mark.parametrize("path", ["episodes/v2.h5", "nowhere.h5"])
def test_a_manifest_names_no_other_file_as_the_index(takeset, copy, tmp_path, path):
    """It would be signed in place of the index."""
    rewrite(copy, lambda record: record["index"].update(path=path))
    done = takeset("verify", copy, check=2)
    assert f"names {path} as the index, which is dataset.h5" in done.stdout
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    assert takeset("sign", copy, "--key", key).returncode == 2
    assert not (copy / "attestation.json").exists()


FORGED = "zz\nFORGED: sound\u2028\u202e\x1b[31m"


def places(value, at=()):
    """Where the texts of a record are, each kind of place once."""
    if isinstance(value, str):
        yield at
    for key, item in value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ():
        yield from places(item, (*at, key))


@pytest.mark.slow
def test_no_text_of_a_manifest_forges_a_line(takeset, copy, tmp_path):
    record = manifest(copy)["record"]
    fields = [place for place in places(record) if place[0] not in ("pipeline", "statistics")]
    assert len(fields) > 25

    def forged(place):
        def change(record):
            for key in place[:-1]:
                record = record[key]
            record[place[-1]] = FORGED
        return change

    for number, place in enumerate(fields):
        forgery = shutil.copytree(copy, tmp_path / f"{number}")
        rewrite(forgery, forged(place))
        for command in (
            ["inspect", forgery], ["verify", forgery, "--inputs"], ["trace", forgery, "--episode", "v2", "--row", 0],
            ["select", forgery, "--where", "frames > 0", "--output", tmp_path / "s"], ["report", forgery, "--output", tmp_path / "r.html"],
        ):
            done = takeset(*command)
            shown = done.stdout + done.stderr
            assert shown.strip() and not [line for line in shown.split("\n") if line.startswith("FORGED")], (place, command)
            assert "\u202e" not in shown and "\x1b" not in shown, (place, command)
            shutil.rmtree(tmp_path / "s", ignore_errors=True)
            (tmp_path / "r.html").unlink(missing_ok=True)
        shutil.rmtree(forgery)
