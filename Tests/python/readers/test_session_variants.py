"""Simulated sessions: segments between gaps, and joints as the recorder's own loader has them."""

import json

import numpy as np
from conversions import pipeline
from outputs import demos
from session_checks import poses
from stack_sessions import CHANNELS


def test_segments_between_gaps_are_numbered(takeset, tmp_path):
    session = takeset.simulate(tmp_path / "in/s", "--seconds", 0.5, "--size", "160x120")
    (session / "poses.json").write_text(json.dumps([e for e in poses(session) if e["rgbIndex"] not in (5, 6, 20)]))
    takeset.convert(session, output=tmp_path / "out", arguments=pipeline(tmp_path, split_at_gaps={"min-frames": 6}))
    _, meta = demos(tmp_path / "out")["s"]
    assert meta["source_index"][:].tolist() == [*range(7, 20), *range(21, 30)]
    assert meta["segment"][:].tolist() == [0] * 13 + [1] * 9
    takeset.convert(session, output=tmp_path / "one", arguments=pipeline(tmp_path, split_at_gaps={"keep": "longest"}))
    assert demos(tmp_path / "one")["s"][1]["source_index"][:].tolist() == list(range(7, 20))


def test_reference_compatible_joints_are_those_of_the_recorders_loader(takeset, tmp_path):
    session = takeset.simulate(tmp_path / "in/s", "--variant", "v2", "--seconds", 3, "--size", "160x120")
    found = json.loads((session / "encoders.json").read_text())
    del found[40:60]
    (session / "encoders.json").write_text(json.dumps(found))
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align: {reference-compatible: true}]\n")
    takeset.convert(session, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"])
    frames = np.array([e["timestamp"] for e in poses(session)])
    times = np.array([r["timestamp"] for r in found])
    frames, times = frames - frames[0], times - times[0]
    values = np.array([[r[c] for c in CHANNELS] for r in found])
    nearest = np.abs(times[None] - frames[:, None]).argmin(1)
    close = np.abs(times[nearest] - frames) < 0.05
    expected = np.unwrap(np.where(close[:, None], values[nearest], 0), axis=0, period=360)
    assert not close.all()
    joints = demos(tmp_path / "out")["s"][0]["obs/joints"][:]
    assert np.abs(joints - expected).max() < 1e-3
