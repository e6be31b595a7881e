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
