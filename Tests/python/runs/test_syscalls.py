"""Every system call on the inputs fails once: an error is never taken for absence, and the next run is as if it had not happened."""

import errno
import hashlib
import itertools
import json
import os
import re
import shutil
from functools import cache

import pytest
from bundles import bundle
from command import ROOT
from scans import session as scan
from stack_sessions import jpeg, v2, write, zipped
from videos import video_file

KINDS = ["open", "opendir", "readdir", "stat", "fstat", "read", "pread", "realpath"]
ERRORS = [errno.EIO, errno.ENOMEM, errno.EMFILE]
THOROUGH = bool(os.environ.get("TAKESET_SYSCALLS"))  # every call with every error


def small_session():
    session = v2(6)
    session.rgb = {number: jpeg(number, (48, 36)) for number in range(6)}
    session.metadata["rgbResolution"] = [48, 36]
    return session


@cache
def small_bundle():
    return bundle(count=6, keyframes=2, video=video_file(count=6, size=(48, 36)), resolution={"width": 48, "height": 36})


def folder_of_a_session(root):
    write(root / "session", small_session().contents())


def folder_of_a_bundle(root):
    small_bundle().write(root / "upload")


def body_of_an_upload(root):
    (root / "sent.multipart").write_bytes(small_bundle().body())


def archive_and_its_sidecar(root):
    contents = small_session().contents()
    (root / "glove.zip").write_bytes(zipped(contents, "glove"))
    (root / "glove.metadata.json").write_bytes(contents["metadata.json"])


def folder_of_a_scan(root):
    scan(count=6, times="number", size=(48, 36), depth_size=(8, 6)).write(root / "scan")


def lone_video(root):
    (root / "pour.mov").write_bytes(video_file(count=6, size=(48, 36)))


INPUTS = [folder_of_a_session, folder_of_a_bundle, body_of_an_upload, archive_and_its_sidecar, folder_of_a_scan, lone_video]


class Looks:
    """A searched directory with one take and another next to it, and what a run makes of them."""

    def __init__(self, takeset, root, place):
        self.takeset, self.root, self.inputs = takeset, root, root / "inputs"
        self.inputs.mkdir()
        place(self.inputs)
        (self.inputs / "other.mov").write_bytes(video_file(count=3, fps=60, size=(48, 36)))
        takeset.convert(self.inputs, output=root / "clean", arguments=["--isolate", "never"])
        self.expected = self.found(root / "clean")
        assert len(self.expected["shards"]) == 2

    @staticmethod
    def found(output):
        shards = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (output / "episodes").glob("*.h5")}
        path = output / "manifest.json"
        made = json.loads(path.read_text()) if path.exists() else {}
        return {"shards": shards, "record": made.get("record"), "record_sha256": made.get("record_sha256")}

    def count(self, failing_look, kind):
        """How many calls of a kind a run makes."""
        place = self.root / "count"
        environment = {**os.environ, "LD_PRELOAD": str(failing_look), "FAIL_KIND": kind, "FAIL_BELOW": str(self.inputs), "FAIL_COUNT": str(place)}
        output = self.root / "counted"
        self.takeset("run", self.inputs, "--output", output, "--isolate", "never", "--jobs", "1", check=0, env=environment)
        shutil.rmtree(output)
        return int(place.read_text())

    def step(self, failing_look, kind, number, code):
        """The problem after the failure of one call, as a sentence; None without a problem, False if there is no such call."""
        output, log = self.root / "out", self.root / "log"
        shutil.rmtree(output, ignore_errors=True)
        log.unlink(missing_ok=True)
        environment = {
            **os.environ, "LD_PRELOAD": str(failing_look), "FAIL_KIND": kind, "FAIL_AT": str(number), "FAIL_ERRNO": str(code),
            "FAIL_BELOW": str(self.inputs), "FAIL_LOG": str(log),
        }
        done = self.takeset("run", self.inputs, "--output", output, "--isolate", "never", "--jobs", "1", "--progress", "none", env=environment)
        if not log.exists():
            return False
        place = f"{kind} {number} of {log.read_text()[len(str(self.inputs)):] or '/'} with {errno.errorcode[code]}"
        found = self.found(output) if output.exists() else {"shards": {}, "record": None, "record_sha256": None}
        if done.returncode not in (0, 1, 3):
            return f"{place}: exit {done.returncode}: {done.stderr}"
        if done.returncode == 0 and found != self.expected:
            return f"{place}: exit 0, and another dataset: {self.difference(found)}"
        wrong = [name for name, digest in found["shards"].items() if self.expected["shards"].get(name) != digest]
        if wrong:
            return f"{place}: exit {done.returncode}, and episodes that should not be: {wrong}"
        if done.returncode and not done.stderr.strip():
            return f"{place}: exit {done.returncode} without a word"
        if done.returncode == 0 and not THOROUGH:
            return None  # nothing is left to mend
        again = self.takeset("run", self.inputs, "--output", output, "--isolate", "never", "--jobs", "1", "--progress", "none")
        if again.returncode != 0 or self.found(output) != self.expected:
            return f"{place}: the run after it exits with {again.returncode}: {self.difference(self.found(output))} {again.stderr}"
        return None

    def difference(self, found):
        if found["record"] is None:
            return "no manifest"
        entries = {t["id"]: t for t in found["record"]["takes"]}
        expected = {t["id"]: t for t in self.expected["record"]["takes"]}
        changed = [name for name in sorted({*entries, *expected}) if entries.get(name) != expected.get(name)]
        shards = sorted(k for k in {*found["shards"], *self.expected["shards"]} if found["shards"].get(k) != self.expected["shards"].get(k))
        reported = {n: (entries[n]["outcome"], entries[n]["reason"], [f["code"] for f in entries[n]["findings"]]) for n in changed if n in entries}
        return f"takes {changed}, shards {shards}, {reported}"


