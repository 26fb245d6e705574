"""Captures put straight into a server's data folder, in the order in which the server accepts them, and simulated ones."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import time
import uuid
from contextlib import closing
from pathlib import Path

from conftest import TAKESET


BUNDLES = {}


def takeset(*arguments):
    return subprocess.run([str(TAKESET), *map(str, arguments)], capture_output=True, text=True, timeout=300)


def simulate(kind, output, *options):
    made = takeset("simulate", kind, "--output", output, *options)
    assert made.returncode == 0, made.stderr
    return Path(output)


def bundle(output, *options, seconds=1):
    """The parts of a bundle, by the names that the server stores them under. The same options give the same folder."""
    made = (seconds, *map(str, options))
    folder = BUNDLES.get(made)
    if not folder or not folder.exists():
        folder = BUNDLES[made] = simulate("realitycam-bundle", output, "--seconds", seconds, "--size", "320x240", *options)
    return {name: folder / name for name in ("video.mp4", "depth.gz", "hash_chain.json", "metadata.json") if (folder / name).exists()}


def files_below(folder, prefix=""):
    return {prefix + str(path.relative_to(folder)): path for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def connect(data):
    database = sqlite3.connect(Path(data) / "server.sqlite", timeout=300, isolation_level=None)
    database.execute("PRAGMA foreign_keys = ON")
    database.row_factory = sqlite3.Row
    return closing(database)


def queue(data, kind, files, project="default", device=None, status="processing", stranger=False, at=None):
    """Adds a capture as the server would: its files, then its rows in one transaction. Its id."""
    data, capture = Path(data), str(uuid.uuid4())
    staged = data / "staging" / capture
    rows = []
    for name, source in files.items():
        target = staged / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source) if isinstance(source, bytes) else shutil.copyfile(source, target)
        rows.append((capture, name, target.stat().st_size, hashlib.sha256(target.read_bytes()).hexdigest()))
    staged.mkdir(parents=True, exist_ok=True)
    os.rename(staged, data / "captures" / capture)
    with connect(data) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            "INSERT INTO capture (id, type, status, project, device, name, receivedAt, bytes, signature, isVerified, isStranger)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'none', 0, ?)",
            (capture, kind, status, project, device, "capture", at or int(time.time() * 1000), sum(row[2] for row in rows), stranger))
        database.executemany("INSERT INTO file (capture, name, bytes, sha256) VALUES (?, ?, ?, ?)", rows)
        if status == "processing":
            database.execute("INSERT INTO conversion (capture, state, attempts, notBefore) VALUES (?, 'waiting', 0, 0)", (capture,))
        database.execute("COMMIT")
    return capture


def row(data, capture):
    with connect(data) as database:
        return dict(database.execute(
            "SELECT capture.*, conversion.state, attempts, lastError, notBefore, expiresAt, lapses FROM capture"
            " JOIN conversion ON conversion.capture = capture.id WHERE id = ?", (capture,)).fetchone())


def delete(data, capture):
    """What DELETE of a capture does."""
    with connect(data) as database:
        database.execute("DELETE FROM capture WHERE id = ?", (capture,))
    shutil.rmtree(Path(data) / "captures" / capture, ignore_errors=True)


def finished(server, *captures, seconds=300):
    """The rows of captures once all are converted."""
    server.until(lambda: all(row(server.data, capture)["status"] != "processing" for capture in captures), seconds)
    rows = [row(server.data, capture) for capture in captures]
    return rows[0] if len(rows) == 1 else rows


def evidence(found):
    return json.loads(found["evidence"])


def manifest(dataset):
    return json.loads((Path(dataset) / "manifest.json").read_text())


def episodes(server, project="default"):
    """Ids of the episodes of a project's dataset; none without one."""
    try:
        return sorted(take["id"] for take in manifest(server.data / "datasets" / project)["record"]["takes"])
    except FileNotFoundError:
        return []


def merged(server, *expected, project="default", seconds=300):
    """Waits until a dataset has exactly these episodes, and checks it with the converter. Its folder."""
    server.until(lambda: episodes(server, project) == sorted(expected), seconds)
    dataset = server.data / "datasets" / project
    checked = takeset("verify", dataset)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return dataset


def merged_bundles(server, *seeds, beside=(), project="default"):
    """Queues a bundle for each seed, and waits until a dataset has them beside other episodes. Their ids."""
    captures = [queue(server.data, "video", bundle(server.data.parent / f"bundle{seed}", "--seed", seed), project) for seed in seeds]
    finished(server, *captures)
    merged(server, *beside, *captures, project=project)
    return captures


def script(path, text):
    """An executable script in place of the converter."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def running(marker):
    """Processes whose command line has a text in it, this one and its parents apart."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "cmdline").read_text().replace("\0", " ") and int(process.name) != os.getpid():
                found.append(int(process.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return found


def fake(tmp_path, name, run):
    """A converter that does something else on `run`, and is the real one for all other commands."""
    return script(tmp_path / name, f"#!/bin/sh\n[ \"$1\" = run ] || exec '{TAKESET}' \"$@\"\n{run}\n")


def real(tmp_path, name, before):
    """The real converter, after some shell commands."""
    return fake(tmp_path, name, f"{before}\nexec '{TAKESET}' \"$@\"")
