"""`pytest --tapml SUITE`: carved tests as pytest's own, on real WebGPU devices.

pytest loads this in every run of an environment where tapml is installed, so it imports nothing but pytest until a
suite is named.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tapml", "carved tests of WGSL kernels")
    group.addoption(
        "--tapml",
        action="append",
        default=[],
        metavar="SUITE",
        help="collect the tests of this suite; repeat for several. Without other paths only suites are collected.",
    )
    group.addoption(
        "--tapml-device",
        action="append",
        default=[],
        metavar="NAME",
        help="device to run them on, such as chromium, firefox or node-dawn; repeat for several (default chromium)",
    )
    group.addoption(
        "--tapml-hang-seconds",
        type=float,
        default=30.0,
        metavar="S",
        help="a kernel that does not end within S seconds is an error (default 30)",
    )
    parser.addini("tapml_suites", "suites whose tests are collected in every run", type="paths", default=[])
    parser.addini("tapml_devices", "devices to run them on (default chromium)", type="args", default=[])


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """A suite is data, which may come from strangers: pytest must not run what lies in one."""
    for file in _suites(early_config, early_config.known_args_namespace.tapml):
        for code in ("conftest.py", "__init__.py"):
            if (file.parent / code).exists():
                raise pytest.UsageError(f"{file.parent} has a {code}, which pytest would run: a suite has none")


def pytest_configure(config: pytest.Config) -> None:
    """Add the suites to what is collected. Raises UsageError for what is no suite."""
    named = config.getoption("--tapml")
    if not (files := _suites(config, named)):
        return
    for file in files:
        if not file.is_file():
            raise pytest.UsageError(f"{file.parent} is not a suite (it has no suite.json)")
    from tapml.pytest_items import Collector

    if named and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []  # nobody asked for testpaths or the working directory
    # One that is there already, whole or by tests' ids, was asked for by its path.
    given = {Path(config.invocation_params.dir, arg.split("::")[0]).resolve() for arg in config.args}
    config.args += [str(file) for file in files if file not in given]
    devices = config.getoption("--tapml-device") or config.getini("tapml_devices") or ["chromium"]
    collector = Collector(files, devices, config.getoption("--tapml-hang-seconds"))
    config.pluginmanager.register(collector, "tapml-collector")
    config.add_cleanup(collector.close)


def _suites(config: pytest.Config, named: list[str]) -> list[Path]:
    """The suite.json of each suite, of the configuration and of the command line."""
    folders = [*config.getini("tapml_suites"), *(Path(config.invocation_params.dir, text) for text in named)]
    return list(dict.fromkeys(Path(folder).resolve() / "suite.json" for folder in folders))
