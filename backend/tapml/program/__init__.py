"""Programs: operator calls and the tensors between them. Pure data; knows neither TVM nor files."""

from tapml.program.graph import Graph, Node, NodeKind, TensorType, Value, ValueKind

__all__ = ["Graph", "Node", "NodeKind", "TensorType", "Value", "ValueKind"]
