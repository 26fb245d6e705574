"""takeset.steps: decorators, blocks by hand and of a dataset, what they say of missing streams; examples/steps/exposure.py and the page's code."""

import ast
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command import ROOT
from documents import blocks
from example_steps import FOLDER, images_block, load

import takeset as package
from takeset import steps
from takeset.steps import Block, Step

# Decorators


def test_decorators_say_what_a_function_reads_and_leave_it_as_it_is():
    def plain(block):
        return block.pose[:, :1]

    vector = steps.Vector("height", ["y"], unit="m")
    assert steps.rows(reads=["pose", "joints_valid"], writes=vector)(plain) is plain
    assert plain.takeset_step == Step("rows", ("pose", "joints_valid"), writes=vector)
    assert plain(Block({"pose": np.full((3, 7), 2.0)})).tolist() == [[2.0]] * 3

    keep = steps.keep(reads=["camera_image"], reason="too-dark")(lambda block: block)
    assert keep.takeset_step == Step("keep", ("camera_image",), reason="too-dark")

    @steps.labels(reads=iter(["pose"]))
    class Labels:
        pass

    assert Labels.takeset_step == Step("labels", ("pose",)) and isinstance(Labels, type)


def test_one_name_is_a_list_of_one():
    assert steps.labels(reads="camera_image")(lambda block: {}).takeset_step.reads == ("camera_image",)
    assert steps.Vector("a", "width").elements == ("width",)


def test_what_a_step_writes_has_defaults():
    assert steps.Vector("speed") == steps.Vector("speed", ["value"], unit="1")
    assert steps.Vector("grip", (name for name in ("left", "right")), "m").elements == ("left", "right")
    assert steps.Image("camera_image").size is None and steps.Mask("hand", size=(8, 6)).size == (8, 6)
    assert steps.Image("a") != steps.Mask("a")
    with pytest.raises(AttributeError):
        steps.Vector("speed").unit = "m"


def test_only_keywords_are_taken():
    for decorator in steps.rows, steps.keep, steps.labels:
        with pytest.raises(TypeError):
            decorator(["pose"])


# Blocks by hand


def test_a_block_has_defaults_for_all_but_its_streams():
    block = Block({"camera_image": np.zeros((4, 6, 8, 3), np.uint8), "pose": np.zeros((4, 7), np.float32)})
    assert len(block) == 4 and block.camera_image.shape == (4, 6, 8, 3)
    assert {name: valid.tolist() for name, valid in block.valid.items()} == {"camera_image": [True] * 4, "pose": [True] * 4}
    assert block.time_ns.tolist() == [0] * 4 and block.time_ns.dtype == np.int64
    assert block.first == 0 and block.options == {} and block.take.id == "take"
    assert repr(block) == "<steps.Block: 4 rows from row 0 of 'take': camera_image (4, 6, 8, 3), pose (4, 7)>"
    assert repr(Block({})) == "<steps.Block: 0 rows from row 0 of 'take': no streams>" and len(Block({})) == 0


def test_a_block_has_what_it_is_given():
    valid = {"pose": np.array([True, False])}
    block = Block({"pose": np.zeros((2, 7))}, valid=valid, time_ns=np.array([0, 33]), first=64, options={"low": 4}, take=steps.Take("a.1", "stray"))
    assert block.valid is valid and block.time_ns.tolist() == [0, 33] and block.options == {"low": 4}
    assert repr(block) == "<steps.Block: 2 rows from row 64 of 'a.1': pose (2, 7)>"


def test_a_stream_that_is_not_read_is_named():
    block = Block({"pose": np.zeros((2, 7)), "joints": np.zeros((2, 4))})
    with pytest.raises(AttributeError, match=r"^the block has no stream camera_image; the step reads joints, pose \(name it in reads=\[\.\.\.\]\)$"):
        block.camera_image
    with pytest.raises(AttributeError, match=r"the step reads nothing"):
        Block({}).pose
    assert not hasattr(block, "camera_image") and getattr(block, "camera_image", None) is None


