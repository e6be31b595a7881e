"""The suite on disk: a folder of plain files, tensors by content digest (docs/suite-format.md)."""

from tapml.suite.suite import KernelFile, Suite, SuiteWriter
from tapml.suite.tensors import TensorRef, TensorStore
from tapml.suite.tests import CarvedTest, Tolerance

__all__ = ["CarvedTest", "KernelFile", "Suite", "SuiteWriter", "TensorRef", "TensorStore", "Tolerance"]
