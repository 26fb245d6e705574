"""What Debian packages have in common: what they need, the documents in /usr/share/doc, and the archive itself.

$DEBFULLNAME and $DEBEMAIL name the maintainer."""

import gzip
import hashlib
import os
import re
import subprocess
from email.utils import formatdate
from pathlib import Path

import package
import third_party

MAINTAINER = f"{os.environ.get('DEBFULLNAME', 'Takeset maintainers')} <{os.environ.get('DEBEMAIL', 'takeset@example.org')}>"


def compressed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def libraries(name: str, scratch: Path, *binaries: Path) -> str:
    """The packages that binaries are linked with, by dpkg-shlibdeps."""
    (scratch / "debian").mkdir(parents=True, exist_ok=True)
    (scratch / "debian/control").write_text(f"Source: {name}\n\nPackage: {name}\nArchitecture: amd64\n")
    text = package.run("dpkg-shlibdeps", "-O", *binaries, cwd=scratch, stderr=subprocess.DEVNULL)
    return text.strip().removeprefix("shlibs:Depends=")


def copyright(name: str, components: list[third_party.Component]) -> str:
    """The file in Debian's machine-readable format: who holds which rights, and where the texts are."""
    swift = "Apache-2.0 with the Swift runtime library exception"
    lines = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Upstream-Name: takeset",
        "Comment: The command has the Swift runtime and other software linked into it. The",
        f" versions, copyright notices and licenses are in /usr/share/doc/{name}/THIRD-PARTY.gz.",
        "", "Files: *", "Copyright: the Takeset authors", "License: Apache-2.0",
    ]
    for component in components:
        holders = re.findall(r"^\s*Copyright(?: \(c\)| ©)? .*$", component.text, re.MULTILINE | re.IGNORECASE)
        named = [" ".join(line.split()) for line in holders if re.search(r"\d{4}", line)] or [f"the {component.name} authors"]
        known = swift if "Swift-exception" in component.license else component.license
        lines += ["", f"Files: {component.name.replace(' ', '-').lower()}/*", "Copyright: " + "\n ".join(named), f"License: {known}"]
    paragraphs = {
        "Apache-2.0": "On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.",
        swift: "The Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0. As an\nexception, software compiled with Swift may carry parts of its runtime without\nthe notices that sections 4(a), 4(b) and 4(d) ask for.",
    }
    for component in components:
        if "Swift-exception" not in component.license:
            paragraphs.setdefault(component.license, component.text)
    for name, text in paragraphs.items():
        lines += ["", f"License: {name}", *(f" {line}" if line.strip() else " ." for line in text.strip().splitlines())]
    return "\n".join(lines) + "\n"


def add_documents(name: str, version: str, root: Path, components: list[third_party.Component]) -> None:
    """The folder of a package in /usr/share/doc, with the licenses of all that is in it."""
    documents = root / "usr/share/doc" / name
    documents.mkdir(parents=True)
    (documents / "copyright").write_text(copyright(name, components))
    compressed(documents / "THIRD-PARTY.gz", third_party.document(components))
    compressed(documents / "CHANGELOG.md.gz", (package.ROOT / "CHANGELOG.md").read_text())
    entry = f"{name} ({version}) unstable; urgency=medium\n\n  * Release {version}; see CHANGELOG.md.gz.\n\n"
    compressed(documents / "changelog.gz", f"{entry} -- {MAINTAINER}  {formatdate(package.epoch())}\n")


def add_override(name: str, root: Path, lines: str) -> None:
    """What lintian finds, and why it is meant."""
    override = root / "usr/share/lintian/overrides" / name
    override.parent.mkdir(parents=True)
    override.write_text(lines)


def build(name: str, version: str, root: Path, fields: str, summary: str, description: str, output: Path, scripts: dict[str, str] = {}) -> Path:
    """Makes the archive. Files in /etc are the operator's; those in `bin` can be run.

    - fields: Lines of the control file that only this package has.
    - scripts: Maintainer scripts, such as `postinst`."""
    epoch, paths = package.epoch(), package.files(root)
    size = sum(-(-(root / path).stat().st_size // 1024) for path in paths)
    control = root / "DEBIAN"
    control.mkdir()
    own = [path for path in paths if path.parts[0] != "etc"]
    (control / "md5sums").write_text("".join(f"{hashlib.md5((root / path).read_bytes()).hexdigest()}  {path}\n" for path in own))
    (control / "control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n"
        f"{fields}Section: science\nPriority: optional\nDescription: {summary}\n" + "".join(f" {line}\n" for line in description.splitlines()))
    if kept := [path for path in paths if path.parts[0] == "etc"]:
        (control / "conffiles").write_text("".join(f"/{path}\n" for path in kept))
    for script, text in scripts.items():
        (control / script).write_text(text)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or path.parent == control and path.name in scripts else 0o644)
        os.utime(path, (epoch, epoch))
    target = output / f"{name}_{version}_amd64.deb"
    package.remove_others(output, f"{name}_*.deb")
    package.run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, target, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})
    return target
