"""The ONNX backend node tests, carved and validated: `make bench-onnx`."""
