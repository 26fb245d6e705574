"""The documents match the code and the command."""

import json
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from command import BINARY, ROOT
from documents import blocks, small_simulations
from outputs import manifest

SWIFT = "\n".join(p.read_text() for folder in ("Sources", "Tests", "recorder/Sources") for p in sorted((ROOT / folder).rglob("*.swift")))


def test_the_table_of_quirks_has_each_row_once_and_names_the_tests_there_are():
    page = (ROOT / "Tests/python/readers/quirks.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \| `(test_\w+\.py)`: (.+) \|$", page, re.M)
    assert [int(row) for row, _, _, _ in rows] == [*range(1, 56), 60]
    for row, _, file, names in rows:
        tests = re.findall(rf"^def (test_row_{int(row):02}_\w+)\(", next((ROOT / "Tests/python").rglob(file)).read_text(), re.M)
        assert re.findall(r"`(\w+)`", names) == tests and tests, row


def test_links_between_documents_lead_somewhere():
    documents = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    documents += [ROOT / folder / "README.md" for folder in ("Benchmarks", "Sources", "Tests")]
    for document in documents:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_architecture_page_names_what_is_there():
    page = (ROOT / "Sources/README.md").read_text()
    for folder in [p for p in (ROOT / "Sources").iterdir() if p.is_dir()]:
        assert f"`{folder.name}`" in page
    for target in "Steps", "Datasets", "Runs", "Reports":
        for folder in [p for p in (ROOT / "Sources" / target).iterdir() if any(p.glob("*.swift"))]:
            assert f"`{target}/{folder.name}/`" in page or f"`{folder.name}/`" in page
    server = "\n".join(file.read_text() for file in (ROOT / "server/Sources").rglob("*.swift"))
    declared = set(re.findall(r"\b(?:struct|class|enum|protocol|typealias) (\w+)", SWIFT + server))
    for name in set(re.findall(r"`([A-Z][A-Za-z]+)`", page)) - {"NaN"}:
        assert name in declared or any((ROOT / folder / name).exists() for folder in ("Sources", "recorder/Sources", "server/Sources")), name


