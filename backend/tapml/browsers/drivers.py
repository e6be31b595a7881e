"""Browsers that W3C WebDriver starts: their driver programs, and what a session with each asks for."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tapml.browsers import options
from tapml.browsers.display import find_xvfb, has_display
from tapml.browsers.find import chosen_program, find, major, version_of_program
from tapml.errors import ToolchainError

if TYPE_CHECKING:
    from selenium.webdriver.common.options import BaseOptions

# Where WebKitGTK keeps its own little browser, which is on no PATH: Debian, Fedora, Arch.
_MINIBROWSER_PLACES = (
    "/usr/lib/*-linux-gnu/webkit*gtk-*/MiniBrowser",
    "/usr/lib*/webkit*gtk-*/MiniBrowser",
    "/usr/libexec/webkit*gtk-*/MiniBrowser",
)

# As Playwright has it: a tab that nobody sees runs at full speed.
_CHROMIUM_FULL_SPEED = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)

OLDEST_SAFARI = 26
"""The first version with WebGPU."""


@dataclass(frozen=True)
class DriverKind:
    """A browser and the program that drives it."""

    name: str
    title: str  # the browser's
    driver: str  # on PATH
    install: str  # how to get the driver

    @property
    def variable(self) -> str:
        """The environment variable that names the driver to use."""
        return f"TAPML_{self.driver.upper()}"


WEBDRIVER_KINDS = {
    kind.name: kind
    for kind in (
        DriverKind("safari", "Safari", "safaridriver", "it comes with macOS, in /usr/bin"),
        DriverKind("chromedriver", "Chromium", "chromedriver", "apt-get install chromium-driver (Debian)"),
        DriverKind("webkitgtk", "WebKitGTK", "WebKitWebDriver", "apt-get install webkit2gtk-driver (Debian)"),
    )
}


@dataclass(frozen=True)
class Driver:
    """A driver to start; `browser` is the program it is to drive, None where it knows by itself."""

    kind: DriverKind
    program: Path
    browser: Path | None
    version: str

    def command(self, port: int) -> list[str]:
        if self.kind.name == "chromedriver":
            # With what Chromium prints, or nobody would know why it does not start.
            return [str(self.program), f"--port={port}", "--enable-chrome-logs"]
        return [str(self.program), "-p", str(port)]


def find_driver(name: str) -> Driver:
    """The driver to use for "safari", "chromedriver" or "webkitgtk".

    Raises ToolchainError where something is missing or does not fit, and says what to do.
    """
    kind = WEBDRIVER_KINDS[name]
    if name == "safari" and sys.platform != "darwin":
        raise ToolchainError(
            "Safari runs on macOS only: use it there, or open the pairing link of `tapml serve` in "
            "Safari on a Mac or iPhone"
        )
    if importlib.util.find_spec("selenium") is None:
        raise ToolchainError(
            f"{kind.title} is driven through W3C WebDriver, which needs selenium: pip install 'tapml[webdriver]'"
        )
    program = _program(kind)
    match name:
        case "safari":
            return _safari(kind, program)
        case "chromedriver":
            return _chromedriver(kind, program)
        case _:
            return _webkitgtk(kind, program)


def session_options(driver: Driver) -> BaseOptions:
    """What to ask the driver for."""
    from selenium import webdriver

    made: webdriver.ChromeOptions | webdriver.WebKitGTKOptions | webdriver.SafariOptions
    if driver.kind.name == "safari":
        made = webdriver.SafariOptions()  # which refuses to accept insecure certificates
    elif driver.kind.name == "chromedriver":
        made = webdriver.ChromeOptions()
        made.binary_location = str(driver.browser)
        for argument in ("--headless=new", *_CHROMIUM_FULL_SPEED, *options.chromium_arguments()):
            made.add_argument(argument)
        if not options.chromium_sandbox():
            made.add_argument("--no-sandbox")
    else:
        made = webdriver.WebKitGTKOptions()
        made.binary_location = str(driver.browser)
        made.add_argument("--automation")
    if driver.kind.name != "safari":
        # A server in LAN mode has a certificate of its own making, and this browser opens nothing else.
        made.set_capability("acceptInsecureCerts", True)
    return made


def _program(kind: DriverKind) -> Path:
    if chosen := chosen_program(kind.variable, kind.driver):
        return chosen
    if program := shutil.which(kind.driver):
        return Path(program)
    raise ToolchainError(f"{kind.driver} was not found: {kind.install}, or set {kind.variable} to its path")


def _safari(kind: DriverKind, program: Path) -> Driver:
    version = version_of_program(program)  # "Included with Safari 26.1 (...)"
    if version and major(version) < OLDEST_SAFARI:
        raise ToolchainError(
            f"Safari {version} has no WebGPU: install Safari {OLDEST_SAFARI} or later (macOS {OLDEST_SAFARI})"
        )
    return Driver(kind, program, None, version)


def _chromedriver(kind: DriverKind, program: Path) -> Driver:
    found = find("chromium")
    if found.program is None:
        raise ToolchainError(
            f"{kind.driver} needs a Chromium of its own version: apt-get install chromium chromium-driver (Debian), "
            f"or set {found.kind.variable} to Chromium's path"
        )
    own = version_of_program(program)
    if own and found.version and major(own) != major(found.version):
        raise ToolchainError(
            f"{kind.driver} {own} ({program}) does not drive Chromium {found.version} ({found.program}): install both "
            "in one version, apt-get install chromium chromium-driver (Debian), "
            f"or set {kind.variable} and {found.kind.variable}"
        )
    return Driver(kind, program, found.program, found.version)


def _webkitgtk(kind: DriverKind, program: Path) -> Driver:
    variable = "TAPML_MINIBROWSER"
    browser = chosen_program(variable, "MiniBrowser")
    if browser is None:
        places = [path for place in _MINIBROWSER_PLACES for path in sorted(Path("/").glob(place[1:]))]
        if not places:
            raise ToolchainError(
                "WebKitGTK's MiniBrowser was not found: apt-get install libwebkit2gtk-4.1-0 (Debian), "
                f"or set {variable} to its path"
            )
        browser = places[-1]  # such as 4.1 rather than 4.0
    if not has_display():
        find_xvfb()
    # MiniBrowser tells its version only to who has a display.
    return Driver(kind, program, browser, version_of_program(browser) if has_display() else "")
