"""Model files to one Relax module: `minilm`, ONNX and torch.export programs."""

from tapml.importing.load import import_model
from tapml.importing.model import ImportedModel, Step

__all__ = ["ImportedModel", "Step", "import_model"]
