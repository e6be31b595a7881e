"""Model files to one Relax module: `minilm`, ONNX, torch.export programs and decoders of transformers."""

from tapml.importing.load import import_decoder, import_model, import_unweighted
from tapml.importing.model import ImportedModel, Step

__all__ = ["ImportedModel", "Step", "import_decoder", "import_model", "import_unweighted"]