def test_no_target_imports_one_beside_or_above_it():
    """The lines of the picture, from the top; what the compiler enforces is in Package.swift."""
    page = (ROOT / "Sources/README.md").read_text()
    picture = page[page.index("Package.swift` enforces this picture") : page.index("| target | holds |")]
    levels = {name: level for level, line in enumerate(picture.splitlines()) if line.startswith("    ") for name in line.split()}
    described = json.loads(subprocess.run(["swift", "package", "describe", "--type", "json"], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    drawn = {target["name"]: target.get("target_dependencies", []) for target in described["targets"] if target["name"] in levels}
    assert drawn.keys() == levels.keys()
    swift = {t["name"] for t in described["targets"] if t["type"] in ("library", "executable") and t["module_type"] == "SwiftTarget"}
    assert swift - levels.keys() == {"TestSupport"}
    for target, below in drawn.items():
        for other in set(below) & levels.keys():
            assert levels[other] > levels[target], f"{target} imports {other}"


def test_every_package_in_the_documents_command_is_installed_by_make():
    script = (ROOT / "scripts/install-packages").read_text()
    for target in re.findall(r'system\("\w+", "[^"]+", "([^"]+)"\)', (ROOT / "Package.swift").read_text()):
        assert target in script


# The README is a transcript, and so is the page of commands


@pytest.fixture(scope="module")
def example(takeset, tmp_path_factory):
    """The files that `make dataset` creates under build/, made by the same script."""
    root = tmp_path_factory.mktemp("readme")
    subprocess.run([ROOT / "scripts/make-examples", BINARY, "build/examples/sessions"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    takeset("run", "build/examples/sessions", "--output", "build/dataset", cwd=root, check=0)
    return root


def test_commands_of_the_page_print_what_it_says(takeset, example):
    seen = []
    for block in blocks("docs/commands.md", "console"):
        for command, expected in re.findall(r"^\$ takeset (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            done = takeset(*command.split(), cwd=example, check=0)
            assert done.stdout == expected
            seen.append(command.split()[0])
    assert seen == ["inspect", "verify"]


def test_lines_of_the_readme_about_make_dataset_are_the_commands_own(takeset, example):
    text = "".join(blocks("README.md", "console"))
    again = takeset("run", "build/examples/sessions", "--output", "build/dataset", cwd=example, check=0)
    assert "nothing to do (2 unchanged" in again.stdout
    fresh = takeset("run", "build/examples/sessions", "--output", "build/fresh", "--jobs", "1", cwd=example, check=0)
    assert fresh.stdout.replace("build/fresh", "build/dataset") in text
    for line in fresh.stderr.splitlines():
        assert re.sub(r"[0-9.]+ s$", "", line) in text


def test_the_example_sessions_give_no_finding(example):
    """Their names and times agree, and joints are from after the change of firmware."""
    record = manifest(example / "build/dataset")["record"]
    assert record["findings"] == [] and [t["findings"] for t in record["takes"]] == [[], []]
    for take in record["takes"]:
        start = json.loads((example / "build/examples/sessions" / take["id"] / "metadata.json").read_text())["startTime"]
        assert start == f"{take['id'][8:18]}T{take['id'][19:21]}:{take['id'][21:23]}:{take['id'][23:25]}Z"


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A folder in which somebody has run the README's lines, to the plot."""
    root = tmp_path_factory.mktemp("followed")
    environment = small_simulations(root, "160x120") | {"PYTHONPATH": str(ROOT / "python"), "MPLBACKEND": "Agg"}
    (shell,), (python,) = blocks("README.md", "sh"), blocks("README.md", "python")
    assert len(shell.splitlines()) + len(python.splitlines()) <= 20
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", shell], cwd=root, env=environment, capture_output=True, text=True, check=True)
    subprocess.run([sys.executable, "-c", python], cwd=root, env=environment, check=True)
    return root, done.stdout


@pytest.mark.slow
def test_the_first_lines_of_the_readme_lead_to_a_plot(followed):
    root, printed = followed
    assert "dataset/: ready for robomimic; 8 episodes" in printed
    assert (root / "first.png").read_bytes().startswith(b"\x89PNG")


VERDICTS = {
    "robomimic": ("robomimic", "robomimic"), "diffusion policy, UMI": ("diffusion-policy", "diffusion-policy"), "LeRobot 3.0": ("lerobot", "lerobot"),
    "ACT, ALOHA": ("act", "aloha"), "nerfstudio": ("nerf", "nerfstudio"),
}


@pytest.mark.slow
def test_the_verdicts_of_the_readme_are_the_doctors(takeset, followed):
    root, _ = followed
    takeset("simulate", "stray-scanner", "--output", root / "scans/scan", "--seconds", 2, "--size", "320x240", "--depth-size", "64x48", check=0)
    for day in 1, 2:
        takeset.simulate(root / f"short/session_2026-03-0{day}_120000", "--variant", "v2", "--seconds", 2, "--seed", day, "--start-time", f"2026-03-0{day}T12:00:00Z")
    said = dict(re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([^|]+?) \|$", (ROOT / "README.md").read_text(), re.M))
    (options,) = re.findall(r"`takeset export --to aloha (--.*?)`", (ROOT / "README.md").read_text())
    for program, (use, loader) in VERDICTS.items():
        takeset("init", "--for", use, "--output", root / f"{use}.yaml", "--replace", check=0)
        # Images for ACT are large: of short takes they are enough.
        inputs = {"nerf": [root / "scans"], "act": [root / "short"]}.get(use, [root / "takes"])
        takeset("run", *inputs, "--output", root / use, "--pipeline", root / f"{use}.yaml", check=0)
        last = takeset("verify", "--for", loader, root / use).stdout.splitlines()[-1]
        verdict = re.search(r": (?:(ready) for [a-z-]+(, \d+ warnings?)?|(\d+ problems)[^;]*);", last)
        found = (verdict[1] or "") + (verdict[2] or "") + (verdict[3] or "")
        assert said[program] == found or said[program].startswith(found + ", "), (program, last)
        if use == "act":  # the options that the page names solve the problems
            takeset("export", root / "act", "--to", "aloha", *options.split(), "--output", root / "exported", check=0)
        shutil.rmtree(root / use)


def test_the_first_page_is_short_and_its_picture_small():
    assert len((ROOT / "README.md").read_bytes()) < 8192 and (ROOT / "docs/images/overview.png").stat().st_size < 100_000


def test_no_sentence_stands_on_two_pages():
    """What is said twice is mended once. Sentences, list items and cells of tables of ten words or more, without code."""
    found = {}
    for page in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("*.md"), ROOT / "Sources/README.md", ROOT / "Benchmarks/README.md"]:
        text = re.sub(r"\n(?!\n)", " ", re.sub(r"```.*?```", "", page.read_text(), flags=re.S))
        for sentence in re.split(r"(?<=[.!?:])\s+|\||\s\* ", text):
            words = re.sub(r"[^a-z0-9 ]", "", sentence.lower()).split()
            if len(words) >= 10 and page.name != "CHANGELOG.md":
                found.setdefault(" ".join(words), set()).add(str(page.relative_to(ROOT)))
    assert len(found) > 1000
    assert {words: pages for words, pages in found.items() if len(pages) > 1} == {}


def test_the_pipelines_of_the_documents_are_accepted_and_one_is_the_default(takeset, example):
    (one,) = blocks("docs/commands.md", "yaml")
    (default,) = [textwrap.dedent(t) for t in re.findall(r"((?:    .*\n)+)", (ROOT / "docs/pipeline.md").read_text()) if "version:" in t]
    for text in one, default:
        (example / "p.yaml").write_text(text)
        takeset("plan", "build/examples/sessions", "--pipeline", "p.yaml", cwd=example, check=0)
    done = takeset("run", "build/examples/sessions", "--output", "build/dataset", "--pipeline", "p.yaml", cwd=example, check=0)
    assert "nothing to do" in done.stdout


def test_the_table_of_reader_options_has_those_of_every_reader(takeset):
    table = (ROOT / "docs/pipeline.md").read_text().split("<!-- generated: options of readers -->\n")[1].split("<!-- end -->")[0]
    readers = [step for step in json.loads(takeset("steps", "--json", check=0).stdout) if step["kind"] == "reader"]
    found, named = set(), []
    for cells in [re.split(r" \| ", line.strip("| ")) for line in table.splitlines()[2:]]:
        everyone = {step["name"] for step in readers}
        named = named if cells[-1] == "as above" else everyone - {cells[-1][8:]} if cells[-1].startswith("all but ") else cells[-1].split(", ")
        found |= {(name, cells[0].strip("`"), json.dumps(json.loads(cells[1].strip("`"))), cells[3]) for name in named}
    assert found == {(step["name"], one["name"], json.dumps(one["default"]), one["help"]) for step in readers for one in step["options"]}


def test_the_model_imports_no_other_target():
    targets = {p.name for p in (ROOT / "Sources").iterdir() if p.is_dir()} | {"Yams"}
    for source in (ROOT / "Sources/Model").glob("*.swift"):
        assert not targets & set(re.findall(r"^(?:package |public |@\w+ )?import (\w+)", source.read_text(), re.M)), source.name
    (model,) = re.findall(r'\.target\(name: "Model"(.*)\)', (ROOT / "Package.swift").read_text())
    assert "dependencies" not in model
