"""The output of a run: the manifest, the episodes, and the digests of both."""

import hashlib
import json
from decimal import Decimal
from pathlib import Path

import h5py


def manifest(directory):
    return json.loads((Path(directory) / "manifest.json").read_text())


def take(directory, take_id):
    return next(t for t in manifest(directory)["record"]["takes"] if t["id"] == take_id)


def demos(directory):
    """Open dataset.h5 and give its demos by take id."""
    file = h5py.File(Path(directory) / "dataset.h5")
    return {demo.attrs["take_id"]: (demo, file["meta"][name]) for name, demo in file["data"].items()}


def record(output):
    """The entry of the only take."""
    (found,) = manifest(output)["record"]["takes"]
    return found


def only(output):
    """The entry, demo and meta of a dataset of one take."""
    ((demo, meta),) = demos(output).values()
    return record(output), demo, meta


def codes(entry, *severities):
    """The codes of its findings, of some severities or all; not those that repeat the state of the assertion."""
    found = [f["code"] for f in entry["findings"] if not severities or f["severity"] in severities]
    return [code for code in found if not code.startswith("assertion-")]


def finding(entry, code):
    (found,) = [f for f in entry["findings"] if f["code"] == code]
    return found


def warnings(entry):
    return {f["code"] for f in entry["findings"] if f["severity"] == "warning"}


def dropped(entry):
    return {d["reason"]: d["count"] for step in entry["steps"] for d in step["dropped"]}


def bits(meta):
    names = meta["quality"].attrs["bits"].split()
    return {name: (meta["quality"][:] >> bit & 1).nonzero()[0].tolist() for bit, name in enumerate(names)}


def traces(directory, *words):
    """Those of the words that occur anywhere in an output directory."""
    contents = [p.read_bytes() for p in directory.rglob("*") if p.is_file()]
    return [word for word in words if any(word.encode() in data for data in contents)]


def input_digest(files):
    """input_sha256 of files given by name."""
    lines = sorted(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode() for name, data in files.items())
    return hashlib.sha256(b"".join(lines)).hexdigest()


def record_text(text):
    """The part of a manifest that is the record."""
    return text[text.index('"record":') + 9 : text.index(',\n"record_sha256"')]


# Digests


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def canonical(value):
    """JSON as RFC 8785 has it."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        # ECMAScript writes out what is from 1e-6 to 1e21; exponents have no leading zeros.
        digits, _, exponent = repr(value).partition("e")
        if exponent and not -7 < int(exponent) < 21:
            return f"{digits}e{int(exponent):+d}"
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return json.dumps(value, ensure_ascii=False)


ROWS = {"camera_image", "camera_depth", "camera_depth_valid", "camera_depth_confidence"}  # what has a row in each chunk


def arrays(demo, meta):
    """Every dataset of an episode by its path in the shard, but for the digests of rows."""
    found = {}
    for root, group in ("/data/demo_0", demo), ("/meta/demo_0", meta):
        group.visititems(lambda name, item: found.update({f"{root}/{name}": item}) if isinstance(item, h5py.Dataset) else None)
    return {path: data for path, data in found.items() if not path.startswith("/meta/demo_0/row_sha256/")}


def digest(data):
    """What the digest of a dataset must be: of its bytes or, with a row in each chunk, of the digests of its rows; and these."""
    if data.name.rpartition("/")[2] not in ROWS:
        return "bytes", hashlib.sha256(data[:].tobytes()).hexdigest(), None
    rows = b"".join(hashlib.sha256(row.tobytes()).digest() for row in data[:])
    return "rows", hashlib.sha256(rows).hexdigest(), rows


def check_digests(demo, meta):
    """Every dataset has the digests of its content. How many there are."""
    found, with_rows = arrays(demo, meta), set()
    for path, data in found.items():
        kind, whole, rows = digest(data)
        assert (data.attrs["sha256_of"], data.attrs["sha256"]) == (kind, whole), path
        if rows is not None:
            name = path.rpartition("/")[2]
            stored = meta["row_sha256"][name]
            assert (stored.dtype.str, stored.shape, dict(stored.attrs)) == ("|u1", (len(data), 32), {"unit": "sha256"}), path
            assert stored[:].tobytes() == rows, path
            with_rows.add(name)
    assert with_rows == set(meta.get("row_sha256", ()))
    return len(found)
