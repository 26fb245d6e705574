"""Commands other than a plain run whose pipeline has steps in Python: clusters, traces, trials, resumed runs, exports, and what steps print."""

import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
from collections import defaultdict

import h5py
import numpy as np
import pytest
import zarr
from clusters import worker
from command import BINARY
from mcap.reader import make_reader
from PIL import Image
from stepped_runs import ENVIRONMENT, content, run, three_takes
from system import stopped
from trace_checks import streams, traced

SOURCE = textwrap.dedent("""
    import json
    import pathlib

    import numpy as np
    from takeset import steps

    import beside

    SCALE = json.loads((pathlib.Path(__file__).parent / "../scale.json").read_text())["scale"]

    @steps.rows(reads=["camera_image"], writes=steps.Image("camera_image", size=(16, 12)))
    def half(block):
        return beside.half(block.camera_image)

    @steps.rows(reads=["camera_image", "pose"], writes=steps.Vector("change", ["image", "way"]))
    class Change:
        def __init__(self, options, take):
            self.image = self.place = None

        def __call__(self, block):
            print("rows from", block.first)
            images, places = block.camera_image, block.pose[:, :3]
            before = images[:1] if self.image is None else self.image
            start = places[:1] if self.place is None else self.place
            # Read-only views, which are kept over blocks.
            self.image, self.place = images[-1:], places[-1:]
            differences = np.abs(np.diff(np.concatenate([before, images]).astype(np.int16), axis=0)).mean(axis=(1, 2, 3))
            ways = np.linalg.norm(np.diff(np.concatenate([start, places]), axis=0), axis=1)
            return np.stack([SCALE * differences, ways], axis=1)
""")
STEPS = [{"file": "../lib/step.py", "function": "half", "files": ["../scale.json"], "block": 6}, {"file": "../lib/step.py", "function": "Change", "files": ["../scale.json"], "block": 7}]  # fmt: skip


@pytest.fixture(scope="module")
def takes(tmp_path_factory, takeset):
    return three_takes(takeset, tmp_path_factory.mktemp("users") / "takes")


def written(folder, *more):
    """A pipeline file with steps that lie in another folder, beside a module, with a file above both."""
    for part, text in {
        "lib/step.py": SOURCE, "scale.json": '{"scale": 2}', "lib/beside.py": "def half(images):\n    return images[:, ::2, ::2]\n",
        "pipes/pipeline.yaml": json.dumps(
            {"version": 1, "transforms": [{"align": {}}, {"resize-image": {"width": 32, "height": 24}}, *({"python": step} for step in STEPS), *more]}
        ),
    }.items():  # fmt: skip
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).write_text(text)
    return folder / "pipes/pipeline.yaml"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, takeset, takes):
    folder = tmp_path_factory.mktemp("made")
    run(takeset, takes, folder / "out", written(folder), "--jobs", 1)
    return folder


def test_state_over_blocks_is_that_of_the_images(dataset):
    """Images that a step keeps stay what they were, although blocks share memory."""
    for path in (dataset / "out/episodes").glob("*.h5"):
        with h5py.File(path) as file:
            obs = file["data/demo_0/obs"]
            images, places = obs["camera_image"][:].astype(np.int16), obs["pose"][:, :3]
            differences = 2 * np.abs(np.diff(images, axis=0, prepend=images[:1])).mean(axis=(1, 2, 3))
            ways = np.linalg.norm(np.diff(places, axis=0, prepend=places[:1]), axis=1)
            np.testing.assert_allclose(obs["change"][:], np.stack([differences, ways], 1), rtol=1e-5, atol=1e-7)


# Clusters


def test_workers_get_the_steps_beside_their_tasks(takeset, takes, dataset, tmp_path):
    """Three workers convert, the folder of the pipeline file gone, what a run converts; a changed copy is refused; a row is traced by the copies."""
    file, output = written(tmp_path / "planned"), tmp_path / "out"
    takeset("plan", takes, "--output", output, "--tasks", "--pipeline", file, check=0, env=ENVIRONMENT)
    shutil.rmtree(tmp_path / "planned")
    copy = next((output / "task-steps").rglob("beside.py"))
    source = copy.read_text()
    copy.write_text(source + "\n")
    refused = takeset("convert", output, "--task", 0, check=64, env=ENVIRONMENT)
    assert "lib/beside.py changed" in refused.stderr
    copy.write_text(source)
    workers = [worker(output, number, "--verbose", env=ENVIRONMENT) for number in range(3)]
    for number, process in enumerate(workers):
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert f"{'abc'[number]}: rows from 14" in errors and "rows from" not in out
    takeset("publish", output, check=0)
    assert content(output) == content(dataset / "out")
    trace = traced(takeset, output, "b", 9, "--python", sys.executable)
    assert trace["reproduced"] is True


