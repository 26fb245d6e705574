"""Datasets for the tests of the Python package: of several apps, with gaps, masks, two units of depth and of poses, and a failed take."""

import json

STACK, ARM, SCAN, SLAM, FAILED = (
    "session_2026-03-01_120000", "session_2026-03-02_120000", "scan_1", "session_2026-03-03_120000", "session_2026-03-04_120000",
)  # fmt: skip


def takes(takeset, root):
    """Two sessions with masked rows: of depth maps, and of joints and images that cannot be decoded; a scan with depth in mm, confidence
    and IMU; a session in an arbitrary unit; one that fails for want of poses."""
    small, depth = ["--size", "96x72", "--seconds", 1], ["--depth-size", "32x24"]
    takeset.simulate(root / STACK, *small, *depth, "--quirk", "frames-dropped", "--quirk", "depth-missing", "--seed", 3)
    takeset.simulate(root / ARM, "--variant", "v2", *small, "--quirk", "joint-dead", "--quirk", "joints-gap", "--seed", 4)
    for number in (20, 21, 59):
        (root / ARM / f"rgb/{number:06d}.jpg").write_bytes(b"not an image")
    takeset("simulate", "stray-scanner", "--output", root / SCAN, *small, *depth, check=0)
    takeset.simulate(root / SLAM, "--variant", "v3-slam", *small, "--seed", 5)
    takeset.simulate(root / FAILED, *small, *depth, "--quirk", "poses-missing")
    return root


def pipeline(path, image="raw", split_at=None, **steps):
    """A pipeline file that keeps images and units as they are, with chunks of 3 actions."""
    transforms = [
        {"align": {}},
        *([{"split-episodes": {"at": split_at}}] if split_at else []),
        {"actions": {"horizon": 3, "next-obs": True}},
        {"split": {"group": "take", "valid": 0.3, "seed": 1}},
        *({name: options} for name, options in steps.items()),
    ]
    path.write_text(json.dumps({"version": 1, "transforms": transforms, "writer": {"hdf5": {"image": image}}}))
    return path


def convert(takeset, source, root, name, **options):
    """The directory of a dataset of these takes; one of them fails."""
    file = pipeline(root / f"{name}.json", **options)
    takeset.convert(source, output=root / name, check=3, arguments=["--pipeline", file])
    return root / name


def small(takeset, root, image="raw"):
    """The directory of a dataset of two takes of twelve rows: a session with joints, and a scan with depth, confidence and IMU."""
    source, size = root / "takes", ["--size", "32x24", "--seconds", 0.2]
    if not source.exists():
        takeset.simulate(source / "glove", *size, "--variant", "v2", "--seed", 4)
        takeset("simulate", "stray-scanner", "--output", source / "scan", *size, "--depth-size", "16x12", check=0)
    file = pipeline(root / f"{image}.json", image=image)
    takeset.convert(source, output=root / image, arguments=["--pipeline", file])
    return root / image
