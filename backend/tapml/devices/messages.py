"""Building what is sent to a device: kernels, tests and commands as the protocol spells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapml.devices.blobs import Blobs
from tapml.suite import CarvedTest, KernelFile, Suite


def kernel_message(bundle: Mapping[str, Any], code: Sequence[str]) -> dict[str, Any]:
    """Protocol type Kernel; `code` are the digests of the WGSL of the bundle's last variant, in its order."""
    base = bundle["variants"][-1]
    return {
        "kernel": bundle["kernel"],
        "entry_points": [
            {"name": e["name"], "file": e["file"], "code": digest, "info": e["info"]}
            for e, digest in zip(base["entry_points"], code, strict=True)
        ],
        "requires": base["requires"],
    }


class KernelMessages:
    """A suite's kernels as protocol messages, with the WGSL text as it is in the folder now.

    Holds the texts in `blobs` until `close`; a context manager.
    """

    def __init__(self, suite: Suite, blobs: Blobs, kernels: Sequence[str] | None = None) -> None:
        self._blobs = blobs
        self._bundles = {name: suite.bundle(name) for name in (suite.kernels if kernels is None else kernels)}
        self._files: dict[str, list[KernelFile]] = {
            name: suite.kernel_files(name)[-len(bundle["variants"][-1]["entry_points"]) :]
            for name, bundle in self._bundles.items()
            if not bundle["unsupported"]
        }
        self._held = [blobs.hold(file.text.encode()) for files in self._files.values() for file in files]

    def __enter__(self) -> KernelMessages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for digest in self._held:
            self._blobs.release(digest)
        self._held = []

    def unsupported(self, kernel: str) -> str | None:
        """Why no WGSL could be generated for this kernel."""
        reason = self._bundles[kernel]["unsupported"]
        return str(reason) if reason else None

    def edited(self, kernel: str) -> bool:
        return any(file.edited for file in self._files.get(kernel, []))

    def kernel(self, name: str) -> dict[str, Any]:
        """Protocol type Kernel."""
        return kernel_message(self._bundles[name], [file.digest for file in self._files[name]])

    def replacements(self) -> dict[str, str]:
        """Edited entry points -> digest of their WGSL (RunModelParams.replace)."""
        return {
            entry_point["name"]: file.digest
            for name, files in self._files.items()
            for entry_point, file in zip(self._bundles[name]["variants"][-1]["entry_points"], files, strict=True)
            if file.edited
        }

    def launches(self, name: str) -> dict[str, Any]:
        """`launches` and `temporaries` of a kernel's (only) shapes."""
        dispatch = self._bundles[name]["variants"][-1]
        return {"launches": dispatch["launches"], "temporaries": dispatch["temporaries"]}

    def test(self, test: CarvedTest) -> dict[str, Any]:
        """Protocol type Test."""
        return {
            "id": test.id,
            "kernel": test.kernel,
            "inputs": [ref.to_json() for ref in test.inputs],
            "outputs": [ref.to_json() for ref in test.outputs],
            "tolerances": [{"absolute": t.absolute, "relative": t.relative} for t in test.tolerances],
            **self.launches(test.kernel),
        }
