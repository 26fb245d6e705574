"""Messages to the person at the terminal: mistakes with their remedy, warnings as they occur, summaries, color, help."""

import json
import os
import re
import shutil

import pytest
from command import BINARY, ROOT
from outputs import manifest
from session_faults import V1, V2
from system import shown_on_terminal

# Mistakes in the command line and in pipeline files


@pytest.mark.parametrize("arguments, words", [
    (["run"], ["<input>"]), (["run", "x"], ["--output"]), (["fly"], ["fly"]),
    (["run", "x", "--output", "y", "--jobs", "0"], ["--jobs"]), (["run", "x", "--output", "y", "--rush"], ["--rush"]),
    (["rnu", "x"], ['no command "rnu"', "did you mean run?"]),
    (["help", "rnu"], ['no command "rnu"', "did you mean run?"]),
    (["run", "x", "--ouput", "d"], ["no option --ouput", "did you mean --output?"]),
    (["inspect", "x", "--jsn"], ["--json"]),
    (["steps", "blur"], ["blur"]),
    (["steps", "resize"], ["did you mean resize-image?"]),
    (["explain", "pose-jmp"], ["did you mean pose-jump?"]),
])
def test_a_mistake_in_the_command_line_is_named_with_a_suggestion(takeset, tmp_path, arguments, words):
    done = takeset(*arguments, check=64, cwd=tmp_path)
    assert done.stderr.startswith("takeset: ") and "Error:" not in done.stderr and done.stdout == ""
    assert all(word in done.stderr.splitlines()[0] for word in words), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text, path, words, place", [
    ("transforms:\n- align:\n  tolerance: 0.1\n", "transforms[0]", ['"tolerance" is next to align', "indent"], (3, 3)),
    ("transforms:\n- align: {method: cubic}\n", "transforms[0].align.method", ["nearest or linear", 'found the text "cubic"'], (3, 11)),
    ("transforms:\n- align: {method: liner}\n", "transforms[0].align.method", ["did you mean linear?"], (3, 11)),
    ("transforms:\n- align\n- resize: {width: 3}\n", "transforms[1].resize", ['did you mean "resize-image"?'], (4, 3)),
    ("transforms:\n- align\n- resize-image: {widht: 3}\n", "transforms[1].resize-image.widht", ['did you mean "width"?'], (4, 18)),
    ("transfroms:\n- align\n", "transfroms", ['did you mean "transforms"?'], (2, 1)),
    ("align: {}\n", "align", ["is a step", "transforms:"], (2, 1)),
    ("transforms: {align: {}}\n", "transforms", ["expected a list of steps", "dash"], (2, 1)),
    ("transforms:\n- align: {}\n  split: {}\n", "transforms[0]", ["its own dash"], (3, 3)),
    ("transforms: [align, decimate]\n", "transforms[1].decimate", ['"every" or "rate"'], None),
    ("transforms: [align, drop-frames]\n", "transforms[1].drop-frames", ["at least one"], None),
    ("transforms: [align, resize-image]\nwriter: {hdf5: {image: jpeg-source}}\n", "writer.hdf5.image", ["resize-image"], (3, 17)),
    ("transforms: [align, split: {seed: -9223372036854775808}]\n", "transforms[1].split.seed", ["expected a whole number"], (2, 29)),
    ("transforms: [align, decimate: {rate: .inf}]\n", "transforms[1].decimate.rate", ["expected a finite number"], (2, 32)),
    ("transforms: [align, align: {tolerance: .nan}]\n", "transforms[1].align.tolerance", ["expected a finite number"], (2, 29)),
    ("transforms:\n\t- align: {}\n", "not YAML", ["spaces, not tabs"], (3, 1)),
])
def test_a_slip_in_a_pipeline_file_is_named_with_its_place_and_remedy(takeset, tmp_path, masters, text, path, words, place):
    (tmp_path / "p.yaml").write_text("version: 1\n" + text)
    done = takeset("run", masters["v1"], "--output", tmp_path / "out", "--pipeline", tmp_path / "p.yaml", check=64)
    assert f"p.yaml: {path}" in done.stderr and all(word in done.stderr for word in words), done.stderr
    if place:
        assert done.stderr.rstrip().endswith(f"(line {place[0]}, column {place[1]})"), done.stderr
    assert not (tmp_path / "out").exists()
    assert takeset("plan", masters["v1"], "--pipeline", tmp_path / "p.yaml", check=64).stderr == done.stderr


def test_a_path_that_does_not_exist_is_the_same_to_every_command(takeset, tmp_path):
    missing = tmp_path / "nowhere"
    for arguments in ["run", missing, "--output", tmp_path / "out"], ["inspect", missing], ["plan", missing], ["verify", missing], ["pack", missing, "--output", tmp_path / "p.h5"]:
        assert "no such file or directory" in takeset(*arguments, check=1).stderr
    assert not (tmp_path / "out").exists()