# Kills


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(takes, takeset, dataset, failing_look, tmp_path):
    """Killed as each of its episodes gets its name."""
    file, number = written(tmp_path), 0
    while True:
        number += 1
        output = tmp_path / f"out{number}"
        command = [BINARY, "run", takes, "--output", output, "--pipeline", file, "--jobs", "2", "--python", sys.executable]
        process = stopped(command, failing_look, "rename", output / "episodes", number)
        if process.returncode is not None:  # There is no such call any more.
            break
        process.kill()
        process.wait()
        run(takeset, takes, output, file)
        assert content(output) == content(dataset / "out")
    assert number > 3


# Traces


def test_a_traced_row_is_made_again_by_its_steps(takeset, dataset):
    """Of each stream, with the file, its digest and the function; by both steps."""
    trace = traced(takeset, dataset / "out", "b", 20, "--python", sys.executable)
    assert trace["reproduced"] is True
    assert all(stream["reproduced"] for name, stream in streams(trace).items() if name in ("camera_image", "change"))
    assert {origin["file"] for origin in streams(trace)["change"]["origins"]} == {"rgb/000020.jpg", "poses.json"}
    digest = json.loads((dataset / "out/manifest.json").read_text())["record"]["pipeline"]["transforms"][3]["python"]["recorded"]["digests"]["../lib/step.py"]
    effects = [effect["words"] for step in trace["steps"] for effect in step["effects"]]
    assert f"calls half of ../lib/step.py (sha256 {digest})" in effects and any(words.startswith("calls Change of") for words in effects)


def test_a_trace_says_that_a_step_changed_or_is_gone(takeset, takes, tmp_path):
    file = written(tmp_path)
    run(takeset, takes, tmp_path / "out", file)
    (tmp_path / "scale.json").write_text('{"scale": 3}')
    trace = traced(takeset, tmp_path / "out", "a", 3, "--python", sys.executable, check=2)
    assert trace["reproduced"] is None and "../scale.json changed" in trace["unavailable"] and trace["problems"] == []
    (tmp_path / "lib/step.py").unlink()
    trace = traced(takeset, tmp_path / "out", "a", 3, "--python", sys.executable, check=2)
    assert "there is no file" in trace["unavailable"] and "lib/step.py" in trace["unavailable"]


# Printing


@pytest.mark.parametrize("isolate", ["always", "never"])
def test_what_a_step_prints_is_shown_when_asked_for(takeset, takes, tmp_path, isolate):
    """On stderr, with the id of the take; also of a take that the step fails."""
    source = "from takeset import steps\n@steps.keep(reads=['pose'], reason='no')\ndef f(block):\n    print('two\\nlines \\x1b')\n    return [1][len(block.take.id) > 1:] and block.valid['pose'] or 1 / 0\n"
    (tmp_path / "step.py").write_text(source.replace("[1][len(block.take.id) > 1:] and block.valid['pose'] or 1 / 0", "1 / 0 if block.take.id == 'a' else block.valid['pose']"))
    file = tmp_path / "pipeline.yaml"
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: step.py}]\n")
    done = run(takeset, takes, tmp_path / "out", file, "--isolate", isolate, "--verbose", check=3)
    for name in "abc":
        assert f"{name}: two\n{name}: lines \\u001B\n" in done.stderr
    assert "two" not in done.stdout
    done = run(takeset, takes, tmp_path / "silent", file, "--isolate", isolate, check=3)
    assert "two" not in done.stdout + done.stderr
    log = run(takeset, takes, tmp_path / "log", file, "--isolate", isolate, "--verbose", "--log-format", "json", check=3).stderr
    said = [line for line in map(json.loads, log.splitlines()) if line["event"] == "said"]
    assert {line["take"] for line in said} == set("abc") and said[0]["message"] == "two\nlines \x1b\n"


# Other versions


