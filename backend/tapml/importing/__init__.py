"""Model files to one Relax module: `minilm`, ONNX and torch.export programs."""

from tapml.importing.load import import_model
from tapml.importing.model import ImportedModel, Oracle, Step

__all__ = ["ImportedModel", "Oracle", "Step", "import_model"]
