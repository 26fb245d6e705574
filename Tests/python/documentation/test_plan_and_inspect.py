"""plan, inspect and steps: what they report is what a run does, and the pipeline schema is what the command accepts."""

import json
import re
import shutil

import numpy as np
import pytest
from command import ROOT
from outputs import manifest
from PIL import Image
from schemas import SCHEMAS, STATISTICS, layout, validator
from session_faults import pipeline
from stack_sessions import DEPTH_SIZE


def test_the_pipeline_schema_is_the_registry(takeset):
    steps = json.loads(takeset("steps", "--json", check=0).stdout)
    schema = SCHEMAS["pipeline.schema.json"]
    assert json.loads(takeset("steps", "--schema", check=0).stdout) == schema
    assert {(s["kind"], s["name"]) for s in steps} == {(kind, name) for kind, names in ((kind[:-1], names) for kind, names in schema["$defs"].items() if kind != "options") for name in names}
    for step in steps:
        options = dict(schema["$defs"][step["kind"] + "s"][step["name"]]["properties"])
        options.pop("name", None)
        options = {name: schema["$defs"]["options"][name] if "$ref" in option else option for name, option in options.items()}
        assert {o["name"]: o["schema"] for o in step["options"]} == options, step["name"]
        assert all(o["help"] for o in step["options"])
    items = schema["properties"]["transforms"]["items"]["oneOf"]
    transforms = [s["name"] for s in steps if s["kind"] == "transform"]
    assert items[0]["enum"] == transforms == list(items[1]["properties"])


def test_the_pipeline_schema_accepts_what_takeset_accepts(takeset, tmp_path):
    import yaml

    for path in ROOT.glob("examples/**/*.yaml"):
        text = yaml.safe_load(path.read_text())
        pipeline = {"version": 1, "reader": {"name": "folder", "description": text}} if path.parent.name == "folders" else text
        validator("pipeline.schema.json").validate(pipeline)
    for text, is_good in [
        ("version: 1", True), ("version: 1\ntransforms: [align, split: {seed: 3}]", True), ("version: 1\nreader: {name: stack-session}", True),
        ("version: 1\nwriter: {hdf5: {compression: fast}}", True), ("version: 2", False), ("version: 1\ntransforms: [align: {tol: 1}]", False),
        ("version: 1\ntransforms: [{align: {}, split: {}}]", False), ("version: 1\nwriter: {hdf5: {compression: 10}}", False),
        ("version: 1\ntransforms: [decimate: {rate: 0}]", False), ("version: 1\nextra: 1", False),
    ]:
        (tmp_path / "p.yaml").write_text(text)
        (tmp_path / "empty").mkdir(exist_ok=True)
        accepted = takeset("plan", tmp_path / "empty", "--pipeline", tmp_path / "p.yaml").returncode != 64
        assert accepted == is_good == validator("pipeline.schema.json").is_valid(yaml.safe_load(text)), text


# Every step that changes what is written, with options of which each shows in the layout.
CHANGING = [
    "actions: {kind: delta-pose, joints: absolute, horizon: 3}", "crop: {aspect: 1}", "decimate: {every: 3}", "drop-frames: {with: [joints-missing]}",
    "pose-frame: {axes: ros, origin: first-frame}", "rename: {streams: {pose: phone}}", "resample: {rate: 20}", "resample-depth: {width: 8, height: 6, method: area, unit: mm}",
    "resize-image: {width: 20, height: 20, mode: letterbox}", "rotate: {degrees: 90}", "select: {streams: [pose, camera_image]}", "split-episodes: {at: 0.1}",
    "trim: {start: 0.04, end-frames: 2}",
]


@pytest.mark.parametrize("step", ["default", *CHANGING], ids=lambda step: step.split(":")[0])
def test_a_plan_foresees_what_a_run_writes(tiny_takes, takeset, tmp_path, step):
    arguments = [] if step == "default" else pipeline(tmp_path, f"transforms: [align, {{{step}}}]\n")
    plan = json.loads(takeset("plan", tiny_takes, "--json", *arguments, check=0).stdout)
    takeset.convert(tiny_takes, output=tmp_path / "out", arguments=arguments)
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    found = manifest(tmp_path / "out")
    if step != "default":
        assert list(found["record"]["pipeline"]["transforms"][-1]) == [step.split(":")[0]]
    written = {entry["id"]: entry["output"] for entry in found["record"]["takes"]}
    planned = {one["id"]: one for one in plan["takes"]}
    assert planned.keys() == written.keys() and len(written) >= 4
    for name, output in written.items():
        assert planned[name]["frames"] == output["samples"] > 0 and layout(planned[name]) == layout(output, without=STATISTICS), name
        assert STATISTICS in [d["path"] for d in output["datasets"]]
    total = sum(output["samples"] for output in written.values())
    assert f"{len(written)} takes, {total} frames" in takeset("plan", tiny_takes, *arguments, check=0).stdout


