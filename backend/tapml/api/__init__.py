"""The Python API of the TapML paper's Figure 5: compile, upload, tensors and calls, the same on every device.

```python
lib = tml.compile(module, target=device)
remote = tml.upload(lib)
x = tml.tensor(array, device)
y = tml.allocate(module.output[0].shape, module.output[0].dtype, device)
remote.get_function("transformer_block")(x, y)
np.testing.assert_allclose(y.numpy(), expected)
```
"""

from tapml.api.devices import Device, Info, batch, cpu, cuda, webgpu
from tapml.api.library import Function, Library, LoadedLibrary, compile, upload
from tapml.api.modules import Module, load
from tapml.api.tensors import Tensor, allocate, tensor
from tapml.sharing import Repro, load_repro

__all__ = [
    "Device",
    "Function",
    "Info",
    "Library",
    "LoadedLibrary",
    "Module",
    "Repro",
    "Tensor",
    "allocate",
    "batch",
    "compile",
    "cpu",
    "cuda",
    "load",
    "load_repro",
    "tensor",
    "upload",
    "webgpu",
]
