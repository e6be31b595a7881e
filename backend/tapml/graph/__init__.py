"""The graph: operator calls and the tensors between them. Pure data; knows neither TVM nor files."""

from tapml.graph.model import Graph, Node, NodeKind, TensorType, Value, ValueKind

__all__ = ["Graph", "Node", "NodeKind", "TensorType", "Value", "ValueKind"]
