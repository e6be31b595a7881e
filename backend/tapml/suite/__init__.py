"""The suite on disk: a folder of plain files, tensors by content digest (docs/suite-format.md)."""

from tapml.suite.kernels import KernelFile
from tapml.suite.suite import Suite
from tapml.suite.tensors import TensorRef, TensorStore
from tapml.suite.tests import CarvedTest, Tolerance
from tapml.suite.writer import SuiteWriter

__all__ = ["CarvedTest", "KernelFile", "Suite", "SuiteWriter", "TensorRef", "TensorStore", "Tolerance"]