@pytest.fixture(scope="module")
def looks(takeset, tmp_path_factory):
    made = {}

    def of(place):
        if place not in made:
            made[place] = Looks(takeset, tmp_path_factory.mktemp(place.__name__), place)
        return made[place]

    return of


def sampled(count, kind):
    """All of few calls; of many the first 25, then every ninth, and the last one. Every third of kinds that accompany others."""
    every = range(1, count + 1)
    if THOROUGH:
        return list(every)
    if kind in ("readdir", "fstat"):
        return list(every)[::5]
    return sorted({*every[:16], *every[16::16], *every[-1:]})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", INPUTS)
def test_an_error_is_never_taken_for_absence(takeset, looks, failing_look, place, kind):
    """Either the run reports the failure, or the result is the same as without it."""
    here = looks(place)
    count = here.count(failing_look, kind)
    if kind not in ("pread", "realpath"):
        assert count > 0
    errors = itertools.cycle(ERRORS)
    wrong, tried = [], 0
    for number in sampled(count, kind):
        for code in ERRORS if THOROUGH else [next(errors)]:
            said = here.step(failing_look, kind, number, code)
            tried += said is not False
            if said:
                wrong.append(said)
    assert here.step(failing_look, kind, count + 50, errno.EIO) is False  # there is no such call any more
    assert tried >= len(sampled(count, kind)) - 2  # threads may look once less
    assert not wrong, f"{len(wrong)} of {tried}:\n" + "\n".join(wrong)


def test_only_one_helper_asks_the_system_whether_a_file_exists():
    """Only `Directory.kind` and `InputFile` distinguish absence from an error."""
    sources = ROOT / "Sources"
    targets = ["Steps", "Rasters", "Readers", "Transforms", "Datasets", "Runs", "Exports", "Merging", "Provenance", "Loaders", "Documents", "Reports"]
    allowed = {sources / "Steps/Files/Directory.swift", sources / "Steps/Files/InputFile.swift"}
    # `stat()` without arguments makes an empty structure.
    asking = re.compile(r"\b(?:access|fileExists|isReadableFile|isWritableFile|checkResourceIsReachable|attributesOfItem|faccessat)\s*\(|\b[l]?stat\s*\((?!\s*\))")
    found, seen = [], 0
    for path in sorted(path for target in targets for path in (sources / target).rglob("*.swift")):
        seen += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r"//.*", "", line)
            if path == sources / "Runs/OutputDirectory.swift":
                code = re.sub(r"\baccess\([^()]*, W_OK\)", "", code)  # about the output
            if path not in allowed and asking.search(code):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert seen > 200 and found == []
    # The expression finds what it is to find.
    for line in "if access(path, R_OK) == 0", "stat(path, &status)", "lstat(path, &s)", "FileManager.default.fileExists(atPath: p)":
        assert asking.search(line), line
    assert not asking.search("var status = stat()") and not asking.search("fstat(descriptor, &status)")
