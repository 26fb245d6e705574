"""Blocks of steps in Python: the files that a step reads, what it keeps, random numbers, and steps after a split."""

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import textwrap

import h5py
import numpy as np
import pytest
from command import BINARY
from stepped_runs import ENVIRONMENT, content, run, three_takes
from trace_checks import traced


@pytest.fixture(scope="module")
def takes(tmp_path_factory, takeset):
    return three_takes(takeset, tmp_path_factory.mktemp("blocks") / "takes")


# Files that a step reads


def test_a_file_beside_a_step_is_part_of_it(takeset, takes, tmp_path):
    """Read while the step is loaded, it has a digest without being named; one that is read later has to be named. A virtual environment in the folder is not part of it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    packages = next((tmp_path / ".venv/lib").glob("python*")) / "site-packages"
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (packages / "inside.py").write_text("import pathlib\ndef text(): return pathlib.Path(__file__).with_name('inside.txt').read_text()\n")
    (packages / "inside.txt").write_text("late")
    source = textwrap.dedent("""
        import pathlib
        import inside
        from takeset import steps

        HERE = pathlib.Path(__file__).parent
        SCALE = float((HERE / "scale.txt").read_text())

        @steps.rows(reads=["pose"], writes=steps.Vector("x", ["x"]))
        def f(block):
            assert inside.text() == "late"
            return SCALE * block.pose[:, 0]

        @steps.rows(reads=["pose"], writes=steps.Vector("y", ["y"]))
        def late(block):
            return float((HERE / "late.txt").read_text()) * block.pose[:, 1]
    """)
    (tmp_path / "step.py").write_text(source)
    (tmp_path / "scale.txt").write_text("2")
    (tmp_path / "late.txt").write_text("3")
    file, python = tmp_path / "pipeline.yaml", ("--python", tmp_path / ".venv/bin/python3")
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: step.py, function: f}]\n")
    run(takeset, takes, tmp_path / "out", file, *python)
    step = content(tmp_path / "out")[1]["pipeline"]["transforms"][1]["python"]
    assert sorted(step["recorded"]["digests"]) == ["scale.txt", "step.py"]
    (tmp_path / "scale.txt").write_text("4")
    refused = run(takeset, takes, tmp_path / "out", file, *python, check=64).stderr
    assert "another pipeline" in refused and " of a step in Python is another one" in refused
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: step.py, function: late}]\n")
    run(takeset, takes, tmp_path / "refused", file, *python, check=3)
    assert all("late.txt is no part of the step; name it in its files" in take["reason"] for take in content(tmp_path / "refused")[1]["takes"])
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: step.py, function: late, files: [late.txt]}]\n")
    run(takeset, takes, tmp_path / "named", file, *python)
    assert sorted(content(tmp_path / "named")[1]["pipeline"]["transforms"][1]["python"]["recorded"]["digests"]) == ["late.txt", "scale.txt", "step.py"]


# Order, memory, and what changes


def simple(tmp_path, source, *steps):
    """A pipeline of a file's steps, which are `{}` or functions, and other steps as they are."""
    (tmp_path / "step.py").write_text("import numpy as np\nfrom takeset import steps\n" + textwrap.dedent(source))
    file = tmp_path / "pipeline.yaml"
    own = [step if isinstance(step, dict) else {"python": {"file": "step.py", "function": step, "block": 16}} for step in steps]
    file.write_text(json.dumps({"version": 1, "transforms": [{"align": {}}, *own]}))
    return file


