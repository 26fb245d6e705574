"""Steps in Python, run by the command: what they make, and every way in which one can fail, with sound takes beside it."""

import json
import os
import shutil
import sys
import textwrap

import h5py
import numpy as np
import pytest
from schemas import validator

IMPORTS = "import numpy as np\nfrom takeset import steps\n\n"
BRIGHTNESS = IMPORTS + textwrap.dedent("""
    @steps.rows(reads=["camera_image"], writes=steps.Vector("brightness", ["mean"], unit="level"))
    def brightness(block):
        return block.camera_image.mean(axis=(1, 2, 3), dtype=np.float32)
""")
# What each failing step does, the code of the take's failure and words of the reason.
FAILING = {
    "exception": ("return 1 / (block.first - block.first)", "python-step-failed", "ZeroDivisionError"),
    "exit": ("raise SystemExit(3)", "python-step-failed", "SystemExit"),
    "length": ("return np.zeros((len(block) + 1, 1))", "python-step-invalid", "expected"),
    "type": ("return ['a'] * len(block)", "python-step-invalid", "expected"),
    "nothing": ("return None", "python-step-invalid", "expected"),
    "not finite": ("return np.full((len(block), 1), np.inf)", "python-step-invalid", "inf"),
    "valid": ("return np.zeros((len(block), 1)), np.ones(len(block))", "python-step-invalid", "valid is"),
    "crash": ("import ctypes; ctypes.string_at(0)", "conversion-crashed", "ended"),
    "leaves": ("import os; os._exit(0)", "conversion-crashed", "ended"),
    "memory": ("return np.ones(100 << 30, np.uint8)", "memory-limit", "take-memory"),
    "socket": ("import socket; socket.socket(socket.AF_UNIX)", "python-step-failed", "PermissionError"),
    "network": ("import socket; socket.create_connection(('127.0.0.1', 9))", "python-step-failed", "PermissionError"),
    "key": ("open({key!r}).read()", "python-step-failed", "PermissionError"),
    "fork": ("import os; os.fork()", "python-step-failed", "PermissionError"),
    "program": ("import subprocess; subprocess.run(['true'])", "python-step-failed", "PermissionError"),
    "dataset": ("open({output!r} + '/manifest.json', 'w')", "python-step-failed", "PermissionError"),
    "own folder": ("open(__file__, 'a')", "python-step-failed", "PermissionError"),
    "late import": ("import beside", "python-step-failed", "beside"),
}  # fmt: skip


def pipeline(folder, *steps, name="pipeline.yaml"):
    file = folder / name
    file.write_text(json.dumps({"version": 1, "transforms": [{"align": {}}, {"resize-image": {"width": 32, "height": 24}}, *({"python": step} for step in steps)]}))
    return file


@pytest.fixture(scope="module")
def takes(tmp_path_factory, takeset):
    root = tmp_path_factory.mktemp("python_steps") / "takes"
    for seed, name in enumerate(("session_a", "session_b")):
        takeset.simulate(root / name, "--seconds", 0.5, "--size", "64x48", "--depth-size", "16x12", "--seed", seed)
    return root


@pytest.fixture
def convert(tmp_path, takeset, takes):
    def convert(*steps, source=BRIGHTNESS, check=0, arguments=(), output="out", takes=takes):
        (tmp_path / "step.py").write_text(source)
        file = pipeline(tmp_path, *(steps or ({"file": "step.py"},)))
        environment = {**os.environ, "TAKESET_PYTHON": sys.executable}
        done = takeset("run", takes, "--output", tmp_path / output, "--pipeline", file, "--progress", "none", *arguments, check=check, env=environment)
        return done, tmp_path / output

    return convert


def episodes(output):
    return {path.stem: path for path in sorted((output / "episodes").glob("*.h5"))}


def record(output):
    return json.loads((output / "manifest.json").read_text())["record"]