def test_other_versions_of_packages_are_a_finding(takeset, takes, tmp_path):
    """A take that is added by a virtual environment with another version of a package that the step imports; merged, too."""
    pythons = []
    for version in ("1.0", "2.0"):
        place = tmp_path / f"venv{version}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        packages = next((place / "lib").glob("python*")) / "site-packages"
        (packages / "tinytool.py").write_text("half = 0.5\n")
        (packages / f"tinytool-{version}.dist-info").mkdir()
        (packages / f"tinytool-{version}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: tinytool\nVersion: {version}\n")
        (packages / f"tinytool-{version}.dist-info/RECORD").write_text(f"tinytool.py,,\ntinytool-{version}.dist-info/METADATA,,\n")
        (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        pythons.append(place / "bin/python3")
    (tmp_path / "step.py").write_text(
        "from takeset import steps\nimport tinytool\n@steps.rows(reads=['pose'], writes=steps.Vector('x', ['x']))\ndef f(block):\n    return tinytool.half * block.pose[:, 0]\n"
    )
    file = tmp_path / "pipeline.yaml"
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: step.py}]\n")
    some = tmp_path / "some"
    shutil.copytree(takes / "a", some / "a")
    run(takeset, some, tmp_path / "out", file, "--python", pythons[0])
    assert content(tmp_path / "out")[1]["findings"] == []
    shutil.copytree(takes / "b", some / "b")
    # One that is active.
    done = run(takeset, some, tmp_path / "out", file, env={**os.environ, "TAKESET_PYTHON": "", "PATH": f"{pythons[1].parent}:{os.environ['PATH']}"})
    assert "python-changed" in done.stderr
    record = content(tmp_path / "out")[1]
    assert [take["details"]["python"]["distributions"] for take in record["takes"]] == [{"tinytool": "1.0"}, {"tinytool": "2.0"}]
    found = [finding for finding in record["findings"] if finding["code"] == "python-changed"]
    assert len(found) == 1 and "tinytool 1.0 in 1 episode, 2.0 in 1 episode" in found[0]["message"]
    takeset("select", tmp_path / "out", "--episodes", "a,b", "--output", tmp_path / "merged", check=0)
    assert found[0] in content(tmp_path / "merged")[1]["findings"]
    assert traced(takeset, tmp_path / "merged", "a", 2, "--python", pythons[1])["reproduced"] is True


# Trials


def trial(takeset, folder, *arguments, check=0):
    before = set(folder.rglob("*"))
    done = takeset("try", *arguments, "--python", sys.executable, check=check, cwd=folder)
    assert "__pycache__" not in " ".join(map(str, folder.rglob("*")))
    return done, sorted(path.name for path in set(folder.rglob("*")) - before)


def test_a_trial_shows_what_a_run_would_store(takeset, takes, dataset, tmp_path):
    """With the steps before it, for rows in the middle: the numbers are those that the run has stored, the picture has images before and after."""
    file = written(tmp_path)
    common = (takes / "b", "--pipeline", file, "--rows", "10:19")
    done, new = trial(takeset, tmp_path, "lib/step.py", *common, "--function", "Change", "--preview", "change.png")
    assert new == ["change.png"] and "rows from 14" in done.stdout and "camera_image  12x16x3 uint8" in done.stdout
    with h5py.File(dataset / "out/episodes/b.h5") as shard:
        stored = shard["data/demo_0/obs/change"][10:19]
    for column, name in enumerate(("image", "way")):
        words = next(line for line in done.stdout.splitlines() if line.split()[:1] == [name]).replace(",", "").split()
        shown = [float(words[1]), float(words[3]), float(words[5])]
        np.testing.assert_allclose(shown, [stored[:, column].min(), stored[:, column].max(), stored[:, column].mean()], rtol=1e-4)
    assert Image.open(tmp_path / "change.png").size[0] > 1000
    done, _ = trial(takeset, tmp_path, "lib/step.py", *common, "--function", "half", "--preview", "half.png")
    assert "camera_image  24x32x3 uint8" in done.stdout and "9 of 9 rows valid" in done.stdout
    with Image.open(tmp_path / "half.png") as image:
        pixels = np.asarray(image).astype(int)
    before, after = pixels[4:154, 4:204], pixels[158:308, 4:204]
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.7


