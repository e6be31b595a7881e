"""Real ONNX models that packages ship with their weights: carved, validated in browsers, offloaded."""