def test_the_module_needs_numpy_alone():
    imported = "import sys; import steps; print(sorted({name.partition('.')[0] for name in sys.modules} & {'h5py', 'takeset', 'PIL', 'numpy'}))"
    done = subprocess.run([sys.executable, "-c", imported], cwd=ROOT / "python/takeset", capture_output=True, text=True)
    assert done.stdout == "['numpy']\n", done.stderr


# Blocks of a dataset


def test_a_block_of_an_episode_has_its_rows(dataset):
    with package.open(dataset) as ds, h5py.File(dataset / "dataset.h5") as file:
        for episode in ds:
            stored = file[f"data/{episode.name}/obs"]
            block = Block.of(episode, rows=slice(3, 9), options={"a": 1})
            assert len(block) == 6 and block.first == 3 and block.options == {"a": 1}
            assert (block.take.id, block.take.reader) == (episode.id, episode.reader)
            assert block.time_ns.tolist() == episode.times_ns[3:9].tolist()
            for key in episode:
                assert np.array_equal(getattr(block, key), stored[key][3:9], equal_nan=stored[key].dtype.kind == "f")
                assert block.valid[key].tolist() == episode[key].valid[3:9].tolist()
            assert block.camera_image.ndim == 4 and block.camera_image.dtype == np.uint8 and block.pose.dtype == np.float32


def test_masks_of_single_values_are_streams_too(dataset):
    with package.open(dataset) as ds, h5py.File(dataset / "dataset.h5") as file:
        masks = {}
        for episode in ds:
            block = Block.of(episode, rows=slice(0, 4))
            for name in "joints_valid", "camera_depth_valid":
                if hasattr(block, name):
                    masks[name] = getattr(block, name)
                    assert np.array_equal(masks[name], file[f"data/{episode.name}/obs/{name}"][:4]) and block.valid[name].all()
        assert masks["joints_valid"].shape == (4, 4) and masks["camera_depth_valid"].shape == (4, 48, 64, 1)


def test_rows_without_a_sample_are_masked_and_not_numbers(holes):
    with package.open(holes) as ds:
        block = Block.of(ds[1], rows=slice(0, len(ds[1])))
        masked = ~block.valid["joints"]
        assert 0 < masked.sum() < len(block) and np.isnan(block.joints[masked]).all()
        assert np.isfinite(block.joints[~masked]).all() and not block.joints_valid[masked].any()


def test_a_slice_of_rows_is_cut_at_the_end(dataset):
    with package.open(dataset) as ds:
        count = len(ds[0])
        assert len(Block.of(ds[0])) == min(count, 64)
        last = Block.of(ds[0], rows=slice(-5, None))
        assert len(last) == 5 and last.first == count - 5 and len(last.pose) == 5
        assert len(Block.of(ds[0], rows=slice(count + 10, None))) == 0 and len(Block.of(ds[0], rows=slice(9, 4)).pose) == 0
        with pytest.raises(ValueError, match=r"a block is of consecutive rows; the step of slice\(0, 8, 2\) is 2"):
            Block.of(ds[0], rows=slice(0, 8, 2))


def test_a_block_of_an_episode_reads_only_what_is_asked_for(dataset):
    with package.open(dataset) as ds:
        block = Block.of(ds[0], rows=slice(0, 3))
        assert repr(block).endswith("camera_depth, camera_depth_valid, camera_image, pose>")
        assert "pose" in block.valid and "joints" not in block.valid and block.valid.get("joints") is None
        assert block.pose is block.pose and "pose (3, 7)" in repr(block) and "camera_image," in repr(block)
        with pytest.raises(AttributeError, match=r"^the block has no stream joints; the episode has camera_depth, camera_depth_valid, camera_image, pose$"):
            block.joints


def test_the_arrays_belong_to_the_step(dataset):
    with package.open(dataset) as ds:
        block = Block.of(ds[0], rows=slice(0, 3))
        before = ds[0]["pose"][:3].copy()
        block.pose[:] = 7
        block.valid["pose"][:] = False
        block.time_ns[:] = 5
        assert np.array_equal(ds[0]["pose"][:3], before) and ds[0]["pose"].valid[:3].all() and ds[0].times_ns[:3].tolist() != [5] * 3


# The page's code

