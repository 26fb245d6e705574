"""The Python package: whatever the files of a dataset hold, they are read or refused with `TakesetError`, within seconds.

Files are changed at random, from a seed; the text of a failure names the change. TAKESET_PACKAGE_SEED shifts the seeds, and
TAKESET_PACKAGE_CHANGES is the number of changes of each kind.
"""

import json
import os
import random
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command import ROOT
from package_datasets import small

SEED, CHANGES = int(os.environ.get("TAKESET_PACKAGE_SEED", 0)), int(os.environ.get("TAKESET_PACKAGE_CHANGES", 16))
SECONDS = 20
DEEP = "[" * 200_000
NUMBERS = -1, 0, 3, 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 0.5, float("nan"), 1e300


@pytest.fixture(scope="module")
def given(takeset, tmp_path_factory):
    """Datasets of two takes of twelve rows, with images as pixels and as files."""
    root = tmp_path_factory.mktemp("damage")
    return {image: small(takeset, root, image) for image in ("raw", "png")}


# Changes: each is given a dataset and a lottery, and returns its name


def some_file(ds, lottery):
    return lottery.choice([*sorted((ds / "episodes").glob("*.h5")), ds / "dataset.h5"])


def objects(file):
    """Every group and dataset of a file, but not what links to other files."""
    found = ["/"]
    file.visit(lambda name: found.append("/" + name))
    return found


def change_object(ds, lottery):
    path = some_file(ds, lottery)
    with h5py.File(path, "r+") as file:
        name = lottery.choice(objects(file)[1:])
        change = lottery.choice(sorted(OBJECTS))
        attributes = {key: value for key, value in file[name].attrs.items()}
        old = file[name][()] if isinstance(file[name], h5py.Dataset) and file[name].dtype.kind != "O" else np.zeros(12, np.float32)
        del file[name]
        try:
            OBJECTS[change](file, name, old, lottery)
        except (TypeError, ValueError, OSError) as error:
            change = f"removed, as {change} failed ({error})"
        if isinstance(file.get(name, getlink=True) if name in file else None, h5py.HardLink) and lottery.random() < 0.8:
            for key, value in attributes.items():
                file[name].attrs[key] = value
    return f"{path.name}:{name} {change}"


def claims(file, name, shape, **options):
    file.create_dataset(name, shape, np.float32, **options)


def garbage(file, name, old, lottery):
    noise = np.frombuffer(lottery.randbytes(max(old.nbytes, 8)), np.uint8)[: old.nbytes]
    file.create_dataset(name, data=noise.view(old.dtype).reshape(old.shape), chunks=None)


