"""Which browser is taken, and what is said where there is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import playwright
import pytest

from tapml.browsers import Startable, find, headless, options, startable
from tapml.errors import ToolchainError


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Linux without browsers and Vulkan drivers; programs are found in the folder `bin`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    for variable in ("TAPML_CHROMIUM", "TAPML_FIREFOX", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(find, "_ICD_FOLDERS", (str(tmp_path / "icd.d"),))
    monkeypatch.setattr(options, "_GPU_FOLDER", tmp_path / "drm")
    monkeypatch.setattr(options, "_NVIDIA", tmp_path / "nvidiactl")
    return tmp_path


def add_program(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho Some Browser {version} built by someone\n")
    path.chmod(0o755)
    return path


def add_driver(bare: Path, file: str) -> None:
    (bare / "icd.d").mkdir(exist_ok=True)
    (bare / "icd.d" / file).write_text("{}")


def answer(name: str) -> Startable:
    return next(entry for entry in startable() if entry.name == name)


def test_this_machine_has_all() -> None:
    for name, oldest in (("chromium", 113), ("firefox", 141), ("node-dawn", 0), ("deno", 2)):
        assert answer(name).available, answer(name).message
        assert int(answer(name).version.split(".")[0]) >= oldest


@pytest.mark.usefixtures("bare")
def test_what_to_install() -> None:
    assert startable()[:3] == [
        Startable(
            "chromium",
            False,
            "",
            "Chromium was not found: apt-get install chromium (Debian), playwright install chromium, "
            "or set TAPML_CHROMIUM to its path",
        ),
        Startable(
            "firefox",
            False,
            "",
            "Firefox was not found: apt-get install firefox-esr mesa-vulkan-drivers (Debian), "
            "playwright install firefox, or set TAPML_FIREFOX to its path",
        ),
        Startable(
            "webkit",
            False,
            "",
            "WebKit has no WebGPU on Linux: use it (or safari) on a Mac, or open the pairing link "
            "of `tapml serve` in Safari on a Mac or iPhone",
        ),
    ]


@pytest.mark.usefixtures("bare")
def test_what_to_install_for_devices_without_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(headless, "_CHECKOUT_MODULES", tmp_path / "node_modules")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert "install Node.js 20 or later" in answer("node-dawn").message
    assert "Deno was not found: npm install deno" in answer("deno").message
    add_program(tmp_path / "bin" / "node", "18.1.0")
    assert "is Node.js 18: install version 20" in answer("node-dawn").message
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "bin").mkdir()
    add_program(tmp_path / "node" / "bin" / "node", "22.1.0")
    assert "Dawn for node was not found" in answer("node-dawn").message
    package = tmp_path / "node_modules" / "webgpu"
    package.mkdir(parents=True)
    assert "only half installed" in answer("node-dawn").message
    (package / "package.json").write_text('{"version": "0.6.2", "main": "index.js"}')
    assert answer("node-dawn") == Startable("node-dawn", True, "0.6.2", "")
    add_program(tmp_path / "bin" / "deno", "2.9.6")
    assert "mesa-vulkan-drivers" in answer("deno").message
    add_driver(tmp_path, "lvp_icd.x86_64.json")
    assert answer("deno") == Startable("deno", True, "2.9.6", "")


def test_debians_browser_comes_before_others(bare: Path) -> None:
    for command in ("google-chrome", "chromium"):
        add_program(bare / "bin" / command, "130.0.1")
    assert find.find("chromium").program == bare / "bin" / "chromium"
    assert answer("chromium") == Startable("chromium", True, "130.0.1", "")


def test_variable_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_program(bare / "bin" / "firefox", "150.0")
    add_driver(bare, "lvp_icd.x86_64.json")
    mine = add_program(bare / "mine", "151.2")
    monkeypatch.setenv("TAPML_FIREFOX", str(mine))
    assert answer("firefox").version == "151.2"
    monkeypatch.setenv("TAPML_FIREFOX", str(bare / "nothing"))
    assert answer("firefox").message == (
        f"TAPML_FIREFOX is '{bare / 'nothing'}', which is not a program: set it to Firefox's path, or unset it"
    )


def test_browser_before_webgpu(bare: Path) -> None:
    program = add_program(bare / "bin" / "chromium", "90.1")
    assert answer("chromium").message == (f"Chromium 90.1 ({program}) has no WebGPU: install version 113 or later")


def test_firefox_needs_a_vulkan_driver(bare: Path) -> None:
    add_program(bare / "bin" / "firefox-esr", "153.0")
    assert "apt-get install mesa-vulkan-drivers (Debian)" in answer("firefox").message
    add_driver(bare, "lvp_icd.x86_64.json")
    assert answer("firefox").available


def test_mac_programs(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = add_program(bare / "Firefox", "150.0")
    monkeypatch.setattr(sys, "platform", "darwin")
    kind = find.KINDS["firefox"]
    monkeypatch.setitem(find.KINDS, "firefox", find.Kind(**{**vars(kind), "mac_programs": (str(program),)}))
    assert answer("firefox") == Startable("firefox", True, "150.0", "")


def test_playwrights_own_is_the_last_resort(bare: Path) -> None:
    listing = Path(playwright.__file__).parent / "driver" / "package" / "browsers.json"
    revisions = {entry["name"]: entry["revision"] for entry in json.loads(listing.read_text())["browsers"]}
    folder = bare / "playwright" / f"chromium-{revisions['chromium']}"
    folder.mkdir(parents=True)
    with pytest.raises(ToolchainError):  # half a download
        find.find("chromium")
    (folder / "INSTALLATION_COMPLETE").touch()
    assert find.find("chromium").program is None
    assert answer("chromium").available
    add_program(bare / "bin" / "chromium", "150.0")
    assert find.find("chromium").program == bare / "bin" / "chromium"


@pytest.mark.parametrize(
    ("driver", "file", "expected"),
    [
        ("amdgpu", "radeon_icd.x86_64.json", True),
        ("i915", "intel_icd.x86_64.json", True),
        ("amdgpu", "lvp_icd.x86_64.json", False),  # a GPU without its Vulkan driver
        ("virtio-pci", "lvp_icd.x86_64.json", False),  # a virtual machine
    ],
)
def test_hardware(bare: Path, driver: str, file: str, expected: bool) -> None:
    add_driver(bare, file)
    (bare / "drivers" / driver).mkdir(parents=True)
    (bare / "drm" / "renderD128" / "device").mkdir(parents=True)
    (bare / "drm" / "renderD128" / "device" / "driver").symlink_to(bare / "drivers" / driver)
    assert options.has_hardware_vulkan() is expected
    assert ("--enable-features=Vulkan" in options.chromium_arguments()) is expected


def test_nvidia_is_hardware(bare: Path) -> None:
    add_driver(bare, "nvidia_icd.json")
    assert not options.has_hardware_vulkan()
    (bare / "nvidiactl").touch()
    assert options.has_hardware_vulkan()


@pytest.mark.usefixtures("bare")
def test_arguments_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CHROMIUM_ARGS", "--one '--two=2 3'")
    assert options.chromium_arguments()[-2:] == ["--one", "--two=2 3"]


def test_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAPML_NO_SANDBOX", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert options.chromium_sandbox()
    monkeypatch.setenv("TAPML_NO_SANDBOX", "1")
    assert not options.chromium_sandbox()
    monkeypatch.delenv("TAPML_NO_SANDBOX")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert not options.chromium_sandbox()
