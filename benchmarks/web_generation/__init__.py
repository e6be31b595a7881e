"""tiny's tokens per second in a page: @tapml/runtime beside ONNX Runtime Web."""
