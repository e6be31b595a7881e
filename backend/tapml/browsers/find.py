"""Which browsers this machine has, and what to install where one is missing."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import playwright

from tapml.errors import InputError, ToolchainError


@dataclass(frozen=True)
class Kind:
    """A family of browsers that Playwright drives in the same way."""

    name: str
    title: str
    commands: tuple[str, ...]  # on PATH, the preferred first
    mac_programs: tuple[str, ...]
    install: str  # how to get one
    oldest: int  # the first major version with WebGPU

    @property
    def variable(self) -> str:
        """The environment variable that names the program to use."""
        return f"TAPML_{self.name.upper()}"


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="chromium",
            title="Chromium",
            commands=("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
            mac_programs=(
                "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
                "/Applications/Chromium.app/Contents/MacOS/Chromium",
            ),
            install="apt-get install chromium (Debian), playwright install chromium",
            oldest=113,
        ),
        Kind(
            name="firefox",
            title="Firefox",
            commands=("firefox-esr", "firefox"),
            mac_programs=("/Applications/Firefox.app/Contents/MacOS/firefox",),
            install="apt-get install firefox-esr mesa-vulkan-drivers (Debian), playwright install firefox",
            oldest=141,
        ),
        Kind(
            name="webkit",
            title="WebKit",
            commands=(),  # Playwright drives its own WebKit only
            mac_programs=(),
            install="playwright install webkit",
            oldest=0,
        ),
    )
}

_ICD_FOLDERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")


@dataclass(frozen=True)
class Found:
    """A browser to launch: a program of the system's, or Playwright's own where `program` is None."""

    kind: Kind
    program: Path | None
    version: str
    """Such as "156.0.8078.79", or "" for Playwright's own or a program that does not tell."""


def find(name: str) -> Found:
    """The browser to use for `name`.

    Raises InputError for a name that tapml does not know, ToolchainError if there is no such browser here, or one that
    has no WebGPU as the machine is now.
    """
    kind = KINDS.get(name)
    if kind is None:
        *others, last = KINDS
        raise InputError(f"tapml knows no browser {name!r}: choose {', '.join(others)} or {last}")
    program = _program(kind)
    version = version_of_program(program) if program else ""
    if version and major(version) < kind.oldest:
        raise ToolchainError(
            f"{kind.title} {version} ({program}) has no WebGPU: install version {kind.oldest} or later"
        )
    if name == "firefox":
        require_vulkan(kind.title)
    return Found(kind, program, version)


def _program(kind: Kind) -> Path | None:
    if chosen := chosen_program(kind.variable, kind.title):
        return chosen
    known = [program for command in kind.commands if (program := shutil.which(command))]
    if sys.platform == "darwin":
        known += [program for program in kind.mac_programs if os.access(program, os.X_OK)]
    if known:
        return Path(known[0])
    if sys.platform == "linux" and kind.name == "webkit":
        raise ToolchainError(
            "WebKit has no WebGPU on Linux: use it (or safari) on a Mac, or open the pairing link "
            "of `tapml serve` in Safari on a Mac or iPhone"
        )
    if _playwright_has(kind.name):
        return None
    alternative = f", or set {kind.variable} to its path" if kind.commands else ""
    raise ToolchainError(f"{kind.title} was not found: {kind.install}{alternative}")


def chosen_program(variable: str, what: str) -> Path | None:
    """The program that an environment variable names; None where it is not set. Raises ToolchainError for another."""
    chosen = os.environ.get(variable)
    if not chosen:
        return None
    if (program := shutil.which(chosen)) is None:
        raise ToolchainError(f"{variable} is {chosen!r}, which is not a program: set it to {what}'s path, or unset it")
    return Path(program)


def require_vulkan(title: str) -> None:
    """Raises ToolchainError where what needs Vulkan on Linux has no driver for it."""
    if sys.platform == "linux" and not vulkan_drivers():
        raise ToolchainError(
            f"{title} finds no Vulkan driver, which its WebGPU needs: "
            "apt-get install mesa-vulkan-drivers (Debian), or install your GPU's driver"
        )


def version_of_program(program: str | Path) -> str:
    """The first version in what `program --version` prints, or ""."""
    return _version(str(program), Path(program).stat().st_mtime)


def major(version: str) -> int:
    """156 of "156.0.8078.79"."""
    return int(version.split(".")[0])


def vulkan_drivers() -> list[str]:
    """The files by which this machine's Vulkan drivers announce themselves, such as "lvp_icd.x86_64.json"."""
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        if chosen := os.environ.get(variable):
            return [Path(path).name for path in chosen.split(os.pathsep) if Path(path).exists()]
    return [path.name for folder in _ICD_FOLDERS for path in sorted(Path(folder).glob("*.json"))]


@functools.cache
def _version(program: str, _modified: float) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""  # launching it will tell why
    version = re.search(r"\d+(\.\d+)+", done.stdout)
    return version.group() if version else ""


def _playwright_has(name: str) -> bool:
    """Has `playwright install` fetched this browser, in the revision that the installed Playwright drives?"""
    package = Path(playwright.__file__).parent / "driver" / "package"
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if chosen == "0":
        folder = package / ".local-browsers"
    elif chosen:
        folder = Path(chosen)
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "ms-playwright"
    else:
        cache = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(cache) if cache else Path.home() / ".cache") / "ms-playwright"
    listed = json.loads((package / "browsers.json").read_text())["browsers"]
    revisions = [
        revision
        for browser in listed
        if browser["name"] == name
        for revision in (browser["revision"], *browser.get("revisionOverrides", {}).values())
    ]
    return any((folder / f"{name}-{revision}" / "INSTALLATION_COMPLETE").exists() for revision in revisions)
