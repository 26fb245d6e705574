"""Takes and pipelines that are drawn at random: every step and option that `takeset steps --json` names, with values that its schema allows."""

import json
import random
import subprocess

from command import BINARY

SESSION_QUIRKS = [
    "poses-shuffled", "poses-duplicated", "poses-cut", "poses-missing", "poses-nan", "poses-transposed", "pose-reflected", "pose-repeated", "pose-jump", "time-backwards",
    "frames-dropped", "images-missing", "upload-cut", "image-cut", "image-empty", "extra-files", "depth-missing", "depth-short", "depth-half", "depth-padded", "depth-orphan",
    "joint-dead", "joint-failed", "joints-late", "joints-gap", "joints-recalibrated", "metadata-missing", "counts-wrong", "zip", "tar",
]
STREAMS = ["camera_image", "camera_depth", "camera_depth_confidence", "pose", "joints", "imu", "depth_point", "actions", "no_such_stream"]
# Free texts and mappings, whose values a schema does not list.
VALUES = {
    ("align", "latency"): lambda dice: {name: dice.choice([0, 0.01, -0.02, 0.3]) for name in dice.sample(STREAMS, dice.randint(0, 2))},
    ("resample", "method"): lambda dice: {name: dice.choice(["nearest", "linear", "slerp"]) for name in dice.sample(STREAMS, dice.randint(0, 2))},
    ("rename", "streams"): lambda dice: {name: dice.choice(["a", "b_image", "wrist_image"]) for name in dice.sample(STREAMS, dice.randint(0, 2))},
    ("select", "streams"): lambda dice: dice.sample(STREAMS, dice.randint(1, 5)),
    ("actions", "gripper"): lambda dice: dice.choice([None, None, "joints", "depth_point", "nothing"]),
    ("split", "timezone"): lambda dice: dice.choice([None, None, "America/Los_Angeles", "Nowhere/Nothing"]),
    ("split", "pattern"): lambda dice: dice.choice([None, None, "take_(.)", "("]),
    ("crop", "box"): lambda dice: dice.choice([None, [4, 2, 30, 20], [0, 0, 64, 48], [1, 1, 999, 999], [0, 0, 0, 0]]),
    ("crop", "center"): lambda dice: dice.choice([None, [20, 20], [33, 17]]),
    ("pose-frame", "body"): lambda dice: dice.choice([None, [0, 0, 0.1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0]]),
}
# Large numbers are lawful and slow.
CEILINGS = {"width": 200, "height": 200, "rate": 200, "seconds": 2, "count": 60, "every": 20, "horizon": 8}


def drawn(schema, name, dice):
    """A value that the schema allows, mostly a usual one."""
    for key in "anyOf", "oneOf":
        if key in schema:
            return drawn(dice.choice(schema[key]), name, dice)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    kind = dice.choice(kind) if isinstance(kind, list) else kind
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = min(schema.get("maximum", 100), CEILINGS.get(name, 100))
    match kind:
        case "boolean": return dice.random() < 0.5
        case "null": return None
        case "integer": return dice.choice([max(1, least), most, dice.randint(int(max(least, 0)), int(max(most, least, 0)))])
        case "number": return dice.choice([round(dice.uniform(max(least, 0) + 1e-3, max(most, least + 1)), 3), min(most, 1), min(most, 0.1)])
        case "array": return [drawn(schema["items"], name, dice) for _ in range(dice.randint(0, 3))]
        case "object": return {key: drawn(value, name, dice) for key, value in schema.get("properties", {}).items()}
        case _: return "text"


def options(step, dice):
    chosen = [option for option in step["options"] if dice.random() < 0.35]
    return {o["name"]: VALUES[step["name"], o["name"]](dice) if (step["name"], o["name"]) in VALUES else drawn(o["schema"], o["name"], dice) for o in chosen}


def pipeline(steps, dice):
    by_kind = {kind: [step for step in steps if step["kind"] == kind] for kind in ("reader", "transform", "writer")}
    transforms = [{"align": options(next(s for s in by_kind["transform"] if s["name"] == "align"), dice)}] if dice.random() < 0.9 else []
    transforms += [{step["name"]: options(step, dice)} for step in dice.choices(by_kind["transform"], k=dice.randint(0, 6))]
    writer = dice.choice(by_kind["writer"])
    return {"version": 1, "transforms": transforms, "writer": {writer["name"]: options(writer, dice)}}


def takes(root, dice):
    """Some small takes of several formats with quirks, and one without."""
    root.mkdir(parents=True)
    subprocess.run([str(BINARY), "simulate", "stack-session", "--variant", "v2", "--output", root / "plain", "--seconds", "0.1", "--size", "64x48"], check=True, capture_output=True)
    for number in range(dice.randint(1, 2)):
        seed, seconds = dice.randrange(1000), dice.choice([0.05, 0.2, 0.5])
        small = ["--output", root / f"take_{number}", "--seed", seed, "--seconds", seconds, "--size", "64x48"]
        match dice.randrange(5):
            case 0: command = ["stray-scanner", *small, "--depth-size", "16x12", *dice.choice([[], ["--no-movie"], ["--old-csv"], ["--quirk", "resized"]])]
            case 1: command = ["realitycam-bundle", *small]
            case 2: command = ["stack-session", *small, "--variant", dice.choice(["v3-raw", "v3-slam", "v3-scaled", "packed", "synthetic"])]
            case _:
                quirks = [word for quirk in dice.sample(SESSION_QUIRKS, dice.choice([0, 0, 1, 1, 2])) for word in ("--quirk", quirk)]
                command = ["stack-session", *small, "--variant", dice.choice(["v1", "v2"]), *quirks]
        done = subprocess.run([str(BINARY), "simulate", *map(str, command)], capture_output=True, text=True, timeout=300)
        # Some quirks exclude each other, or need more than these few frames.
        assert done.returncode in (0, 64), (command, done.returncode, done.stderr)


def check(root, seed, steps):
    """Converts what is drawn from a seed. The exit code; a crash, a hang and a dataset that is not sound are failures.

    Many pipelines that are drawn are refused, which is lawful too; then another one is drawn for the same takes."""
    dice = random.Random(seed)
    takes(root / "in", dice)
    path, words = root / "p.yaml", ""

    def ended(*arguments, lawful):
        done = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=300)
        assert done.returncode in lawful, (words, arguments, done.returncode, done.stderr[-2000:])
        assert "internal" not in done.stderr, (words, done.stderr[-2000:])
        return done.returncode

    isolate = dice.choice(["never", "auto", "always"])
    run = ["run", root / "in", "--output", root / "out", "--pipeline", path, "--isolate", isolate]
    for _ in range(12):
        path.write_text(json.dumps(pipeline(steps, dice)))
        words = f"seed {seed}: {path.read_text()}"
        code = ended(*run, lawful=(0, 3, 64))
        if code != 64:
            break
        assert not (root / "out").exists(), words
    else:
        return 64
    ended("verify", root / "out", lawful=(0,))
    # The same again finds nothing to do, or the same failures.
    before = (root / "out/dataset.h5").read_bytes()
    assert ended(*run, lawful=(0, 3)) == code and (root / "out/dataset.h5").read_bytes() == before, words
    return code
