"""How each browser is launched so that its WebGPU works and its tab is never slowed down.

Playwright adds more of its own for Chromium: no throttling of timers or hidden pages, no updates.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from tapml.browsers.find import vulkan_drivers

CHROMIUM_SWITCHES = ("--enable-unsafe-webgpu", "--disable-sync")

# Chromium on Linux keeps WebGPU off hardware unless asked. Without hardware these leave it with no adapter at
# all, while left alone it brings a software adapter of its own (SwiftShader).
CHROMIUM_HARDWARE_SWITCHES = (
    "--use-angle=vulkan",
    "--enable-features=Vulkan",
    "--disable-vulkan-surface",
    "--ignore-gpu-blocklist",
)

FIREFOX_PREFERENCES: dict[str, str | float | bool] = {
    "dom.webgpu.enabled": True,
    "dom.webgpu.workers.enabled": True,
    "gfx.webgpu.ignore-blocklist": True,
    # A tab in the background runs at full speed.
    "dom.min_background_timeout_value": 4,
    "dom.timeout.enable_budget_timer_throttling": False,
    "dom.suspend_inactive.enabled": False,
    "dom.ipc.processPriorityManager.enabled": False,
    "browser.tabs.unloadOnLowMemory": False,
    # A long computation is no mistake.
    "dom.max_script_run_time": 0,
    # Add-ons, and processes for tabs to come, are of no use to one tab: starting them is a fifth of Firefox's start.
    "extensions.enabledScopes": 0,
    "dom.ipc.processPrelaunch.enabled": False,
}

# A GPU's kernel driver, and how the Vulkan driver for it names itself.
_VULKAN_OF_KERNEL_DRIVER = {
    "nvidia": ("nvidia",),
    "nouveau": ("nouveau",),
    "amdgpu": ("radeon", "amd"),
    "i915": ("intel",),
    "xe": ("intel",),
}
_GPU_FOLDER = Path("/sys/class/drm")
_NVIDIA = Path("/dev/nvidiactl")


def chromium_arguments() -> list[str]:
    """The command line for Chromium; `TAPML_CHROMIUM_ARGS` adds to it."""
    arguments = list(CHROMIUM_SWITCHES)
    if sys.platform == "linux" and has_hardware_vulkan():
        arguments += CHROMIUM_HARDWARE_SWITCHES
    return arguments + shlex.split(os.environ.get("TAPML_CHROMIUM_ARGS", ""))


def chromium_sandbox() -> bool:
    """On, except for root, to whom Chromium refuses it, and where `TAPML_NO_SANDBOX` is set."""
    is_root = sys.platform != "win32" and os.geteuid() == 0
    return not is_root and not os.environ.get("TAPML_NO_SANDBOX")


def has_hardware_vulkan() -> bool:
    """Is there a GPU together with its Vulkan driver?"""
    kernel_drivers = {path.resolve().name for path in _GPU_FOLDER.glob("renderD*/device/driver")}
    if _NVIDIA.exists():
        kernel_drivers.add("nvidia")
    installed = vulkan_drivers()
    wanted = [name for driver in kernel_drivers for name in _VULKAN_OF_KERNEL_DRIVER.get(driver, ())]
    return any(file.startswith(name) for file in installed for name in wanted)
