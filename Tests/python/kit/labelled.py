"""Labels of datasets: what is recorded of them, and takes that have some."""

import hashlib
import json

YAML = """
task: put the cup away
success: true
tags: [night, left]
robot_id: 7
mass: 0.25
calibrated: false
place: kitchen äöü
segments:
  - {start: 0, end: 0.1, text: reach}
  - {start: 0.1, end: 99, text: greifen äöü, success: false}
"""


def record(dataset):
    return json.loads((dataset / "manifest.json").read_text())["record"]


def converted(takeset, takes, *options, output):
    takeset.convert(takes, output=output, arguments=options)
    return output


def labels(dataset):
    return {id: {name: one for name, one in own.items() if name != "sources"} for id, own in record(dataset).get("labels", {}).items()}


def found(dataset, code):
    return [finding for finding in record(dataset)["findings"] if finding["code"] == code]


def digests(dataset):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (dataset / "episodes").iterdir()}


def pipeline(path, steps):
    path.write_text("version: 1\ntransforms:\n" + "".join(f"  {step}\n" for step in ["- align: {}", *steps]))
    return path
