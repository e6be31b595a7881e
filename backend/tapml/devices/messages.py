"""Building what is sent to a device: kernels, tests and commands as the protocol spells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapml.devices.blobs import Blobs
from tapml.devices.commands import message
from tapml.files import sha256
from tapml.kernels.document import overwritten
from tapml.protocol.kernels import Kernel
from tapml.protocol.methods import Test
from tapml.suite import CarvedTest, KernelFile, Suite


def kernel_message(bundle: Mapping[str, Any], code: Sequence[str]) -> Kernel:
    """`code` are the digests of its variants' entry points' WGSL, in the bundle's order."""
    digests = iter(code)
    variants = [
        {**variant, "entry_points": [{**entry_point, "code": next(digests)} for entry_point in variant["entry_points"]]}
        for variant in bundle["variants"]
    ]
    overwrites = [{"argument": output, "input": before} for output, before in overwritten(bundle).items()]
    found = {**bundle, "variants": variants, "overwrites": overwrites}
    return message(Kernel, found, f"kernel {bundle['kernel']}")


def made_by_tvm(bundle: Mapping[str, Any]) -> bool:
    """Documents of version 1 do not say who made them: nobody else could."""
    return bundle["compiler"]["name"] in ("tvm", "")


def kernel_digest(kernel: Kernel) -> str:
    """Of everything that devices are given of a kernel: another one means that another kernel runs."""
    # What a kernel has not got is left out, so that a field that comes to be makes no other kernel of those before it.
    return sha256(kernel.model_dump_json(exclude_defaults=True))[:16]


def digest_now(suite: Suite, name: str) -> str:
    """`kernel_digest` of a kernel as it lies in the folder now; empty where there is none. Raises InputError for a
    damaged one."""
    bundle = suite.bundle(name)
    if bundle["unsupported"]:
        return ""
    return kernel_digest(kernel_message(bundle, [file.digest for file in suite.kernel_files(name)]))


class KernelMessages:
    """A suite's kernels as protocol messages, with the WGSL text as it is in the folder now.

    A context manager: holds the texts in `blobs` until it is left.
    """

    def __init__(self, suite: Suite, blobs: Blobs, kernels: Sequence[str] | None = None) -> None:
        self._blobs = blobs
        self.sizes_of = suite.sizes_of
        self._bundles = {name: suite.bundle(name) for name in (suite.kernels if kernels is None else kernels)}
        self._files: dict[str, list[KernelFile]] = {
            name: suite.kernel_files(name) for name, bundle in self._bundles.items() if not bundle["unsupported"]
        }
        self._held = [blobs.hold(file.text.encode()) for files in self._files.values() for file in files]

    def __enter__(self) -> KernelMessages:
        return self

    def __exit__(self, *_: object) -> None:
        for digest in self._held:
            self._blobs.release(digest)
        self._held = []

    def unsupported(self, kernel: str) -> str | None:
        """Why no WGSL could be generated for this kernel."""
        reason = self._bundles[kernel]["unsupported"]
        return str(reason) if reason else None

    def edited(self, kernel: str) -> bool:
        return any(file.edited for file in self._files.get(kernel, []))

    def digest(self, name: str) -> str:
        """`kernel_digest` of this kernel; empty where there is none."""
        return "" if self.unsupported(name) else kernel_digest(self.kernel(name))

    def nbytes(self, name: str) -> int:
        """Of this kernel in a message."""
        return len(self.kernel(name).model_dump_json())

    def kernel(self, name: str) -> Kernel:
        return kernel_message(self._bundles[name], [file.digest for file in self._files[name]])

    def replacements(self) -> dict[str, str]:
        """Entry points of kernels that TVM made -> digest of their WGSL (RunModelParams.replace).

        All of them, not only those that somebody edited: what TVM links into a model library has constants of seven
        digits (compilers/tvm/constants.py), and the model shall run what was validated.
        """
        replaced = {}
        for name, files in self._files.items():
            if not made_by_tvm(self._bundles[name]):
                continue
            base = self._bundles[name]["variants"][-1][
                "entry_points"
            ]  # the variant that model libraries are linked from
            for entry_point, file in zip(base, files[-len(base) :], strict=True):
                replaced[entry_point["name"]] = file.digest
        return replaced

    def test(self, test: CarvedTest) -> Test:
        return message(Test, test.to_json(), f"test {test.id}")