def test_a_plan_prints_a_layout_once(takeset, tmp_path):
    tiny = "--size", "64x48", "--depth-size", "16x12"
    for name, seconds, variant in ("a", 0.4, "v1"), ("b", 0.5, "v1"), ("c", 0.4, "v2"), ("d", 6, "v1"):
        takeset.simulate(tmp_path / "in" / name, "--variant", variant, "--seconds", seconds, *tiny)
    lines = takeset("plan", tmp_path / "in", check=0).stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head[:2] for head in heads[:-1]] == ["a:", "b:", "c:", "d:"] and heads[-1].startswith("4 takes, ")
    assert heads[0].startswith("a: 24 frames, ") and heads[0].endswith(" before compression") and heads[2].endswith(" before compression")
    assert [head.partition(", laid out as ")[2] for head in heads[:-1]] == ["", "a", "", "a"]
    shown = [line.split()[0] for line in lines if line.startswith(" ")]
    (own,) = [one for one in json.loads(takeset("plan", tmp_path / "in/a", "--json", check=0).stdout)["takes"]]
    (other,) = [one for one in json.loads(takeset("plan", tmp_path / "in/c", "--json", check=0).stdout)["takes"]]
    assert shown == [array["path"] for one in (own, other) for array in one["datasets"]]


STEPS = [
    "[align, decimate: {every: 2}, resize-image: {width: 160, height: 120}]",
    "[align, drop-frames: {with: [joints-missing, depth-missing]}, decimate: {rate: 30}]",
    "[align, drop-frames: {with: [pose-jump, pose-repeated, pose-interpolated, depth-missing, joints-missing]}, decimate: {every: 99}]",
    "[align, verify-hash-chain: {require: assertion}, resize-image: {width: 64, height: 64, mode: stretch}]",
]


def test_inspect_goes_through_all_steps_of_a_pipeline(takes, takeset, tmp_path):
    copy = shutil.copytree(takes, tmp_path / "takes")
    names = sorted(p.name for p in copy.iterdir())
    (copy / names[0] / "rgb/000010.jpg").unlink()
    text = takeset("inspect", copy / names[0], check=0).stdout
    assert "  detected from depth maps\n" in text
    assert re.search(r"frames +29 of 30, 1 dropped \(image-missing\); 60\.\d\d Hz, 0\.48 s, 1 gap$", text, re.M)
    for number, steps in enumerate(STEPS):
        arguments = pipeline(tmp_path, f"transforms: {steps}\n")
        inspected = takeset("inspect", copy, "--json", *arguments)
        done = takeset("run", copy, "--output", tmp_path / f"out{number}", *arguments)
        assert inspected.returncode == done.returncode
        reported = {t["id"]: (t["would_be"], [f["code"] for f in t["findings"]]) for t in json.loads(inspected.stdout)["takes"]}
        record = manifest(tmp_path / f"out{number}")["record"]
        assert reported == {t["id"]: (t["outcome"], [f["code"] for f in t["findings"]]) for t in record["takes"]}, steps


def test_inspect_foresees_that_a_take_does_not_fit_the_writer(takes, takeset, tmp_path):
    name = sorted(p.name for p in takes.iterdir())[0]
    (reported,) = json.loads(takeset("inspect", takes / name, "--json", *pipeline(tmp_path, "transforms: []\n"), check=3).stdout)["takes"]
    assert (reported["would_be"], reported["findings"][-1]["code"]) == ("failed", "not-aligned")


def test_a_preview_shows_images_and_depth(sessions, takeset, tmp_path):
    sheet, file = tmp_path / "sheet.png", sessions / "session_2026-01-31_120000/depth/000000.bin"
    meters = np.fromfile(file, "<f4").reshape(DEPTH_SIZE[::-1])
    meters[10:20, 30:60] = 0
    meters.tofile(file)
    takeset("inspect", sessions, "--preview", sheet, check=0)
    image = np.array(Image.open(sheet).convert("RGB")).astype(int)
    # The session with depth maps has three strips, the other one.
    assert image.shape == (4 * 154, 6 * 204 + 4, 3)
    first = np.array(Image.open(sessions / "session_2026-01-31_120000/rgb/000000.jpg").resize((200, 150), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(image[4:154, 4:204] - first).mean() < 2
    # Depth has the colors of the report: cyan at 0.5 m to magenta at 5 m, orange where there is none.
    far = np.clip((meters[..., None] - 0.5) / 4.5, 0, 1)
    painted = 255 * np.where(meters[..., None] > 0, np.concatenate([far, 1 - far, np.ones_like(far)], -1), [0.9, 0.55, 0.1])
    depth = image[158:308, 4:204]
    expected = np.array(Image.fromarray(painted.round().astype(np.uint8)).resize(depth.shape[1::-1], Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(depth - expected).mean() < 2