@pytest.mark.parametrize("isolate", ["always", "never"])
def test_steps_after_a_split_are_called_once_for_each_block(takeset, tmp_path, isolate):
    """Of episodes of many lengths; an image, a mask of it, and numbers of both and of the depth, all of which are stored."""
    takeset.simulate(tmp_path / "take", "--seconds", 2, "--size", "64x48", "--depth-size", "16x12")
    file = simple(tmp_path, """
        @steps.keep(reads=["pose"], reason="holes")
        def holes(block):
            rows = block.first + np.arange(len(block))
            return ~np.isin(rows, [3, 4, 5, 30, 31, 32, 71, 72, 73])

        @steps.rows(reads=["camera_image"], writes=steps.Image("camera_image"))
        def image(block):
            print("image", block.first)
            return 255 - block.camera_image

        @steps.rows(reads=["camera_image"], writes=steps.Mask("mask"))
        def mask(block):
            print("mask", block.first)
            return block.camera_image[..., :1] // 2

        @steps.rows(reads=["camera_image", "mask", "camera_depth"], writes=steps.Vector("means", ["image", "mask", "depth"]))
        def means(block):
            print("means", block.first)
            return np.stack([np.float32(getattr(block, name)).mean(axis=(1, 2, 3)) for name in ("camera_image", "mask", "camera_depth")], axis=1)
    """, "holes", {"split-episodes": {"at": "gaps"}}, "image", "mask", "means")  # fmt: skip
    for jobs in 1, 2:
        done = run(takeset, tmp_path / "take", tmp_path / f"out{jobs}", file, "--isolate", isolate, "--verbose", "--jobs", jobs)
        shards = sorted((tmp_path / f"out{jobs}/episodes").glob("*.h5"))
        blocks = 0
        for path in shards:
            with h5py.File(path) as shard:
                obs = shard["data/demo_0/obs"]
                image = obs["camera_image"][:]
                assert np.array_equal(obs["mask"][:], image[..., :1] // 2)
                expected = [np.float32(obs[name][:]).mean(axis=(1, 2, 3)) for name in ("camera_image", "mask", "camera_depth")]
                np.testing.assert_allclose(obs["means"][:], np.stack(expected, axis=1), rtol=1e-5)
                blocks += -(-len(image) // 16)
        assert len(shards) == 4
        said = [line.split()[1] for line in done.stderr.splitlines() if line.split()[1:2] and line.split()[1] in ("image", "mask", "means")]
        assert {name: said.count(name) for name in set(said)} == {"image": blocks, "mask": blocks, "means": blocks}
    assert content(tmp_path / "out1") == content(tmp_path / "out2")


@pytest.mark.parametrize("box", [{"width": 24, "height": 18}, {"width": 20, "height": 30, "mode": "cover"}])
def test_a_mask_follows_its_image(takeset, takes, tmp_path, box):
    """Resized, each pixel is the nearest one; a mask of a size of its own stays as it is."""
    source = """
        @steps.rows(reads=["camera_image"], writes=steps.Mask("bright"))
        def f(block):
            return (block.camera_image.sum(axis=3, keepdims=True) % 251).astype(np.uint8)

        @steps.rows(reads=["camera_image"], writes=steps.Mask("small", size=(16, 12)))
        def g(block):
            return block.camera_image[:, ::4, ::4, :1]
    """  # fmt: skip
    run(takeset, takes / "a", tmp_path / "plain", simple(tmp_path, source, "f", "g"))
    file = simple(tmp_path, source, "f", "g", {"resize-image": box})
    run(takeset, takes / "a", tmp_path / "out", file)
    with h5py.File(tmp_path / "plain/episodes/a.h5") as plain, h5py.File(tmp_path / "out/episodes/a.h5") as shard:
        whole, mask, image = plain["data/demo_0/obs/bright"][:], shard["data/demo_0/obs/bright"][:], shard["data/demo_0/obs/camera_image"]
        assert mask.shape[:3] == image.shape[:3]
        height, width = whole.shape[1:3]
        scale = max(box["width"] / width, box["height"] / height) if "mode" in box else box["width"] / width
        tall, wide = round(height * scale), round(width * scale)
        nearest = whole[:, ((np.arange(tall) + 0.5) * height / tall).astype(int)][:, :, ((np.arange(wide) + 0.5) * width / wide).astype(int)]
        top, left = (tall - mask.shape[1]) // 2, (wide - mask.shape[2]) // 2
        assert np.array_equal(mask, nearest[:, top : top + mask.shape[1], left : left + mask.shape[2]])
        if "mode" not in box:
            assert np.array_equal(shard["data/demo_0/obs/small"], plain["data/demo_0/obs/small"])
    assert traced(takeset, tmp_path / "out", "a", 3, "--python", sys.executable)["reproduced"] is True


def test_random_numbers_go_on_over_blocks_beside_other_steps(takeset, takes, tmp_path):
    file = simple(tmp_path, """
        @steps.rows(reads=["camera_image"], writes=steps.Image("camera_image"))
        def image(block):
            return block.camera_image + np.random.randint(0, 2, block.camera_image.shape, np.uint8)

        @steps.rows(reads=["camera_image"], writes=steps.Vector("r", ["r"]))
        def numbers(block):
            return np.random.rand(len(block))
    """, "image", "numbers")  # fmt: skip
    run(takeset, takes, tmp_path / "out", file)
    np.random.seed(0)
    expected = np.concatenate([np.random.rand(16), np.random.rand(14)]).astype(np.float32)
    for path in (tmp_path / "out/episodes").glob("*.h5"):
        with h5py.File(path) as shard:
            np.testing.assert_array_equal(shard["data/demo_0/obs/r"][:, 0], expected)


@pytest.mark.parametrize("isolate", ["always", "never"])
def test_what_a_failed_step_keeps_is_never_overwritten(takeset, takes, tmp_path, isolate):
    """An array that a module keeps beyond a take whose step raised an exception, and one in a cycle."""
    file = simple(tmp_path, """
        KEPT = []

        class Cycle:
            def __init__(self, images):
                self.images, self.own = images, self

        @steps.rows(reads=["camera_image"], writes=steps.Vector("x", ["x"]))
        def f(block):
            for view, copy in KEPT:
                assert np.array_equal(view, copy), "overwritten"
            KEPT.append((block.camera_image[2:4], block.camera_image[2:4].copy()))
            Cycle(block.camera_image)
            if block.take.id == "a":
                raise ValueError("on purpose")
            return block.camera_image.mean(axis=(1, 2, 3))
    """, "f")  # fmt: skip
    done = run(takeset, takes, tmp_path / "out", file, "--jobs", 1, "--isolate", isolate, check=3)
    assert "on purpose" in done.stderr and "overwritten" not in done.stderr
    assert [take["outcome"] for take in content(tmp_path / "out")[1]["takes"]] == ["failed", "written", "written"]


def test_a_step_that_changes_during_a_run_makes_no_rows(takes, takeset, tmp_path):
    """A host that is started later has to load what the command has loaded."""
    file = simple(tmp_path, """
        import os, pathlib
        FACTOR = 1

        @steps.rows(reads=["pose"], writes=steps.Vector("x", ["x"]))
        def f(block):
            if block.take.id == "a":
                (pathlib.Path(__file__).parent / "go").read_bytes()  # Until the other end is closed.
                os._exit(0)
            return FACTOR * block.pose[:, 0]
    """, "f")  # fmt: skip
    os.mkfifo(tmp_path / "go")
    command = [BINARY, "run", takes, "--output", tmp_path / "out", "--pipeline", file, "--jobs", "1", "--isolate", "never", "--python", sys.executable]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with open(tmp_path / "go", "wb"):  # As soon as the step has opened it.
        (tmp_path / "step.py").write_text((tmp_path / "step.py").read_text().replace("FACTOR = 1", "FACTOR = 2"))
    process.communicate(timeout=300)
    takes = content(tmp_path / "out")[1]["takes"]
    assert [take["outcome"] for take in takes] == ["failed"] * 3 and all("changed since the command began" in take["reason"] for take in takes[1:])


@pytest.mark.parametrize("isolate", ["never", "always"])
def test_a_file_that_changes_while_a_step_may_read_it_fails_the_takes(takeset, takes, tmp_path, isolate):
    file = simple(tmp_path, """
        import pathlib

        HERE = pathlib.Path(__file__).parent

        @steps.rows(reads=["pose"], writes=steps.Vector("f", ["f"]))
        def f(block):
            factor = float((HERE / "factor.txt").read_text())
            if block.take.id == "a":
                (HERE / "go").read_bytes()  # Until the other end is closed.
            return factor * block.pose[:, 0]
    """, {"python": {"file": "step.py", "files": ["factor.txt"]}})  # fmt: skip
    (tmp_path / "factor.txt").write_text("1")
    os.mkfifo(tmp_path / "go")
    command = [BINARY, "run", takes, "--output", tmp_path / "out", "--pipeline", file, "--jobs", "1", "--isolate", isolate, "--python", sys.executable]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with open(tmp_path / "go", "wb"):
        (tmp_path / "factor.txt").write_text("2")
    process.communicate(timeout=300)
    takes = content(tmp_path / "out")[1]["takes"]
    assert [take["outcome"] for take in takes] == ["failed"] * 3 and all("factor.txt was changed while takes were converted" in take["reason"] for take in takes)
    assert not list((tmp_path / "out/episodes").iterdir())


def test_files_behind_links_and_of_other_steps_are_seen(takeset, takes, tmp_path):
    """A folder that is a link, and a step that reads what lies in another step's folder."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/one.txt").write_text("1")
    (tmp_path / "real/s.py").write_text("import pathlib\nfrom takeset import steps\n@steps.rows(reads=['pose'], writes=steps.Vector('x', ['x']))\ndef f(block):\n    return float(pathlib.Path(__file__).resolve().with_name('one.txt').read_text()) * block.pose[:, 0]\n")
    (tmp_path / "real/below").mkdir()
    (tmp_path / "real/below/t.py").write_text("import pathlib\nfrom takeset import steps\nONE = float((pathlib.Path(__file__).parent / '../one.txt').read_text())\n@steps.rows(reads=['pose'], writes=steps.Vector('y', ['y']))\ndef f(block):\n    return ONE * block.pose[:, 1]\n")
    file = tmp_path / "pipeline.yaml"
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: link/s.py}]\n")
    run(takeset, takes, tmp_path / "out", file, check=3)
    assert all("one.txt is no part of the step" in take["reason"] for take in content(tmp_path / "out")[1]["takes"])
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: link/s.py, files: [link/one.txt]}]\n")
    run(takeset, takes, tmp_path / "named", file)
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: real/s.py, files: [real/one.txt]}, python: {file: real/below/t.py}]\n".replace("[align: {}, python:", "[align: {}, {python:").replace("]}, python: {file: real/below/t.py}", "]}}, {python: {file: real/below/t.py}}"))
    assert "one.txt is no part of the step" in run(takeset, takes, tmp_path / "refused", file, check=64).stderr


def test_a_step_that_is_a_link_is_recorded_by_its_bytes(takeset, takes, tmp_path):
    """The file and one that it reads are links to another folder: a change there is another pipeline; traced, and planned for a cluster."""
    (tmp_path / "real").mkdir()
    (tmp_path / "pipes").mkdir()
    for name, text in {
        "step.py": "import beside\nfrom takeset import steps\n@steps.rows(reads=['pose'], writes=steps.Vector('x', ['x']))\ndef f(block):\n    return beside.two * block.pose[:, 0]\n",
        "beside.py": "import pathlib\ntwo = float((pathlib.Path(__file__).parent / 'two.txt').read_text())\n", "two.txt": "2",
    }.items():  # fmt: skip
        (tmp_path / "real" / name).write_text(text)
        (tmp_path / "pipes" / name).symlink_to(f"../real/{name}")
    (tmp_path / "pipes/beside.py").unlink()
    (tmp_path / "real/beside.py").rename(tmp_path / "pipes/beside.py")
    file = tmp_path / "pipes/pipeline.yaml"
    file.write_text("version: 1\ntransforms: [align: {}, python: {file: step.py, files: [two.txt]}]\n")
    run(takeset, takes, tmp_path / "out", file)
    recorded = content(tmp_path / "out")[1]["pipeline"]["transforms"][1]["python"]["recorded"]["digests"]
    assert recorded == {name: hashlib.sha256((tmp_path / "pipes" / name).read_bytes()).hexdigest() for name in ("beside.py", "step.py", "two.txt")}
    assert traced(takeset, tmp_path / "out", "a", 3, "--python", sys.executable)["reproduced"] is True
    takeset("plan", takes, "--output", tmp_path / "tasks", "--tasks", "--pipeline", file, check=0, env=ENVIRONMENT)
    takeset("convert", tmp_path / "tasks", "--task", 0, check=0, env=ENVIRONMENT)
    (tmp_path / "real/step.py").write_text((tmp_path / "real/step.py").read_text() + "\n")
    assert "another pipeline" in run(takeset, takes, tmp_path / "out", file, check=64).stderr
    assert "step.py changed" in traced(takeset, tmp_path / "out", "a", 3, "--python", sys.executable, check=2)["unavailable"]
