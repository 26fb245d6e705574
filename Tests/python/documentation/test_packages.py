"""The packages that `make packages` builds: what is in them, and whether they work in a bare system. Run by `make test-packages`."""

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import clean_roots
import pytest
from command import BINARY, ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import elf  # noqa: E402
import third_party  # noqa: E402

PACKAGES = Path(os.environ.get("TAKESET_PACKAGES", ROOT / "build/packages"))
FFMPEG = {"libavutil.so", "libavcodec.so", "libavformat.so", "libswscale.so"}
HERE = "/takes"


def product(pattern):
    found = sorted(PACKAGES.glob(pattern))
    assert len(found) == 1, f"{PACKAGES} should have one {pattern}, but has {[f.name for f in found]}; run make packages"
    return found[0]


@pytest.fixture(scope="module")
def version(takeset):
    return re.fullmatch(r"takeset (\S+).*\s*", takeset("--version", check=0).stdout)[1]


def fixture_of(pattern):
    """A fixture: the package whose name is like this."""
    return pytest.fixture(scope="module")(lambda: product(pattern))


wheel, tarball = fixture_of("takeset-*.whl"), fixture_of("takeset-*.tar.gz")
deb, server_deb = fixture_of("takeset_*.deb"), fixture_of("takeset-server_*.deb")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory, tarball, wheel, deb):
    """Each package, unpacked: name to the folder with bin, or with usr/bin."""
    root = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(tarball) as archive:
        archive.extractall(root / "tarball", filter="data")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(root / "wheel")
    subprocess.run(["dpkg-deb", "-x", deb, root / "deb"], check=True)
    return {
        "tarball": root / "tarball" / tarball.name.removesuffix(".tar.gz"), "wheel": next((root / "wheel").glob("*.data")), "deb": root / "deb/usr",
        "metadata": next((root / "wheel").glob("*.dist-info")),
    }


@pytest.fixture(scope="module")
def takes(tmp_path_factory, takeset):
    """A short take of every kind: images and depth, joints, a scan and a bundle with a video each, an H.264 and an HEVC video."""
    root = tmp_path_factory.mktemp("takes")
    takeset.simulate(root / "session_2026-01-31_120000", "--seconds", 1, "--size", "480x360", "--depth-size", "64x48")
    takeset.simulate(root / "session_2026-02-01_130000", "--variant", "v2", "--seconds", 1, "--seed", 7)
    small = ["--seconds", 0.5, "--size", "640x360"]
    takeset("simulate", "stray-scanner", "--output", root / "scan", *small, "--depth-size", "64x48", check=0)
    takeset("simulate", "realitycam-bundle", "--output", root / "pour", *small, check=0)
    takeset("simulate", "slow-motion-video", "--output", root / "slow", *small, check=0)
    hevc = ["--codec", "hevc", "--reordering", 2, "--name", "video_1771446009.mov"]
    takeset("simulate", "slow-motion-video", "--output", root / "hevc", *small, *hevc, check=0)
    return root


def digests(dataset):
    return {str(file.relative_to(dataset)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(dataset.rglob("*.h5"))}


@pytest.fixture(scope="module")
def expected(takes, tmp_path_factory, takeset):
    """Digests of the files that the command of `make build` makes of the takes, with the system's libraries."""
    output = tmp_path_factory.mktemp("expected") / "out"
    takeset.convert(takes, output=output)
    found = digests(output)
    assert len(found) == 7
    return found


def converts(root, command, takes, expected):
    """Converts the takes in a bare system and compares every byte; reads the manifest from outside."""
    shutil.copytree(takes, root.path / HERE[1:])
    root(command, "run", HERE, "--output", "/dataset", "--progress", "none")
    assert root(command, "verify", "/dataset").stdout.startswith("/dataset: sound;")
    assert digests(root.path / "dataset") == expected
    manifest = json.loads((root.path / "dataset/manifest.json").read_text())
    assert {take["outcome"] for take in manifest["record"]["takes"]} == {"written"}


def is_bare(root):
    """The system has no Swift, no files for building, and none of the libraries that a package has to bring."""
    assert root("sh", "-c", "command -v swift cc gcc", check=None).stdout == ""
    assert "-dev" not in root("dpkg-query", "-W", "-f", "${Package}\n").stdout
    assert not list(root.path.glob("usr/lib/x86_64-linux-gnu/libhdf5*")) and not list(root.path.glob("usr/lib/x86_64-linux-gnu/libavcodec*"))


# Quick tests of packaging/, which need no packages.


def test_the_tag_is_that_of_the_newest_symbol_of_glibc():
    if shutil.which("readelf") is None:
        pytest.skip("needs binutils")
    text = subprocess.run(["readelf", "--dyn-syms", "--wide", BINARY], capture_output=True, text=True, check=True).stdout
    newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"UND \S+@GLIBC_([\d.]+)", text))
    assert elf.manylinux([BINARY]) == f"manylinux_{newest[0]}_{newest[1]}_x86_64"


