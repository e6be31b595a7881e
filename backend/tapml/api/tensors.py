"""Tensors on any device."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import tvm

from tapml.api.devices import Device, LocalDevice, WebGpuDevice, find
from tapml.devices.commands import allocated, uploaded
from tapml.encodings import Encoding, check_encoding
from tapml.errors import InputError
from tapml.platforms.reference import to_numpy
from tapml.program import TensorType
from tapml.protocol.base import DTYPES, MOST_ELEMENTS
from tapml.protocol.methods import DownloadCommand, FreeCommand


class Freeable:
    """Holds something on a device; freed at the end of a `with` block."""

    def free(self) -> None:
        """Free it now. May be called twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


class Tensor(Freeable):
    """A tensor on a device. Freed there when Python drops it, or at the end of a `with` block, or by `free`."""

    def __init__(self, device: Device, tensor_type: TensorType, handle: Any) -> None:
        self.device = device
        self.type = tensor_type
        self._handle = handle
        self._finalizer: weakref.finalize[Any, Any] | None = None
        if isinstance(device, WebGpuDevice):
            self._finalizer = weakref.finalize(self, device.session.drop, FreeCommand(tensors=[handle]))
            self._finalizer.atexit = False  # the device ends with the program

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.type.nbytes

    @property
    def handle(self) -> Any:
        """What functions take: a name on the device, or TVM's tensor. Raises InputError after `free`."""
        if self._handle is None:
            raise InputError(f"{self!r} was freed: make it again")
        return self._handle

    def numpy(self) -> np.ndarray:
        """The elements, copied from the device. Raises DeviceError where it is gone, InputError after `free`."""
        if not isinstance(self.device, WebGpuDevice):
            return to_numpy(self.handle, self.dtype).copy()
        (array,) = self.device.session.run([DownloadCommand(tensor=self.handle)], [self.type]).arrays
        return array

    def free(self) -> None:
        self._handle = None
        if self._finalizer:
            self._finalizer()

    def __repr__(self) -> str:
        freed = ", freed" if self._handle is None else ""
        return f"<tapml.Tensor {self.type} on {self.device!r}{freed}>"


def tensor(data: Any, device: Device | None = None, *, encoding: Encoding | None = None) -> Tensor:
    """A copy of `data` (anything numpy takes) on a device (default: the CPU); `encoding`: stored so on a WebGPU device.

    A C-contiguous array, a memory-mapped file too, is not copied in Python: its bytes stream to the device.
    Raises InputError for a dtype that no kernel takes (WebGPU has no float64 and no int64), and for an element that the
    encoding cannot hold.
    """
    array = np.asarray(data, order="C")
    tensor_type = _checked(array.shape, str(array.dtype), encoding)
    target = find(device)
    if isinstance(target, WebGpuDevice):
        name = target.session.new_name("t")
        stored = tensor_type.encoded(array).reshape(-1).view(np.uint8).data
        with target.session.blobs.holding([stored]) as (digest,):
            target.session.run([uploaded(name, digest, tensor_type)])
        return Tensor(target, tensor_type, name)
    assert isinstance(target, LocalDevice)
    return Tensor(target, tensor_type, tvm.runtime.tensor(array, device=target.tvm))


def allocate(
    shape: Sequence[int], dtype: str, device: Device | None = None, *, encoding: Encoding | None = None
) -> Tensor:
    """A tensor to write into. On WebGPU asynchronous, as calls are, and filled with 0xFF (NaN for floats), so that
    unwritten elements show.

    Raises InputError for a dtype that no kernel takes, or a shape that is none.
    """
    tensor_type = _checked(shape, str(dtype), encoding)
    target = find(device)
    if isinstance(target, WebGpuDevice):
        name = target.session.new_name("t")
        target.session.do([allocated(name, tensor_type)])
        return Tensor(target, tensor_type, name)
    assert isinstance(target, LocalDevice)
    return Tensor(target, tensor_type, tvm.runtime.empty(tensor_type.shape, tensor_type.dtype, target.tvm))


def _checked(shape: Sequence[int], dtype: str, encoding: Encoding | None) -> TensorType:
    if dtype not in DTYPES:
        names = ", ".join(DTYPES)
        raise InputError(f"a tensor of {dtype} cannot be on every device: convert it first, to one of {names}")
    try:
        extents = tuple(operator.index(extent) for extent in shape)
    except TypeError:
        raise InputError(f"{shape!r} is no shape: give a tuple of integers") from None
    if any(not 0 <= extent <= MOST_ELEMENTS for extent in extents):
        raise InputError(f"{extents} is no shape of a tensor: extents are from 0 to {MOST_ELEMENTS}")
    try:
        check_encoding(encoding, dtype)
    except ValueError as error:
        raise InputError(str(error)) from None
    return TensorType(extents, dtype, encoding)
