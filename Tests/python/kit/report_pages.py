"""Pages of `takeset report`, read by Python's HTML parser, and datasets to make pages of: `dataset` and `page` are fixtures for the tests that import them."""

import base64
import hashlib
import io
import json
import re
import shutil
from html.parser import HTMLParser

import h5py
import numpy as np
import pytest
from bundles import SMALL, Device, bundle
from PIL import Image
from sealing import rewrite, seal

EMPTY = {"meta", "link", "br", "img", "input", "rect", "path"}


class Element:
    def __init__(self, name, attributes, parent):
        self.name, self.attributes, self.parent, self.children = name, attributes, parent, []

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name=None, **attributes):
        """Elements below this one of a name, with these attributes."""
        for child in self.children:
            if isinstance(child, Element):
                if name in (None, child.name) and all(child.attributes.get(k.strip("_")) == v for k, v in attributes.items()):
                    yield child
                yield from child.all(name, **attributes)

    def one(self, name=None, **attributes):
        (found,) = self.all(name, **attributes)
        return found


class Tree(HTMLParser):
    """A tree of the elements; every end tag must belong to the element that is open."""

    def __init__(self, text):
        super().__init__()
        self.root = self.open = Element("", {}, None)
        self.feed(text)
        self.close()
        assert self.open is self.root, f"<{self.open.name}> is not closed"

    def handle_starttag(self, name, attributes):
        names = [key for key, _ in attributes]
        assert len(set(names)) == len(names), f"<{name}> has an attribute twice"
        made = Element(name, dict(attributes), self.open)
        self.open.children.append(made)
        if name not in EMPTY:
            self.open = made

    def handle_startendtag(self, name, attributes):
        self.open.children.append(Element(name, dict(attributes), self.open))

    def handle_endtag(self, name):
        assert name == self.open.name, f"</{name}> ends <{self.open.name}>"
        self.open = self.open.parent

    def handle_data(self, data):
        self.open.children.append(data)


class Page:
    """A page: its elements, and the data in it."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        self.html = self.bytes.decode()
        self.tree = Tree(self.html).root
        self.data = json.loads(self.tree.one("script", id="data").text)
        self.rows = {row["id"]: row for row in self.data["rows"]}
        self.order = [row["id"] for row in self.data["rows"]]

    def details(self, take):
        return json.loads(self.tree.one("script", id=f"take-{self.order.index(take)}").text)

    @property
    def policy(self):
        content = self.tree.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
        return dict((rule.split(" ", 1) + [""])[:2] for rule in content.split("; "))

    def section(self, heading):
        """The section with this heading."""
        return next(s for s in self.tree.all("section") if next(s.all("h2")).text == heading)

    def cells(self, heading):
        """The texts of the rows of a section's table."""
        (body,) = self.section(heading).all("tbody")
        return [[cell.text for cell in row.children if isinstance(cell, Element)] for row in body.all("tr")]


def report(takeset, directory, output, *arguments, check=0):
    """The page of a dataset, and what the command said."""
    done = takeset("report", directory, "--output", output, *arguments, check=check)
    return Page(output), done


def csp_digest(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Images and drawings


def cells(strip):
    """The images of a contact strip, as arrays."""
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(strip["jpeg"]))).convert("RGB")).astype(int)
    assert sheet.shape == (strip["h"], strip["w"] * len(strip["times"]), 3)
    return np.split(sheet, len(strip["times"]), axis=1)


def polylines(path):
    """The points of each part of an SVG path of moves and lines."""
    parts = []
    for command, numbers in re.findall(r"([Mlhvz])([^Mlhvza]*)", path):
        values = [float(n) for n in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", numbers)]
        if command == "M":
            parts.append([values])
        elif command != "z":
            x, y = parts[-1][-1]
            step = {"l": lambda: values, "h": lambda: [values[0], 0], "v": lambda: [0, values[0]]}[command]()
            parts[-1].append([x + step[0], y + step[1]])
    return [np.array(part) for part in parts]


def paths(drawing, style):
    return [part for kind, path in drawing["lines"] if kind == style for part in polylines(path)]


def distance(point, line):
    """From a point to a polyline."""
    best = np.inf
    for a, b in zip(line, line[1:]):
        along = b - a
        t = np.clip(np.dot(point - a, along) / max(np.dot(along, along), 1e-12), 0, 1)
        best = min(best, np.linalg.norm(point - a - t * along))
    return best


# Datasets

HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;"
PIPELINE = """version: 1
transforms:
  - align
  - resize-image: {width: 160, height: 120}
  - resample-depth: {unit: m}
  - min-frames: {count: 20}
  - actions
  - split: {valid: 0.4, group: take}
  - verify-hash-chain
"""


@pytest.fixture(scope="module")
def dataset(takeset, tmp_path_factory, keys):
    """Written takes of each kind, with gaps, dead joints and a partial signature; a rejected and a failed one."""
    root = tmp_path_factory.mktemp("reported")
    small = ["--seconds", 0.6, "--size", "160x120", "--depth-size", "32x24"]
    takeset.simulate(root / "in/v1", *small, "--quirk", "frames-dropped")
    takeset.simulate(root / "in/v2", *small[:4], "--variant", "v2", "--quirk", "joint-dead")
    takeset.simulate(root / "in/slam", *small[:4], "--variant", "v3-slam")
    takeset.simulate(root / "in" / HOSTILE, "--seconds", 0.2, *small[2:])
    partial = bundle(**SMALL, checkpoints=(30,))
    partial.metadata["assertion"] = Device(1).assertion(base64.b64decode(partial.hash_chain["checkpoints"][0]["hash"]))
    partial.write(root / "in/partial")
    signed = bundle(**SMALL)
    signed.metadata["assertion"] = Device(1).assertion(base64.b64decode(signed.hash_chain["final_hash"]))
    signed.write(root / "in/signed")
    bundle(**SMALL).write(root / "in/unsigned")
    failed = bundle(**SMALL)
    failed.metadata = b"{"
    failed.write(root / "in/failed")
    (root / "p.yaml").write_text(PIPELINE)
    takeset.convert(root / "in", output=root / "out", check=3, arguments=["--pipeline", root / "p.yaml", *keys])
    return root / "out"


@pytest.fixture(scope="module")
def page(takeset, dataset):
    return report(takeset, dataset, dataset.parent / "report.html")[0]


def multiplied(source, target, count):
    """A dataset of many takes, which are copies of those of another one under other names."""
    (target / "episodes").mkdir(parents=True)
    for name in "dataset.h5", "journal.jsonl", "manifest.json":
        (target / name).write_bytes((source / name).read_bytes())

    def change(record):
        takes = [t for t in record["takes"] if t["outcome"] == "written"]
        record["takes"] = []
        for number in range(count):
            take = json.loads(json.dumps(takes[number % len(takes)]))
            old, take["id"] = take["output"]["path"], f"take-{number:05d}"
            take["output"]["path"] = f"episodes/{take['id']}.h5"
            shutil.copyfile(source / old, target / take["output"]["path"])
            with h5py.File(target / take["output"]["path"], "r+") as shard:
                shard["data/demo_0"].attrs["take_id"] = take["id"]
            record["takes"].append(take)
        ids = [t["id"] for t in record["takes"]]
        record["splits"].update(train=ids[: count // 2], valid=ids[count // 2 :], test=[])
        record["totals"].update(takes=count, written=count, rejected=0, failed=0)

    rewrite(target, change)
    seal(target)
    return target