# Runs


@pytest.fixture
def mixed(sessions):
    """One take without problems, one with a warning, one that fails, one that is rejected."""
    (sessions / V2 / "rgb/000005.jpg").unlink()
    shutil.copytree(sessions / V1, sessions / "session_empty")
    (sessions / "session_empty/poses.json").write_text("[")
    (sessions / "session_raw/rgb").mkdir(parents=True)
    for number in range(20):
        shutil.copy(sessions / V1 / "rgb/000000.jpg", sessions / f"session_raw/rgb/{number:06d}.jpg")
    (sessions / "session_raw/metadata.json").write_text('{"captureSource": "iphone_ultrawide"}')
    return sessions


def test_a_run_shows_warnings_as_they_occur_and_ends_with_the_worst_first(takeset, mixed, tmp_path):
    done = takeset.convert(mixed, output=tmp_path / "out", check=3)
    assert "      warning image-missing: poses whose image" in done.stderr.replace(" (1x)", "")
    assert "session_raw: rejected: needs-slam" in done.stderr and "session_empty: failed: poses.json" in done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["failed", "session_empty"], ["rejected", "session_raw"], ["warning", V2]]
    assert "image-missing" in lines[2]
    assert lines[3] == f"{tmp_path / 'out'}: 2 written, 1 rejected, 1 failed, 89 frames; 1 with warnings"
    assert lines[4].startswith("Look closer: takeset inspect ") and len(lines) == 5


def test_a_warning_fails_the_command_if_asked_also_when_nothing_is_left_to_do(takeset, mixed, tmp_path):
    inputs = mixed / V1, mixed / V2
    takeset.convert(*inputs, output=tmp_path / "out")
    takeset.convert(*inputs, output=tmp_path / "out", check=3, arguments=["--fail-on", "warning"])
    takeset.convert(*inputs, output=tmp_path / "new", check=3, arguments=["--fail-on", "warning"])
    assert len(manifest(tmp_path / "new")["record"]["takes"]) == 2
    takeset.convert(mixed / V1, output=tmp_path / "good", arguments=["--fail-on", "warning"])


def test_a_terminal_shows_rejected_takes_and_warnings(mixed, tmp_path):
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    code, shown = shown_on_terminal([BINARY, "run", mixed, "--output", tmp_path / "out"], env=environment)
    assert code == 3
    assert "4/4 takes" in shown and "frames/s" in shown and "MB/s" in shown and "ETA" in shown
    assert "rejected\x1b[0m: needs-slam" in shown and "image-missing" in shown and "session_empty" in shown
    assert f"{V1}: " not in shown, "takes without problems are in the bar"
    # No line is longer than the terminal, which pty makes 80 columns wide at least.
    assert all(len(part.split("\x1b[K")[0]) < 200 for part in shown.split("\r"))


def test_quiet_prints_problems_only_and_verbose_lists_all(takeset, mixed, tmp_path):
    done = takeset("run", mixed / V1, "--output", tmp_path / "one", "--quiet", check=0)
    assert done.stdout == done.stderr == ""
    done = takeset("run", mixed, "--output", tmp_path / "all", "--quiet", check=3)
    assert done.stdout == "" and "session_empty: failed" in done.stderr
    assert takeset("verify", tmp_path / "one", "--quiet", check=0).stdout == ""
    assert takeset("run", mixed, "--output", tmp_path / "x", "--quiet", "--verbose").returncode == 64


def test_color_is_for_terminals_unless_asked_for(takeset, mixed, tmp_path):
    def shown(*arguments, **environment):
        return takeset("inspect", mixed, "--summary", *arguments, check=3, env={**os.environ, **environment}).stdout

    assert "\x1b[" not in shown() and "\x1b[31mfailed" in shown("--color", "always")
    assert "\x1b[" not in shown("--color", "never") and "\x1b[31m" in shown("--color", "always", NO_COLOR="1")


# Inspecting


def test_a_summary_has_a_line_for_each_take_worst_first(takeset, mixed):
    lines = takeset("inspect", mixed, "--summary", check=3).stdout.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["failed", "session_empty"], ["rejected", "session_raw"], ["warning", V2], ["ok", V1]]
    assert lines[-1] == "4 takes: 1 failed, 1 rejected, 1 with warnings, 1 without problems"


def test_a_dataset_is_inspected_as_what_it_holds(takeset, mixed, tmp_path):
    takeset.convert(mixed, output=tmp_path / "out", check=3)
    text = takeset("inspect", tmp_path / "out", check=0).stdout
    assert "4 takes: 1 failed, 1 rejected, 1 with warnings, 1 without problems" in text and "camera_image" in text
    takes = json.loads(takeset("inspect", tmp_path / "out", "--json", check=0).stdout)["takes"]
    assert {t["id"]: t["outcome"] for t in takes}["session_raw"] == "rejected"