BRIGHTNESS, STEP_LENGTH, NOTEBOOK = blocks("docs/steps.md", "python")


def test_the_first_example_runs_on_a_dataset(dataset, tmp_path, monkeypatch, capsys):
    assert " ".join(BRIGHTNESS.split()) in " ".join(steps.__doc__.split())
    (tmp_path / "brightness.py").write_text(BRIGHTNESS)
    (tmp_path / "dataset").symlink_to(dataset)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = {}
    exec(NOTEBOOK, names)
    monkeypatch.delitem(sys.modules, "brightness")
    levels = names["brightness"](names["block"])
    images = names["episode"]["camera_image"][:64]
    assert levels.shape == (len(images), 1) and levels.dtype == np.float32
    assert levels[:, 0] == pytest.approx(images.astype(float).mean(axis=(1, 2, 3)), rel=1e-4)
    assert capsys.readouterr().out.startswith(f"<steps.Block: {len(images)} rows from row 0 of ")


def test_the_class_of_the_page_remembers_the_block_before():
    names = {"np": np, "steps": steps}
    exec(STEP_LENGTH, names)
    poses = np.zeros((6, 7), np.float32)
    poses[:, 0] = [0, 1, 3, 6, 10, 15]
    valid = np.array([True, True, True, True, False, True])
    for cuts in ([0, 6], [0, 2, 4, 6], [0, 5, 6]):
        step = names["StepLength"]({}, steps.Take("take", "none"))
        given = [step(Block({"pose": poses[a:b]}, valid={"pose": valid[a:b]}, first=a)) for a, b in zip(cuts, cuts[1:], strict=False)]
        lengths, known = (np.concatenate(parts) for parts in zip(*given, strict=True))
        assert known.tolist() == [True, True, True, True, False, False] and lengths[:4].tolist() == [[0], [1], [2], [3]]


# exposure.py


def test_exposure_keeps_what_is_neither_too_dark_nor_too_bright():
    exposure = load(FOLDER / "exposure.py").exposure
    assert exposure.takeset_step == Step("keep", ("camera_image",), reason="badly-exposed")
    images = np.stack([np.full((6, 8, 3), level, np.uint8) for level in (0, 39, 40, 120, 215, 216, 255)])
    kept = exposure(images_block(images))
    assert kept.dtype == bool and kept.tolist() == [False, False, True, True, True, False, False]
    assert exposure(images_block(images, low=100, high=130)).tolist() == [level == 120 for level in (0, 39, 40, 120, 215, 216, 255)]


def test_exposure_weighs_colors_as_the_eye_does():
    """Luma of Rec. 709: pure green is bright, pure blue is dark."""
    exposure = load(FOLDER / "exposure.py").exposure
    images = np.zeros((3, 4, 4, 3), np.uint8)
    for channel in range(3):
        images[channel, ..., channel] = 255  # 54.2, 182.4 and 18.4
    assert exposure(images_block(images)).tolist() == [True, True, False]
    assert exposure(images_block(images, low=54.3, high=182.3)).tolist() == [False, False, False]
    assert exposure(images_block(images, low=54.2, high=182.4)).tolist() == [True, True, False]


def test_exposure_keeps_rows_without_an_image():
    exposure = load(FOLDER / "exposure.py").exposure
    images = np.full((3, 4, 4, 3), 120, np.uint8)
    assert exposure(images_block(images, valid=[True, False, True], low=130)).tolist() == [False, True, False]


# Every example


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_it_is_used(path):
    tree = ast.parse(path.read_text())
    text = ast.get_docstring(tree)
    assert f"python: {{file: {path.name}" in text and "Options:" in text
    lines = path.read_text().splitlines()
    assert len(lines) < 90 and max(map(len, lines)) <= 140
    # Each option of the code is in the docstring, and the other way round.
    used = set(re.findall(r'options\.get\("([a-z-]+)"', path.read_text()))
    assert used == set(re.findall(r"^    ([a-z-]+)  +\S", text.split("Options:")[1], re.M))
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()
    if "import cv2" in path.read_text():
        assert "\ncv2.setNumThreads(1)\n" in path.read_text() and "opencv-python-headless" in text.replace("\n", " ")
