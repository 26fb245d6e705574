"""Sessions with every quirk that the recorder's are known to have, all converted in one run.

The test files test_quirks_*.py are numbered by the rows of Tests/python/readers/quirks.md. Each take is a function that builds
it, registered with the findings it must be converted with.
"""

import dataclasses
import functools
import importlib
import json
from pathlib import Path

import yaml
from conversions import PLAIN, plain
from outputs import demos, manifest, warnings
from stack_sessions import Session, packed, still, synthetic, tarred, v1, v2, v3_scaled, v3_slam, write, zipped


@dataclasses.dataclass
class Quirk:
    row: int
    name: str
    build: object
    codes: set
    outcome: str


QUIRKS = {}
SLAM = ("scale-arbitrary",)
ASSUMED = (*SLAM, "times-assumed")


def quirk(row, *codes, outcome="written", of=None):
    """Registers a take with all that is to be warned of in it, or, if it is to fail, with the error.

    The function gives a session, or several files or sessions by the ending of their names; or it changes a session `of` a kind."""

    def register(change):
        @functools.wraps(change)
        def build():
            if of is None:
                return change()
            session = of()
            change(session)
            return session

        QUIRKS[build] = Quirk(row, f"q{row:02}-{build.__name__.replace('_', '-')}", build, set(codes), outcome)
        return build

    return register


def place(root, name, build):
    """Writes a take below a directory; the paths made."""
    found = build()
    paths = []
    for ending, part in (found if isinstance(found, dict) else {"": found}).items():
        path = root / (name + ending)
        paths.append(path)
        if isinstance(part, Session) and ending not in (".zip", ".tar"):
            write(path, part.contents())
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            make = {".zip": zipped, ".tar": tarred}.get(ending)
            path.write_bytes(make(part.contents(), name) if make else part)
    return paths


CLEAN = {"clean-v1": v1, "clean-v2": v2, "clean-v3-slam": v3_slam, "clean-still": still}


def modules():
    """The test files of the quirks; loading them registers their takes."""
    return [importlib.import_module(path.stem) for path in sorted((Path(__file__).parents[1] / "readers").glob("test_quirks_*.py"))]


class Batch:
    """One run over every take that is registered, and over clean ones."""

    def __init__(self, takeset, root):
        modules()
        self.root = root
        for name, build in CLEAN.items():
            place(root / "in", name, build)
        self.paths = {one.name: place(root / "in", one.name, one.build) for one in QUIRKS.values()}
        self.done = takeset.convert(root / "in", output=root / "out", arguments=PLAIN, check=None)
        self.entries = {entry["id"]: entry for entry in manifest(root / "out")["record"]["takes"]}
        self.demos = demos(root / "out")
        inspected = takeset("inspect", root / "in", "--json", *PLAIN)
        self.inspected = {entry["id"]: entry for entry in json.loads(inspected.stdout)["takes"]}

    def __call__(self, build):
        """The entry, demo and meta of a take, after what was found in it has been compared with what should be."""
        one = QUIRKS[build]
        entry = self.entries[one.name]
        assert entry["outcome"] == one.outcome, (entry["outcome"], entry["reason"])
        if one.outcome == "failed":
            assert [f["code"] for f in entry["findings"] if f["severity"] == "error"] == list(one.codes)
            assert entry["reason"]
        else:
            assert warnings(entry) == one.codes, entry["findings"]
        return entry, *self.demos.get(one.name, (None, None))


def pipeline(directory, *transforms, **reader):
    path = directory / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "reader": {"name": "stack-session"} | reader, "transforms": ["align", *transforms]}))
    return ["--pipeline", path]


def alone(takeset, batch, build, output, arguments=(), check=0):
    """The entry, demo and meta of one take of the batch, converted again with another pipeline."""
    name = QUIRKS[build].name
    takeset.convert(batch.root / "in" / name, output=output, arguments=plain(arguments), check=check)
    (entry,) = manifest(output)["record"]["takes"]
    return entry, *demos(output).get(name, (None, None))


# Takes that the tests of several rows use


@quirk(1)
def arkit_with_depth_maps():
    return v1()


@quirk(2, of=v2)
def arkit_with_depth_values(session):
    for entry in session.poses[10:24]:
        del entry["depth"]


@quirk(5, "scale-claimed")
def slam_with_a_scale():
    return v3_scaled()


@quirk(7, *ASSUMED, "packed-without")
def packed_folder():
    return packed()


@quirk(8, "clock-unaligned")
def synthetic_session():
    return synthetic()


@quirk(45, "intrinsics-differ", *SLAM, of=v3_slam)
def two_cameras(session):
    session.calib = "350.5 351 241 179"
    session.metadata["cameraIntrinsics"] = {"fx": 72, "fy": 72, "cx": 48, "cy": 36}