# Help


def test_every_code_can_be_explained(takeset):
    pages = json.loads(takeset("explain", "--json", check=0).stdout)
    assert len(pages) > 130 and all(page["meaning"] and page["advice"] for page in pages)
    text = takeset("explain", "needs-slam", check=0).stdout
    assert text.startswith("needs-slam (rejected)") and "What to do: " in text
    listed = takeset("explain", check=0).stdout
    assert all(page["code"] in listed for page in pages)


def test_the_command_alone_shows_an_overview(takeset):
    text = takeset(check=0).stdout
    assert len(text.splitlines()) < 15 and "takeset run" in text and "takeset --help" in text


def test_a_report_of_a_problem_can_name_libraries_and_machine(takeset):
    text = takeset("--version", "--verbose", check=0).stdout
    assert text.startswith(takeset("--version", check=0).stdout.strip()) and "hdf5 " in text and "ffmpeg " in text and "Linux" in text


def test_generated_documents_are_up_to_date(takeset, tmp_path):
    for name in "schemas/pipeline.schema.json", "docs/pipeline.md", "docs/doctor.md", "docs/formats/folder.md", "docs/takeset.1":
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert takeset("generate-documents", tmp_path, check=0).stdout == "", "run make generate"
    (tmp_path / "docs/takeset.1").write_text("stale")
    assert takeset("generate-documents", tmp_path, check=0).stdout == "wrote docs/takeset.1\n"


@pytest.mark.parametrize("shell, word", [("bash", "complete"), ("zsh", "#compdef takeset"), ("fish", "complete")])
def test_completions_name_steps_and_codes(takeset, shell, word):
    script = takeset("--generate-completion-script", shell, check=0).stdout
    assert word in script and "resize-image" in script and "pose-jump" in script


def test_names_and_messages_of_takes_cannot_control_a_terminal(takeset, mixed, tmp_path):
    """Names of folders, files and fields with escape sequences, a color among them, a new title, a bell, and a C1 control."""
    evil = "\x1b[2J\x1b[31m\x1b]0;title\x07\r\x7f\x9b5A"
    root = tmp_path / "in"
    shutil.copytree(mixed / V1, root / f"one{evil}")
    shutil.copytree(mixed / V1, root / "two")
    pose = json.loads((root / "two/poses.json").read_text())
    (root / "two/poses.json").write_text(json.dumps(pose)[:-20] + evil)
    (root / f"video{evil}.mov").write_bytes(b"no movie")
    (root / f"file{evil}.zip").write_bytes(b"PK")
    commands = [
        ("inspect", root), ("inspect", root, "--color", "always"), ("plan", root), ("run", root, "--output", tmp_path / "out"),
        ("run", f"none{evil}", "--output", tmp_path / "out2"), ("inspect", tmp_path / "out"), ("verify", tmp_path / f"gone{evil}"), (f"verify{evil}",),
        ("run", root, "--output", tmp_path / "out", f"--option{evil}"), ("explain", evil),
    ]
    for command in commands:
        done = takeset(*command)
        shown = done.stdout + done.stderr
        if "always" in command:
            shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert shown.strip() and not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown), (command, shown)
    assert r"\u001B[2J\u001B[31m\u001B]0;title\u0007\u000D\u007F\u009B5A" in takeset("inspect", root).stdout + takeset("run", root, "--output", tmp_path / "new").stderr
    listed = json.loads(takeset("inspect", root, "--json").stdout)["takes"]
    assert sum(evil in take["path"] for take in listed) == 3


def test_a_line_break_in_a_name_begins_no_line(takeset, mixed, tmp_path):
    forged = "x\ntakeset: 9 takes: all sound"
    root = tmp_path / "in"
    shutil.copytree(mixed / V1, root / forged)
    for name in "dir", "good":
        (root / f"{name}{forged}").mkdir()
        (root / f"{name}{forged}" / forged).write_text("no take")
    shutil.copytree(mixed / V1, root / "two")
    (root / "two/rgb" / forged).write_text("no image")
    (root / f"file{forged}.zip").write_bytes(b"PK")
    os.symlink("nowhere", root / f"link{forged}")
    commands = [
        ("inspect", root), ("plan", root), ("run", root, "--output", tmp_path / "out"), ("run", root, "--output", tmp_path / "plain", "--progress", "plain"),
        ("run", root / f"none{forged}", "--output", tmp_path / "o"), ("inspect", tmp_path / "out"), ("verify", tmp_path / f"gone{forged}"),
    ]
    for command in commands:
        done = takeset(*command)
        shown = (done.stdout + done.stderr).splitlines()
        assert shown and not [line for line in shown if line.startswith("takeset: 9 takes")], command