def test_a_trial_of_a_step_alone(takeset, takes, tmp_path):
    """Options from the command line; a choice of rows, labels and masks; a step that raises ends with 3, mistakes with 64."""
    (tmp_path / "step.py").write_text(textwrap.dedent("""
        import numpy as np
        from takeset import steps

        @steps.keep(reads=["pose"], reason="odd")
        def even(block):
            return np.arange(block.first, block.first + len(block)) % block.options.get("of", 2) == 0

        @steps.labels(reads=["pose"])
        def ends(block):
            return {"last": block.first + len(block)}

        @steps.rows(reads=["camera_image"], writes=steps.Mask("left"))
        def left(block):
            mask = np.zeros((*block.camera_image.shape[:3], 1), np.uint8)
            mask[:, :, :32] = 1
            return mask

        @steps.rows(reads=["camera_image"], writes=steps.Vector("x", ["x"]))
        def broken(block):
            block.camera_image[0] = 0
            return np.zeros(len(block))
    """))
    take = takes / "a"
    done, new = trial(takeset, tmp_path, "step.py", take, "--function", "even", "--options", '{"of": 3}', "--rows", "0:9")
    assert new == [] and "3 of 9 rows" in done.stdout and "odd: 1, 2, 4, 5, 7, 8" in done.stdout
    assert '{"last":30}' in trial(takeset, tmp_path, "step.py", take, "--function", "ends")[0].stdout
    trial(takeset, tmp_path, "step.py", take, "--function", "left", "--preview", "left.png")
    with Image.open(tmp_path / "left.png") as image:
        pixels = np.asarray(image).astype(int)
    before, after = pixels[4:154, 4:204], pixels[158:308, 4:204]
    assert np.array_equal(before[:, 110:], after[:, 110:]) and before[:, 110:].std() > 10 and (after[:, :90, 0] > before[:, :90, 0]).mean() > 0.9
    done, _ = trial(takeset, tmp_path, "step.py", take, "--function", "broken", check=3)
    assert "read-only" in done.stderr and "step.py:" in done.stderr
    for arguments, words in [
        ((take,), "even, ends, left, broken"), ((take, "--function", "evne"), "no step evne"), ((take, "--function", "even", "--rows", "40:50"), "rows 0 to 29"),
        ((take, "--function", "even", "--rows", "5"), "A:B"), ((take, "--function", "even", "--options", "[1]"), "JSON object"), ((takes, "--function", "even"), "3 takes"),
        ((tmp_path, "--function", "even"), "no take"), ((take, "--function", "even", "--preview", "step.py"), "exists"),
    ]:  # fmt: skip
        done, new = trial(takeset, tmp_path, "step.py", *arguments, check=64)
        assert words in done.stderr and new == [], (arguments, done.stderr)


# Exports


def test_new_streams_are_exported_under_their_names(takeset, takes, tmp_path):
    (tmp_path / "mask.py").write_text("from takeset import steps\n@steps.rows(reads=['camera_image'], writes=steps.Mask('mask'))\ndef f(block):\n    return block.camera_image[..., :1]\n")
    file = written(tmp_path, {"python": {"file": "../mask.py"}}, {"actions": {"kind": "relative-6d"}})
    run(takeset, takes, tmp_path / "out", file)
    takeset("export", tmp_path / "out", "--to", "zarr", "--output", tmp_path / "zarr", check=0)
    group = zarr.open(str(tmp_path / "zarr"), mode="r")
    with h5py.File(tmp_path / "out/episodes/a.h5") as shard:
        stored, masks = shard["data/demo_0/obs/change"][:-1], shard["data/demo_0/obs/mask"][:]
    np.testing.assert_array_equal(group["data/change"][: len(stored)], stored)
    takeset("export", tmp_path / "out", "--to", "webdataset", "--output", tmp_path / "web", check=0)
    with tarfile.open(tmp_path / "web/shard-000000.tar") as tar:
        found = json.load(tar.extractfile("a-000005.json"))
        mask = np.asarray(Image.open(io.BytesIO(tar.extractfile("a-000005.mask.png").read())))
    np.testing.assert_array_equal(np.float32(found["change"]), stored[5])
    assert found["valid"]["mask"] is True and np.array_equal(mask, masks[5, ..., 0])
    takeset("export", tmp_path / "out", "--to", "mcap", "--output", tmp_path / "mcap", check=0)
    with (tmp_path / "mcap/a.mcap").open("rb") as file:
        topics = defaultdict(list)
        for schema, channel, message in make_reader(file).iter_messages():
            topics[channel.topic].append((schema.name, message.data))
    np.testing.assert_array_equal(np.float32([json.loads(data)["values"] for _, data in topics["/change"]][:-1]), stored)
    name, data = topics["/mask"][5]
    assert name == "foxglove.CompressedImage" and np.array_equal(np.asarray(Image.open(io.BytesIO(data[data.index(b"\x89PNG") :]))), masks[5, ..., 0])