def test_a_library_whose_license_nobody_has_read_stops_the_build():
    gpl = elf.on_this_machine().get("libavcodec.so.59")
    if gpl is None:
        pytest.skip("needs Debian 12's libavcodec")
    with pytest.raises(LookupError, match="libavcodec59, whose license nobody has read"):
        third_party.library(gpl)


def test_a_library_that_is_missing_is_named(tmp_path):
    with pytest.raises(LookupError, match="which is not on this machine"):
        elf.closure([missing_library(tmp_path)], tmp_path / "own")


def test_the_page_about_installing_matches_the_packages(version):
    page = (ROOT / "docs/install.md").read_text()
    assert set(re.findall(r"takeset[-_](\d+\.\d+\.\d+)", page)) == {version}
    table = page.split("## Licenses")[1].split("\n## ")[0]
    for name, license in third_party.LIBRARIES.values():
        row = next(row for row in table.splitlines() if row.startswith("|") and name.split(" (")[0] in row)
        assert all(part in row for part in license.split(" AND ")), name


def test_the_dockerfile_copies_from_stages_and_builds_targets_that_exist():
    text = (ROOT / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS ([\w-]+)$", text, re.MULTILINE)
    assert set(re.findall(r"COPY --from=([\w-]+)", text)) <= set(stages) and "debian" in stages
    makefile = (ROOT / "Makefile").read_text()
    made = " ".join(re.findall(r"&& make ([a-z -]+) &&", text)).split()
    assert {"tarball", "deb", "server-deb"} == set(made)
    for target in made:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def missing_library(folder):
    """A library that needs another one, which exists no longer."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    (folder / "own").mkdir()
    for name, text, links in ("gone", "int gone(void) { return 1; }", []), ("user", "int gone(void); int user(void) { return gone(); }", ["-lgone"]):
        (folder / f"{name}.c").write_text(text)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / f"lib{name}.so", folder / f"{name}.c", f"-L{folder}", *links], check=True)
    (folder / "libgone.so").unlink()
    return folder / "libuser.so"


# What is in the packages.


@pytest.mark.packages
@pytest.mark.parametrize("name", ["tarball", "wheel"])
def test_a_relocatable_package_has_every_library_and_finds_them_in_itself(unpacked, name):
    folder = unpacked[name] / ("lib/takeset" if name == "tarball" else "data/libexec/takeset")
    command = unpacked[name] / ("bin/takeset" if name == "tarball" else "scripts/takeset")
    carried = {file.name: file for file in folder.iterdir()}
    assert {re.sub(r"(\.so)\..*", r"\1", library) for library in carried} >= FFMPEG | {"libhdf5_serial.so", "libz.so", "libturbojpeg.so"}
    assert not [library for library in carried if re.match("lib(c|m|stdc|gcc|curl|gnutls|x26|swift)", library) and library != "libcrypto.so.3"]
    for file in [command, *carried.values()]:
        assert set(elf.needed(file)) <= carried.keys() | elf.EVERYWHERE, file.name
        path = elf.search_path(file)
        assert path.split(":")[0].startswith("$ORIGIN") and "/usr" not in path and "/work" not in path, file.name
        assert ".debug_info" not in subprocess.run(["readelf", "-SW", file], capture_output=True, text=True, check=True).stdout


@pytest.mark.packages
@pytest.mark.parametrize("name", ["tarball", "wheel", "deb"])
def test_a_package_names_nothing_of_the_machine_that_built_it(unpacked, name):
    for file in unpacked[name].rglob("*"):
        if file.is_file():
            assert str(ROOT).encode() not in file.read_bytes(), file


@pytest.mark.packages
def test_licenses_of_all_that_is_carried_come_with_it(unpacked):
    text = (unpacked["tarball"] / "THIRD-PARTY").read_text()
    assert text == (unpacked["metadata"] / "licenses/THIRD-PARTY").read_text()
    for library in (unpacked["tarball"] / "lib/takeset").iterdir():
        assert re.search(rf"^Files: .*\b{re.escape(library.name)}\b", text, re.MULTILINE), library.name
    licenses = dict(re.findall(r"^  (\S+(?: \S+)*)  +(\S.*)$", text.split("=" * 80)[0], re.MULTILINE))
    assert {"Swift", "ICU", "swift-argument-parser", "Yams", "libyaml", "FFmpeg", "HDF5"} <= {name.split()[0] for name in licenses}
    assert [license for name, license in licenses.items() if name.startswith("FFmpeg ")] == ["LGPL-2.1-or-later"]
    assert not [license for license in licenses.values() if license.startswith(("GPL", "AGPL"))]
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text and "UNICODE LICENSE V3" in text
    metadata = (unpacked["metadata"] / "METADATA").read_text()
    expression = re.search(r"^License-Expression: (.+)$", metadata, re.MULTILINE)[1]
    assert {part for license in licenses.values() if " WITH " not in license for part in license.split(" AND ")} <= set(expression.split(" AND "))
    # The source that the LGPL asks for is published with the packages.
    assert re.search(r"source\s+package ffmpeg (\S+),", text)[1].split(":")[-1] in next((PACKAGES / "sources").glob("ffmpeg_*.dsc")).name
    assert list((PACKAGES / "sources").glob("ffmpeg_*.orig.tar.*"))
    debian = (unpacked["deb"] / "share/doc/takeset/copyright").read_text()
    assert "Apache-2.0" in debian and "UNICODE LICENSE V3" in debian


@pytest.mark.packages
def test_the_wheel_is_what_its_metadata_say(wheel, unpacked, version):
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read(f"takeset-{version}.dist-info/RECORD").decode()
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record))}
        assert rows.keys() == {entry.filename for entry in archive.infolist()}
        for name, (digest, size) in rows.items():
            if not name.endswith("/RECORD"):
                content = archive.read(name)
                assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=") and int(size) == len(content)
        mode = archive.getinfo(f"takeset-{version}.data/scripts/takeset").external_attr >> 16
        assert mode == stat.S_IFREG | 0o755
    tag = re.fullmatch(r"takeset-[\d.]+-(py3-none-manylinux_\d+_\d+_x86_64)\.whl", wheel.name)[1]
    text = (unpacked["metadata"] / "WHEEL").read_text()
    assert f"Tag: {tag}\n" in text and "Root-Is-Purelib: false\n" in text
    auditwheel = ROOT / "build/package-venv/bin/auditwheel"
    if auditwheel.exists():
        said = subprocess.run([auditwheel, "show", wheel], capture_output=True, text=True, check=True).stdout
        assert f'platform tag: "{tag.removeprefix("py3-none-")}"' in " ".join(said.split())


@pytest.mark.packages
def test_the_deb_passes_lintian_and_asks_for_ffmpeg(deb, version):
    fields = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True, check=True).stdout
    depends = re.search(r"^Depends: (.+)$", fields, re.MULTILINE)[1]
    assert f"Version: {version}\n" in fields
    for name in "libavcodec", "libavformat", "libavutil", "libswscale", "libhdf5", "libc6 (>= 2.", "libturbojpeg0":
        assert name in depends
    if shutil.which("lintian") is None:
        pytest.skip("needs lintian")
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", deb], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.packages
def test_the_deb_of_the_server_has_a_service(server_deb, version, tmp_path):
    fields = subprocess.run(["dpkg-deb", "-f", server_deb], capture_output=True, text=True, check=True).stdout
    assert f"Version: {version}\n" in fields and f"takeset (= {version})" in fields and "libsqlite3-0" in fields
    subprocess.run(["dpkg-deb", "-x", server_deb, tmp_path], check=True)
    assert str(ROOT).encode() not in (tmp_path / "usr/bin/takeset-server").read_bytes()
    unit = (tmp_path / "lib/systemd/system/takeset-server.service").read_text()
    command = re.search(r"^ExecStart=(\S+) serve --config (\S+)$", unit, re.MULTILINE)
    assert all((tmp_path / path[1:]).exists() for path in command.groups())
    if shutil.which("systemd-analyze"):
        file = tmp_path / "takeset-server.service"
        file.write_text(unit.replace("=/usr/bin/", f"={tmp_path}/usr/bin/"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == ""
    if shutil.which("lintian"):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", server_deb], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.packages
@pytest.mark.parametrize("kind", ["wheel", "deb", "tarball"])
def test_packing_twice_gives_the_same_bytes(kind, tmp_path, request):
    first = request.getfixturevalue(kind)
    static, checkouts = ROOT / "build/static/release/takeset", ROOT / "build/static/checkouts"
    if not static.exists() or PACKAGES != ROOT / "build/packages":
        pytest.skip("the packages were not built here")
    libraries = [] if kind == "deb" else [ROOT / "build/libraries"]
    pure = list((ROOT / "build/pure-wheel").glob("*.whl")) if kind == "wheel" else []
    subprocess.run([ROOT / f"packaging/make-{kind}", static, checkouts, *libraries, *pure, tmp_path], check=True, capture_output=True)
    assert (tmp_path / first.name).read_bytes() == first.read_bytes()


# The packages in bare systems.


@pytest.mark.packages
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_tarball_works_in_a_bare_system(suite, tarball, takes, expected, version):
    with clean_roots.trial(clean_roots.base(suite)) as root:
        is_bare(root)
        # In a folder with a space, started through a symbolic link, beside libraries that are not what their names say.
        with tarfile.open(tarball) as archive:
            archive.extractall(root.path / "opt", filter="data")
        (root.path / "opt" / tarball.name.removesuffix(".tar.gz")).rename(root.path / "opt/a folder")
        (root.path / "usr/local/bin/takeset").symlink_to("/opt/a folder/bin/takeset")
        (root.path / "bad").mkdir()
        for name in "libz.so.1", "libhdf5_serial.so.103", "libavcodec.so.59":
            (root.path / "bad" / name).write_text("not a library")
        bad = {"LD_LIBRARY_PATH": "/bad"}
        assert root("takeset", "--version", env=bad).stdout.split()[1] == version
        video = next((takes / "slow").glob("*.mov"))
        shutil.copy(video, root.path / "tmp" / video.name)
        assert "camera_image" in root("takeset", "inspect", f"/tmp/{video.name}", env=bad).stdout
        root("takeset", "simulate", "stack-session", "--output", "/tmp/session", "--seconds", "0.2", "--size", "64x48")
        converts(root, "takeset", takes, expected)


@pytest.mark.packages
def test_the_tarball_says_that_it_cannot_encode_videos(tarball):
    with clean_roots.trial(clean_roots.base("bookworm")) as root:
        with tarfile.open(tarball) as archive:
            archive.extractall(root.path / "opt", filter="data")
        command = f"/opt/{tarball.name.removesuffix('.tar.gz')}/bin/takeset"
        done = root(command, "simulate", "slow-motion-video", "--output", "/tmp/video", check=1)
        assert re.search("FFmpeg .*has no libx264", done.stderr) and len(done.stderr.splitlines()) == 1


@pytest.mark.packages
def test_the_deb_works_in_a_bare_system(deb, takes, expected, version):
    with clean_roots.trial(clean_roots.base("bookworm")) as root:
        is_bare(root)
        shutil.copy(deb, root.path / "tmp")
        root("apt-get", "update", "-q", network=True)
        root("apt-get", "install", "-y", "-q", "--no-install-recommends", f"/tmp/{deb.name}", network=True)
        assert root("takeset", "--version").stdout.split()[1] == version
        assert "-dev" not in root("dpkg-query", "-W", "-f", "${Package}\n").stdout
        # Debian's FFmpeg encodes.
        root("takeset", "simulate", "slow-motion-video", "--output", "/tmp/video", "--seconds", "0.2", "--size", "64x48")
        converts(root, "takeset", takes, expected)
        assert root("dpkg", "--verify", "takeset").stdout == ""
        root("apt-get", "remove", "-y", "-q", "takeset")
        assert not [path for path in root.path.glob("usr/**/*takeset*") if "dpkg" not in path.parts]


@pytest.mark.packages
def test_an_operator_gets_from_nothing_to_a_converted_capture(deb, server_deb):
    """The lines of docs/server.md, in a bare system; only the service is started by hand, because no systemd runs there."""
    page = (ROOT / "docs/server.md").read_text().split("## From nothing to a converted capture")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3 and all("localhost:8443" in page for _ in blocks)
    start = "runuser -u takeset-server -- takeset-server serve --config /etc/takeset/server.yaml & server=$!; sleep 3"
    assert "systemctl restart takeset-server" in blocks[0]
    wait = "until test -e /var/lib/takeset/datasets/default/manifest.json; do sleep 1; done"
    script = "\n".join(["set -e", blocks[0].replace("systemctl restart takeset-server", start), blocks[1], wait, blocks[2], "kill $server; wait || true"])
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        script = script.replace("8443", str(found.getsockname()[1]))
    with clean_roots.trial(clean_roots.base("bookworm")) as root:
        is_bare(root)
        for file in deb, server_deb:
            shutil.copy(file, root.path / "root" / file.name)
        done = root("sh", "-c", "cd /root\n" + script, network=True)
        assert "uploaded\t" in done.stdout and "sound" in done.stdout, done.stdout


READ = """
import sys, h5py, takeset
with h5py.File("/dataset/dataset.h5") as file:
    shapes = {demo.attrs["take_id"]: demo["obs/camera_image"].shape for demo in file["data"].values()}
assert len(shapes) == 6 and all(len(shape) == 4 and shape[3] == 3 for shape in shapes.values()), shapes
dataset = takeset.open("/dataset")
assert {episode.take_id for episode in dataset} == set(shapes)
again = takeset.convert("/takes/slow", "/again")
assert [len(episode) for episode in again] == [shapes[episode.take_id][0] for episode in again]
print(takeset.__version__)
"""


@pytest.mark.packages
def test_the_wheel_works_in_a_bare_system(wheel, takes, expected, version):
    with clean_roots.trial(clean_roots.with_python("bookworm")) as root:
        is_bare(root)
        (root.path / "wheels").mkdir()
        shutil.copy(wheel, root.path / "wheels")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--python-version", "3.11", "-d", root.path / "wheels"]
        subprocess.run([*pip, "numpy", "h5py"], check=True)
        root("python3", "-m", "venv", "/env")
        offline = ["-q", "--no-index", "--find-links", "/wheels", "takeset"]
        root("/env/bin/pip", "install", *offline)
        assert root("/env/bin/takeset", "--version").stdout.split()[1] == version
        root("/env/bin/takeset", "simulate", "stack-session", "--output", "/tmp/session", "--seconds", "0.2", "--size", "64x48")
        converts(root, "/env/bin/takeset", takes, expected)
        assert root("/env/bin/python", "-c", READ).stdout.strip() == version
        # Other ways to install have the command in other places, always with its libraries beside it.
        user = ["--break-system-packages", "--root-user-action", "ignore"]
        for options, place in (["--user"], "/root/.local/bin/takeset"), ([], "/usr/local/bin/takeset"), (["--target", "/target"], "/target/bin/takeset"):
            root("pip", "install", *user, "--ignore-installed", "--no-deps", *options, *offline)
            assert root(place, "--version").stdout.split()[1] == version, place
        root("/env/bin/pip", "uninstall", "-q", "-y", "takeset")
        assert not list(root.path.glob("env/**/*takeset*")) and not list(root.path.glob("env/**/libavcodec*"))
