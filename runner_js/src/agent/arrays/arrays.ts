/** Arrays of tasks: what Python's `tapml.arrays` calls. tapml-arrays.js is made of this file. */
export { binary, unary, where } from "./elementwise";
export { assign, bytes, cast, fromBytes, full, nonzero, put, ramp, strided, take } from "./layout";
export { cholesky, det, matmul, solve } from "./linalg";
export { argsort, cumulate, reduce, searchsorted, sort } from "./rows";