OBJECTS = {
    "removed": lambda file, name, old, lottery: None,
    "a group": lambda file, name, old, lottery: file.create_group(name),
    "its own parent": lambda file, name, old, lottery: file[name.rpartition("/")[0] or "/"].__setitem__(name.rpartition("/")[2], file["/"]),
    "one number": lambda file, name, old, lottery: file.__setitem__(name, lottery.choice([-1, 2**62, 0.5])),
    "a text": lambda file, name, old, lottery: file.__setitem__(name, "text"),
    "texts": lambda file, name, old, lottery: file.__setitem__(name, ["a", "b"] * 6),
    "nothing": lambda file, name, old, lottery: file.__setitem__(name, h5py.Empty("f4")),
    "no rows": lambda file, name, old, lottery: file.__setitem__(name, old[:0] if old.ndim else old),
    "half of the rows": lambda file, name, old, lottery: file.__setitem__(name, old[: len(old) // 2] if old.ndim else old),
    "more axes": lambda file, name, old, lottery: file.__setitem__(name, old[..., None]),
    "one axis": lambda file, name, old, lottery: file.__setitem__(name, old.ravel()),
    "doubles": lambda file, name, old, lottery: file.__setitem__(name, old.astype(np.float64) * np.nan),
    "complex numbers": lambda file, name, old, lottery: file.__setitem__(name, old.astype(complex)),
    "pairs": lambda file, name, old, lottery: file.__setitem__(name, np.zeros(12, [("a", "f4"), ("b", "i8")])),
    "big endian": lambda file, name, old, lottery: file.__setitem__(name, old.astype(old.dtype.newbyteorder(">"))),
    "great whole numbers": lambda file, name, old, lottery: file.__setitem__(name, np.full(old.shape, 2**63 - 1)),
    "references": lambda file, name, old, lottery: file.__setitem__(name, np.array([file["/"].ref] * 12, h5py.ref_dtype)),
    "bytes of any length": lambda file, name, old, lottery: file.create_dataset(name, (12,), h5py.vlen_dtype(np.uint8)),
    "garbage": garbage,
    "2**40 rows": lambda file, name, old, lottery: claims(file, name, (2**40, *old.shape[1:]), chunks=(1, *old.shape[1:])),
    "2**30 rows, deflated": lambda file, name, old, lottery: claims(file, name, (2**30, *old.shape[1:]), chunks=(1, *old.shape[1:]), compression=1),
    "wide rows": lambda file, name, old, lottery: claims(file, name, (12, 2**16, 2**13), chunks=(1, 2**16, 2**13), compression=9),
    "2**31 rows in one piece": lambda file, name, old, lottery: claims(file, name, (2**31,)),
    "a soft link": lambda file, name, old, lottery: file.__setitem__(name, h5py.SoftLink("/data")),
    "a link to nothing": lambda file, name, old, lottery: file.__setitem__(name, h5py.ExternalLink("nowhere.h5", "/x")),
}


def change_attribute(ds, lottery):
    path = some_file(ds, lottery)
    with h5py.File(path, "r+") as file:
        name = lottery.choice([one for one in objects(file) if len(file[one].attrs)])
        key = lottery.choice(sorted(file[name].attrs))
        change = lottery.choice(sorted(ATTRIBUTES))
        del file[name].attrs[key]
        if change != "removed":
            value = ATTRIBUTES[change](file)
            file[name].attrs.create(key, value, **({"dtype": value.dtype} if isinstance(value, (np.ndarray, np.void)) else {}))
    return f"{path.name}:{name} @{key} {change}"


ATTRIBUTES = {
    "removed": None,
    **{f"{value}": lambda file, value=value: value for value in NUMBERS},
    "a text": lambda file: "text",
    "a long text": lambda file: "a:1 " * 10_000,
    "parts": lambda file: "a:999999999 b:9",
    "a part": lambda file: "a:x :: b",
    "bytes": lambda file: np.bytes_(b"jpeg"),
    "no UTF-8": lambda file: np.bytes_(b"\xff\xfe\x80"),
    "nothing": lambda file: h5py.Empty("S1"),
    "truth": lambda file: np.bool_(True),
    "numbers": lambda file: np.arange(5000),
    "texts": lambda file: np.array(["a", "b"], h5py.string_dtype()),
    "a pair": lambda file: np.zeros((), [("a", "f4"), ("b", "i8")])[()],
    "a reference": lambda file: np.array(file["/"].ref, h5py.ref_dtype),
    "deep JSON": lambda file: DEEP[:60_000],
    "other JSON": lambda file: '{"camera_image": {"intrinsics": [[1, "x"], {}]}, "camera_depth": 5}',
    "great JSON": lambda file: '{"camera_image": {"intrinsics": [[1e999, 1, ' + "9" * 400 + "]]}}",
}


def change_manifest(ds, lottery):
    path = ds / "manifest.json"
    content = json.loads(path.read_text())
    # Members of the record that nobody reads would be most of it.
    place, where = content, []
    while isinstance(place, (dict, list)) and place and (len(where) < 2 or lottery.random() < 0.75):
        read = [key for key in ("record", "takes", "splits", "index", "findings", "output", "record_sha256") if key in place] if isinstance(place, dict) else []
        own = list(place) if isinstance(place, dict) else range(len(place))
        where.append(lottery.choice(read if read and lottery.random() < 0.7 else list(own)))
        parent, place = place, place[where[-1]]
    value = lottery.choice([None, [], {}, "", "text", "../../x", "\0", "\ud800", True, [[]], [{}], {"path": "../x"}, "REMOVED", *NUMBERS])
    if value == "REMOVED":
        del parent[where[-1]]
    else:
        parent[where[-1]] = value
    path.write_text(json.dumps(content))
    return f"manifest.json {where} is {value!r}"


def change_text(ds, lottery):
    """The manifest as a text that is hardly JSON."""
    path, name = ds / "manifest.json", lottery.choice(sorted(TEXTS))
    path.write_bytes(TEXTS[name](path.read_bytes(), lottery))
    return f"manifest.json {name}"


TEXTS = {
    "is nested deep": lambda old, lottery: DEEP.encode(),
    "has a deep record": lambda old, lottery: b'{"record": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    "has deep findings": lambda old, lottery: old.replace(b'"findings":[', b'"findings":[' + b"[" * 5000 + b"]" * 5000 + b",", 1),
    "has a great number": lambda old, lottery: old.replace(b'"takes":', b'"n": ' + b"9" * 5000 + b', "takes":', 1),
    "is cut short": lambda old, lottery: old[: lottery.randrange(len(old))],
    "is empty": lambda old, lottery: b"",
    "is a number": lambda old, lottery: b"1e999",
    "is no UTF-8": lambda old, lottery: b"\xff" + old,
    "is UTF-16": lambda old, lottery: old.decode().encode("utf-16"),
    "has a byte order mark": lambda old, lottery: b"\xef\xbb\xbf" + old,
    "is only zeros": lambda old, lottery: b"\0" * len(old),
    "has its record twice": lambda old, lottery: old.rstrip()[:-1] + b', "record": 5}',
}


def change_bytes(ds, lottery):
    """Bits of a file, most of them where HDF5's own structures are, or its end."""
    path = some_file(ds, lottery)
    content = bytearray(path.read_bytes())
    if lottery.random() < 0.2:
        cut = lottery.randrange(len(content))
        path.write_bytes(content[:cut])
        return f"{path.name} cut at {cut}"
    places = [at for at in range(len(content) - 4) if content[at : at + 4] in (b"OHDR", b"TREE", b"GCOL", b"HEAP", b"SNOD", b"FRHP", b"OCHK")]
    flips = []
    for _ in range(lottery.choice([1, 1, 2, 16])):
        at = lottery.choice(places) + lottery.randrange(200) if places and lottery.random() < 0.8 else lottery.randrange(len(content))
        bit = lottery.randrange(8)
        content[at % len(content)] ^= 1 << bit
        flips.append((at % len(content), bit))
    path.write_bytes(content)
    return f"{path.name} flipped at {flips}"


KINDS = {"objects": change_object, "attributes": change_attribute, "manifest": change_manifest, "texts": change_text, "bytes": change_bytes}


def read(paths, seconds=SECONDS):
    """What `package_reading.py` prints of these datasets; of one that ends it, {"path", "ended"}."""
    found, rest = [], list(map(str, paths))
    while rest:
        command = [sys.executable, ROOT / "Tests/python/kit/package_reading.py", *rest]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds * len(rest) + 240, stdin=subprocess.DEVNULL)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found += [line for line in lines if "wrong" in line]
        if done.returncode == 0:
            break
        at = lines[-1]["path"] if lines else rest[0]
        found.append({"path": at, "ended": done.returncode, "stderr": done.stderr[-500:]})
        rest = rest[rest.index(at) + 1 :]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_whatever_a_file_holds_is_read_or_refused(given, kind, tmp_path):
    changes = {}
    for number in range(CHANGES):
        lottery = random.Random(f"{kind} {SEED} {number}")
        ds = shutil.copytree(given[lottery.choice(["raw", "raw", "png"])], tmp_path / f"{number}")
        changes[str(ds)] = KINDS[kind](ds, lottery)
    wrong = []
    for found in read(changes):
        change = changes[found["path"]]
        if "ended" in found:
            wrong.append(f"{change}: the process ended with {found['ended']}: {found['stderr']}")
        else:
            wrong += [f"{change}: {error}" for error in found["wrong"]]
            wrong += [f"{change}: {found['seconds']:.1f} s"] if found["seconds"] > SECONDS else []
    assert wrong == [], "\n".join(wrong)


def test_what_is_whole_is_read_without_a_mistake(given):
    """Or the other tests say nothing: of whole datasets, only what they do not have is refused."""
    for found in read(given.values()):
        assert found["wrong"] == []
        assert all(" has no stream " in said or "no episode demo_" in said or "has no " in said for said in found["said"]), found["said"]