def test_numbers_of_images(convert, takeset):
    """A stream of its own, of the images as they are stored, with its mask, unit and digest; the record has the step, its digests and its Python."""
    _, output = convert()
    for path in episodes(output).values():
        with h5py.File(path) as file:
            images = file["data/demo_0/obs/camera_image"][:]
            made = file["data/demo_0/obs/brightness"]
            np.testing.assert_allclose(made[:, 0], images.mean(axis=(1, 2, 3), dtype=np.float64), rtol=1e-5)
            assert (made.attrs["unit"], made.attrs["order"]) == ("level", "mean")
            assert file["data/demo_0/obs/brightness_valid"][:].all()
    found = record(output)
    step = found["pipeline"]["transforms"][2]["python"]
    assert list(step["recorded"]["digests"]) == ["step.py"] and step["recorded"]["function"] == "brightness"
    python = found["takes"][0]["details"]["python"]
    validator("manifest.schema.json").validate(json.loads((output / "manifest.json").read_text()))
    assert python["numpy"] == np.__version__ and python["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    takeset("verify", output, check=0)


EVERY_KIND = IMPORTS + textwrap.dedent("""
    @steps.rows(reads=["camera_image"], writes=steps.Image("camera_image"))
    def inverted(block):
        return 255 - block.camera_image

    @steps.rows(reads=["camera_image", "camera_depth_valid"], writes=steps.Mask("camera_mask", size=(16, 12)))
    def mask(block):
        assert block.camera_depth_valid.shape[1:] == (12, 16, 1) and block.camera_depth_valid.dtype == np.uint8
        return (block.camera_image[:, ::2, ::2, :1] > 100).astype(np.uint8), np.arange(block.first, block.first + len(block)) % 4 != 1

    @steps.rows(reads=["pose"], writes=steps.Vector("number", ["row", "calls"]))
    class Counts:
        def __init__(self, options, take):
            self.take, self.calls = take, options["start"]

        def __call__(self, block):
            assert (self.take, block.take.id) == (block.take, self.take.id) and block.take.reader == "stack-session"
            self.calls += 1
            rows = np.arange(block.first, block.first + len(block))
            assert len(block.time_ns) == len(rows) and (block.first > 0 or block.time_ns[0] == 0)
            print("a million lines\\n" * 1_000_000)
            return np.stack([rows, np.full(len(rows), self.calls)], axis=1), rows % 3 != 0

    @steps.keep(reads=["number"], reason="every-fifth")
    def four_of_five(block):
        return np.where(block.valid["number"], block.number[:, 0], 0) % 5 != 1

    @steps.labels(reads=["pose"])
    def ends(block):
        return {"success": True, "last": int(block.first + len(block))}
""")
KINDS = [
    {"file": "step.py", "function": "Counts", "options": {"start": 3}, "block": 4}, {"file": "step.py", "function": "inverted", "block": 5},
    {"file": "step.py", "function": "mask", "block": 7}, {"file": "step.py", "function": "four_of_five"}, {"file": "step.py", "function": "ends"},
]  # fmt: skip


def test_every_kind_of_step(convert, tmp_path, takeset, takes):
    """Images that take the place of others, a mask of another size, numbers with state and gaps, rows that are dropped, labels; the same bytes whatever the jobs and
    the processes, on another path too."""
    _, plain = convert({"file": "step.py", "function": "inverted"}, source=EVERY_KIND, output="inverted")
    _, output = convert(*KINDS, source=EVERY_KIND)
    for name, path in episodes(output).items():
        with h5py.File(path) as file, h5py.File(episodes(plain)[name]) as other:
            obs, number = file["data/demo_0/obs"], file["meta/demo_0/source_index"][:]
            before = {source: row for row, source in enumerate(other["meta/demo_0/source_index"][:])}
            rows = np.array([before[source] for source in number])
            assert np.array_equal(rows, [row for row in range(len(before)) if row % 3 == 0 or row % 5 != 1])
            assert np.array_equal(obs["camera_image"][:], other["data/demo_0/obs/camera_image"][:][rows])
            valid = obs["number_valid"][:].astype(bool)
            assert np.array_equal(valid[:, 0], rows % 3 != 0)
            assert np.array_equal(obs["number"][:][valid[:, 0]], np.stack([rows, 4 + rows // 4], 1)[valid[:, 0]])
            seen = file["meta/demo_0/streams/camera_mask/valid"][:].astype(bool)
            assert np.array_equal(seen, rows % 4 != 1)
            expected = (obs["camera_image"][:][:, ::2, ::2, :1] > 100) * seen[:, None, None, None]
            assert np.array_equal(obs["camera_mask"][:], expected) and obs["camera_mask"].attrs["kind"] == "segmentation"
    validator("manifest.schema.json").validate(json.loads((output / "manifest.json").read_text()))
    entry = record(output)["takes"][0]
    assert entry["details"]["labels"] == {"last": len(rows), "success": True}
    assert [step["dropped"][0]["reason"] for step in entry["steps"] if step.get("dropped")] == ["every-fifth"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "step.py").write_text(EVERY_KIND)
    for jobs, isolate in ((1, "never"), (2, "always"), (7, "always")):
        again = tmp_path / f"jobs{jobs}"
        arguments = ("--pipeline", pipeline(elsewhere, *KINDS), "--jobs", jobs, "--isolate", isolate, "--progress", "none")
        takeset("run", takes, "--output", again, *arguments, check=0, env={**os.environ, "TAKESET_PYTHON": sys.executable})
        for name, path in episodes(output).items():
            assert path.read_bytes() == (again / "episodes" / path.name).read_bytes(), (jobs, name)
        assert record(again) == record(output)
    takeset("verify", output, "--inputs", check=0)
    takeset("export", output, "--to", "zarr", "--output", tmp_path / "zarr", check=0)


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("isolate", ["always", "never"])
def test_a_failing_step_costs_its_take_alone(convert, tmp_path, takes, name, isolate):
    """Of two takes one fails, with the code, the words and the line of the user's file; nothing is written where it must not be."""
    body, code, words = FAILING[name]
    (tmp_path / "beside.py").write_text("x = 1\n")
    output, key = tmp_path / "out", tmp_path / "key"
    key.write_text("secret")
    folder = tmp_path / "steps"
    folder.mkdir()
    body = body.format(key=str(key), output=str(output))
    (folder / "step.py").write_text(
        IMPORTS + '@steps.rows(reads=["pose"], writes=steps.Vector("made"))\ndef made(block):\n    if block.take.id == "session_a":\n'
        f"        {body}\n    return np.zeros(len(block))\n"
    )
    _, output = convert({"file": "steps/step.py"}, check=3, arguments=("--isolate", isolate, "--jobs", 1))
    failed, written = record(output)["takes"]
    assert (failed["id"], failed["outcome"], written["outcome"]) == ("session_a", "failed", "written")
    assert failed["findings"][-1]["code"] == code and words in failed["reason"], failed["reason"]
    if code == "python-step-failed" or name == "memory":
        assert "step.py:7" in failed["reason"], failed["reason"]
    assert list(episodes(output)) == ["session_b"] and (folder / "step.py").read_text().startswith(IMPORTS)


@pytest.mark.parametrize("isolate", ["always", "never"])
def test_a_step_that_hangs(convert, takes, isolate):
    """It never answers, so its take fails at whatever limit; alone, because another take may need longer than this one on a busy machine."""
    source = BRIGHTNESS.replace("    return", "    while True: pass\n    return")
    arguments = ("--isolate", isolate, "--take-time", 2)
    _, output = convert(source=source, check=3, arguments=arguments, takes=takes / "session_a")
    (take,) = record(output)["takes"]
    assert take["findings"][-1]["code"] == "time-limit" and "--take-time" in take["reason"]


@pytest.mark.parametrize(
    ("source", "step", "words"),
    [
        (None, {"file": "none.py"}, "there is no file"),
        ("def f(:\n", {"file": "step.py"}, "step.py:1"),
        ("import no_such_module\n", {"file": "step.py"}, "no_such_module"),
        (IMPORTS, {"file": "step.py"}, "no step"),
        (BRIGHTNESS, {"file": "step.py", "function": "other"}, "no step other; it has brightness"),
        (EVERY_KIND, {"file": "step.py"}, "name one by function"),
        (BRIGHTNESS.replace("camera_image", "imu"), {"file": "step.py"}, "imu"),
        (BRIGHTNESS.replace('"brightness"', '"obs"'), {"file": "step.py"}, "it writes"),
        (BRIGHTNESS, {"file": "step.py", "files": ["none.json"]}, "there is no file"),
        (BRIGHTNESS, {"file": "step.py", "block": 0}, "from 1 to 1024"),
        (BRIGHTNESS, {"file": "step.py", "options": [1]}, "expected an object"),
        (BRIGHTNESS, {"file": "/etc/passwd"}, "no relative path"),
        (BRIGHTNESS, {"file": "step.py", "recorded": {"digests": {"step.py": "0"}}}, "not the recorded one: step.py"),
    ],
)
def test_a_step_that_cannot_be_used_is_64(convert, source, step, words):
    done, output = convert(step, source=source or "", check=64)
    assert words in done.stderr and not output.exists(), done.stderr


def test_no_interpreter_and_no_numpy(convert, tmp_path):
    done, output = convert(check=64, arguments=("--python", tmp_path / "nothing"))
    assert "is no Python that runs" in done.stderr and not output.exists()
    bare = tmp_path / "bare" / "bin"
    bare.mkdir(parents=True)
    (bare / "python3").symlink_to(os.path.realpath(sys.executable))
    (bare.parent / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\ninclude-system-site-packages = false\n")
    done, output = convert(check=64, arguments=("--python", bare / "python3"))
    assert "NumPy cannot be imported" in done.stderr and not output.exists()


def test_modules_beside_the_step(convert, tmp_path):
    """They are imported with the file, digested, and take nobody else's place; a changed one is another pipeline."""
    (tmp_path / "numpy.py").write_text("raise RuntimeError('a module beside the step replaced numpy')\n")
    (tmp_path / "factor.py").write_text("factor = 2\n")
    source = BRIGHTNESS.replace("from takeset", "import factor\nfrom takeset").replace("return ", "return factor.factor * ")
    _, output = convert(source=source)
    assert sorted(record(output)["pipeline"]["transforms"][2]["python"]["recorded"]["digests"]) == ["factor.py", "step.py"]
    done, _ = convert(source=source)
    assert "nothing to do" in done.stdout
    (tmp_path / "factor.py").write_text("factor = 3\n")
    done, _ = convert(source=source, check=64)
    assert "--replace" in done.stderr
    assert not list(tmp_path.rglob("*.pyc"))


def test_nothing_is_kept(convert):
    source = IMPORTS + '@steps.keep(reads=["pose"], reason="too-dark")\ndef none(block):\n    return np.zeros(len(block), bool)\n'
    _, output = convert(source=source)
    assert [(take["outcome"], take["reason"].split(": ")[:2]) for take in record(output)["takes"]] == 2 * [("rejected", ["python", "too-dark"])]


def test_a_take_without_the_stream(convert):
    _, output = convert(source=BRIGHTNESS.replace("camera_image", "camera_imge"), check=3)
    take = record(output)["takes"][0]
    assert take["findings"][-1]["code"] == "stream-missing" and "camera_imge" in take["reason"] and "camera_image" in take["reason"]


def test_a_plan_calls_no_step(takeset, tmp_path, takes):
    (tmp_path / "step.py").write_text(BRIGHTNESS.replace("    return", "    raise RuntimeError\n    return"))
    done = takeset("plan", takes, "--pipeline", pipeline(tmp_path, {"file": "step.py"}), check=0, env={**os.environ, "TAKESET_PYTHON": sys.executable})
    assert "/data/demo_0/obs/brightness" in done.stdout
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
