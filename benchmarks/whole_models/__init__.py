"""GPU time of whole models in Chromium, by @tapml/runtime and ONNX Runtime Web (`make bench-whole-models`)."""
