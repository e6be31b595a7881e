"""`python -m benchmarks.onnx_models`."""

import sys

from benchmarks.onnx_models.run import main

if __name__ == "__main__":
    sys.exit(main())
