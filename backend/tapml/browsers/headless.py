"""Devices without a browser: the runner in node with Dawn, or in Deno with wgpu, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tapml.browsers.find import major, require_vulkan, version_of_program
from tapml.browsers.guarded import Child
from tapml.browsers.options import has_hardware_vulkan
from tapml.browsers.running import DeviceProcess
from tapml.errors import ToolchainError

RUNNER = Path(__file__).parents[1] / "server" / "static" / "headless" / "device.mjs"
_CHECKOUT_MODULES = Path(__file__).parents[3] / "runner_js" / "node_modules"

# Chromium brings a software Vulkan driver that Dawn accepts where Debian's (lavapipe) is too old for it.
_SWIFTSHADER = tuple(
    Path(folder) / "vk_swiftshader_icd.json"
    for folder in (
        "/usr/lib/chromium",
        "/usr/lib64/chromium-browser",
        "/opt/google/chrome",
        "/usr/lib/chromium-browser",
    )
)


HEADLESS_TITLES = {"node-dawn": "node with Dawn", "deno": "Deno"}


@dataclass(frozen=True)
class Runtime:
    """A program to start, as a device."""

    arguments: list[str]
    environment: dict[str, str]
    version: str


class HeadlessProcess(DeviceProcess):
    """A runtime as a device of the server whose runner page is `url`."""

    def __init__(self, name: str, runtime: Runtime, url: str, on_exit: Callable[[str], None] | None) -> None:
        super().__init__(name, HEADLESS_TITLES[name], url, on_exit)
        self._runtime = runtime
        self._child: Child | None = None

    def open(self) -> None:
        if not RUNNER.is_file():
            raise ToolchainError(f"the runner is not built ({RUNNER}): run `make setup` in the checkout")
        environment = {**os.environ, **self._runtime.environment, "TAPML_RUNNER_URL": self.url}
        self._alive = True
        self._child = Child(self._title, self._runtime.arguments, environment, self._ended)

    @property
    def console(self) -> list[str]:
        return self._child.lines if self._child else []

    def _end(self) -> None:
        self._alive = False
        if self._child is not None:
            self._child.close()

    def _ended(self, code: int) -> None:
        self._alive = False
        self._report(f"{self._title} ended unexpectedly (exit code {code})")


def find_runtime(name: str) -> Runtime:
    """How "node-dawn" or "deno" is started. Raises ToolchainError where something is missing, and says what to do."""
    return _deno() if name == "deno" else _node_dawn()


def find_node() -> tuple[str, int]:
    """Its program, and its major version (0 where it does not tell). Raises ToolchainError, and says what to do."""
    # Ours first (scripts/node puts it there where the machine's is missing or too old).
    path = os.pathsep.join([str(Path(sys.prefix) / "node" / "bin"), os.environ.get("PATH", os.defpath)])
    node = shutil.which(os.environ.get("TAPML_NODE", "node"), path=path)
    if node is None:
        raise ToolchainError("node was not found: install Node.js 20 or later, or set TAPML_NODE to its path")
    release = major(version_of_program(node) or "0")
    if release and release < 20:
        raise ToolchainError(f"{node} is Node.js {release}: install version 20 or later, or set TAPML_NODE to one")
    return node, release


def _node_dawn() -> Runtime:
    node, release = find_node()
    dawn = Path(os.environ.get("TAPML_DAWN", str(_CHECKOUT_MODULES / "webgpu")))
    if not dawn.exists():
        raise ToolchainError(
            f"Dawn for node was not found ({dawn}): npm install webgpu, then set TAPML_DAWN to its folder"
        )
    version = ""
    if dawn.is_dir():
        try:
            package = json.loads((dawn / "package.json").read_text())
            dawn, version = dawn / package["main"], str(package["version"])
        except (OSError, ValueError, KeyError) as error:
            raise ToolchainError(f"Dawn for node is only half installed ({dawn}): install it again") from error
    arguments = [node, *(["--experimental-websocket"] if release < 22 else []), "--no-warnings", str(RUNNER)]
    environment = {
        "TAPML_DAWN": str(dawn.resolve()),
        "TAPML_DEVICE_NAME": f"node-dawn {version}".rstrip(),
        **vulkan_environment(software=True),
    }
    return Runtime(arguments, environment, version)


def _deno() -> Runtime:
    chosen = os.environ.get("TAPML_DENO")
    packaged = next(iter(sorted((_CHECKOUT_MODULES / "@deno").glob("*/deno*"))), None)
    program = shutil.which(chosen or "deno") or (str(packaged) if packaged and not chosen else None)
    if program is None:
        raise ToolchainError("Deno was not found: npm install deno, then set TAPML_DENO to its program")
    require_vulkan("Deno")
    arguments = [program, "run", "--quiet", "--no-prompt", "--no-config", "--no-lock"]
    arguments += ["--allow-net", "--allow-env", str(RUNNER)]
    return Runtime(arguments, vulkan_environment(software=False), version_of_program(program))


def vulkan_environment(*, software: bool) -> dict[str, str]:
    """Environment for the Vulkan loader; `software`: Chromium's driver where there is no hardware."""
    if sys.platform != "linux":
        return {}
    environment = {}
    if not os.environ.get("XDG_RUNTIME_DIR"):
        # The loader asks for a folder and writes nothing into it: on a full disk, where there is none for temporary
        # files, any will do.
        with contextlib.suppress(OSError):
            environment["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    given = os.environ.get("VK_ICD_FILENAMES") or os.environ.get("VK_DRIVER_FILES")
    driver = next((path for path in _SWIFTSHADER if path.is_file()), None)
    if software and driver and not given and not has_hardware_vulkan():
        environment["VK_ICD_FILENAMES"] = str(driver)
    return environment
