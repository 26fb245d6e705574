"""The Python package: the code in its documents runs and prints what they say."""

import ast
import re
import subprocess
import tomllib

import pytest
from command import BINARY, ROOT

import takeset as package

EXAMPLES = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)


@pytest.fixture(scope="module")
def example(takeset, tmp_path_factory):
    """A folder with the example sessions and the dataset that `make dataset` makes of them."""
    root = tmp_path_factory.mktemp("package-docs")
    subprocess.run([ROOT / "scripts/make-examples", BINARY, root / "sessions"], check=True, stdout=subprocess.DEVNULL)
    takeset.convert(root / "sessions", output=root / "dataset")
    return root


@pytest.mark.parametrize("document", ["docs/python.md", "python/README.md"])
def test_examples_print_what_the_document_says(document, example, monkeypatch, capsys):
    monkeypatch.chdir(example)
    monkeypatch.setenv("TAKESET", str(BINARY))
    found = [(code, printed) for code, printed in EXAMPLES.findall((ROOT / document).read_text()) if "torch import" not in code]
    assert len(found) >= 1 and any(printed for _, printed in found) == (document == "docs/python.md")
    for code, printed in found:
        names = {"takeset": package}
        exec(code, names)
        if "ds" in names:
            names["ds"].close()
        said = capsys.readouterr().out
        assert said == printed if printed else True, code


def test_the_page_names_every_public_name_of_the_package():
    page = (ROOT / "docs/python.md").read_text()
    attributes = [name for kind in (package.Dataset, package.Episode, package.Stream) for name in vars(kind) if not name.startswith("_")]
    missing = [name for name in attributes if not re.search(rf"\b{name}\b", page)]
    assert missing == []


def test_the_extras_of_the_documents_are_those_of_the_package():
    extras = set(tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]["optional-dependencies"])
    readme = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "python/README.md").read_text(), re.M))
    assert extras == readme and extras >= {"images", "torch", "pandas", "lerobot", "rerun"}


@pytest.mark.parametrize("name", ["Dataset", "Episode", "Stream", "Statistics", "Camera", "Finding", "Imu", "convert", "open"])
def test_every_public_name_is_documented(name):
    item = getattr(package, name)
    assert item.__doc__ and len(item.__doc__) > 40 and name in package.__all__
    if isinstance(item, type):
        members = {key: member for key, member in vars(item).items() if not key.startswith("_")}
        undocumented = [key for key, member in members.items() if (callable(member) or isinstance(member, property)) and not member.__doc__]
        assert undocumented == []


@pytest.mark.parametrize("module, count", [("torch", 7), ("rerun", 4), ("lerobot/_export", 2)])
def test_every_public_name_of_the_modules_that_need_more_packages_is_documented(module, count):
    """Read from their sources, because those packages may not be installed."""
    tree = ast.parse((ROOT / f"python/takeset/{module}.py").read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    items = [item for node in (tree, *classes) for item in node.body if isinstance(item, (ast.ClassDef, ast.FunctionDef))]
    documented = {item.name: ast.get_docstring(item) for item in items if not item.name.startswith("_")}
    assert len(documented) == count and [name for name, text in documented.items() if not text] == []
