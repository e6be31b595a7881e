"""Which driver is taken for a browser of W3C WebDriver, what is asked of it, and what is said where one is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tapml.browsers import STARTABLE_NAMES, display, drivers, find, options, start, startable
from tapml.browsers.drivers import find_driver, session_options
from tapml.errors import ToolchainError


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Linux without browsers, drivers and display; programs are found in the folder `bin`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    for variable in ("CHROMIUM", "CHROMEDRIVER", "WEBKITWEBDRIVER", "MINIBROWSER", "SAFARIDRIVER", "CHROMIUM_ARGS"):
        monkeypatch.delenv(f"TAPML_{variable}", raising=False)
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(drivers, "_MINIBROWSER_PLACES", (f"{tmp_path}/webkit*gtk-*/MiniBrowser",))
    monkeypatch.setattr(options, "has_hardware_vulkan", lambda: False)
    return tmp_path


def add(path: Path, says: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def refusal(name: str) -> str:
    (entry,) = (entry for entry in startable() if entry.name == name)
    assert not entry.available
    with pytest.raises(ToolchainError) as caught:
        start(name, "http://127.0.0.1:1/")
    assert str(caught.value) == entry.message
    return entry.message


def test_this_machine_has_both_that_linux_has() -> None:
    found = {entry.name: entry for entry in startable()}
    assert set(found) == set(STARTABLE_NAMES) >= {"safari", "chromedriver", "webkitgtk"}
    for name in ("chromedriver", "webkitgtk"):
        assert found[name].available, found[name].message
    assert found["chromedriver"].version == found["chromium"].version


@pytest.mark.usefixtures("bare")
def test_missing_drivers() -> None:
    assert refusal("chromedriver") == (
        "chromedriver was not found: apt-get install chromium-driver (Debian), or set TAPML_CHROMEDRIVER to its path"
    )
    assert refusal("webkitgtk") == (
        "WebKitWebDriver was not found: apt-get install webkit2gtk-driver (Debian), "
        "or set TAPML_WEBKITWEBDRIVER to its path"
    )
    assert refusal("safari") == (
        "Safari runs on macOS only: use it there, or open the pairing link of `tapml serve` in "
        "Safari on a Mac or iPhone"
    )


@pytest.mark.usefixtures("bare")
def test_missing_selenium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("chromedriver") == (
        "Chromium is driven through W3C WebDriver, which needs selenium: pip install 'tapml[webdriver]'"
    )


def test_variable_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(bare / "bin" / "chromedriver", "ChromeDriver 150.1.2")
    add(bare / "bin" / "chromium", "Chromium 151.0.1")
    mine = add(bare / "mine", "ChromeDriver 151.1.2")
    monkeypatch.setenv("TAPML_CHROMEDRIVER", str(mine))
    assert find_driver("chromedriver").program == mine
    monkeypatch.setenv("TAPML_CHROMEDRIVER", "nothing")
    assert refusal("chromedriver") == (
        "TAPML_CHROMEDRIVER is 'nothing', which is not a program: set it to chromedriver's path, or unset it"
    )


def test_driver_of_another_version(bare: Path) -> None:
    driver = add(bare / "bin" / "chromedriver", "ChromeDriver 150.0.7 '(abc)'")
    assert refusal("chromedriver").startswith("Chromium was not found")
    program = add(bare / "bin" / "chromium", "Chromium 151.0.1")
    assert refusal("chromedriver") == (
        f"chromedriver 150.0.7 ({driver}) does not drive Chromium 151.0.1 ({program}): install both in one version, "
        "apt-get install chromium chromium-driver (Debian), or set TAPML_CHROMEDRIVER and TAPML_CHROMIUM"
    )
    add(bare / "bin" / "chromium", "Chromium 90.0")
    assert "has no WebGPU: install version 113 or later" in refusal("chromedriver")


def test_playwrights_own_chromium_is_not_for_a_driver(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(bare / "bin" / "chromedriver", "ChromeDriver 150.0.7")
    monkeypatch.setattr(find, "_playwright_has", lambda name: True)
    assert "or set TAPML_CHROMIUM to Chromium's path" in refusal("chromedriver")


def test_minibrowser_and_its_display(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(bare / "bin" / "WebKitWebDriver")
    assert refusal("webkitgtk") == (
        "WebKitGTK's MiniBrowser was not found: apt-get install libwebkit2gtk-4.1-0 (Debian), "
        "or set TAPML_MINIBROWSER to its path"
    )
    add(bare / "webkit2gtk-4.0" / "MiniBrowser")
    newer = add(bare / "webkit2gtk-4.1" / "MiniBrowser", "WebKitGTK 2.50.6")
    assert refusal("webkitgtk") == (
        "there is no display to open a window on: apt-get install xvfb (Debian), or set DISPLAY"
    )
    add(bare / "bin" / "Xvfb")
    assert find_driver("webkitgtk").browser == newer
    monkeypatch.setenv("TAPML_MINIBROWSER", "nothing")
    assert "TAPML_MINIBROWSER is 'nothing', which is not a program" in refusal("webkitgtk")
    mine = add(bare / "mine", "WebKitGTK 2.52.0")
    monkeypatch.setenv("TAPML_MINIBROWSER", str(mine))
    monkeypatch.setenv("DISPLAY", ":7")
    assert (find_driver("webkitgtk").browser, find_driver("webkitgtk").version) == (mine, "2.52.0")


def test_xvfb_that_fails_says_why(bare: Path) -> None:
    (bare / "bin" / "Xvfb").write_text("#!/bin/sh\necho no shared memory >&2\nexit 1\n")
    (bare / "bin" / "Xvfb").chmod(0o755)
    with pytest.raises(ToolchainError, match=r"^Xvfb did not start: no shared memory$"):
        display.start_display()


def test_safari_on_a_mac(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refusal("safari").startswith("safaridriver was not found: it comes with macOS")
    driver = add(bare / "bin" / "safaridriver", "'Included with Safari 18.1 (20619.2.8)'")
    assert refusal("safari") == "Safari 18.1 has no WebGPU: install Safari 26 or later (macOS 26)"
    add(driver, "'Included with Safari 26.1 (21622.2.11)' # newer")
    found = find_driver("safari")
    assert found.version == "26.1"
    assert found.command(4444) == [str(driver), "-p", "4444"]
    assert session_options(found).to_capabilities() == {
        "browserName": "safari",
        "platformName": "mac",
        "pageLoadStrategy": "normal",
    }


def test_what_is_asked_of_chromedriver(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = add(bare / "bin" / "chromium", "Chromium 151.0.1")
    add(bare / "bin" / "chromedriver", "ChromeDriver 151.0.1")
    monkeypatch.setenv("TAPML_CHROMIUM_ARGS", "--one '--two=2 3'")
    monkeypatch.setenv("TAPML_NO_SANDBOX", "1")
    found = find_driver("chromedriver")
    assert found.command(4444)[1] == "--port=4444"
    asked = session_options(found).to_capabilities()
    assert asked["acceptInsecureCerts"] is True
    chosen = asked["goog:chromeOptions"]
    assert chosen["binary"] == str(program)
    assert {*options.chromium_arguments(), "--headless=new", "--no-sandbox"} <= set(chosen["args"])
    assert "--two=2 3" in chosen["args"]
    monkeypatch.delenv("TAPML_NO_SANDBOX")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "--no-sandbox" not in session_options(found).to_capabilities()["goog:chromeOptions"]["args"]


def test_what_is_asked_of_webkitgtk(bare: Path) -> None:
    for name in ("WebKitWebDriver", "Xvfb"):
        add(bare / "bin" / name)
    program = add(bare / "webkit2gtk-4.1" / "MiniBrowser")
    asked = session_options(find_driver("webkitgtk")).to_capabilities()
    assert asked["webkitgtk:browserOptions"]["binary"] == str(program)
    assert asked["webkitgtk:browserOptions"]["args"] == ["--automation"]
