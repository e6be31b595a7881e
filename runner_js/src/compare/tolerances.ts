/** The tensors that tolerances are made of: whether they fit their outputs, and their bytes. */

import { describeType } from "../program/dtypes";
import type { TensorRef, TensorType, Test, Tolerance } from "../protocol/messages";
import type { Allowed } from "./compare";

/** What a test's outputs are held against: the expected ones, bounds and ties. */
export function comparedRefs({ outputs, tolerances }: Test): TensorRef[] {
  return [...outputs, ...tolerances.flatMap(toleranceRefs)];
}

function toleranceRefs({ bound, ties }: Tolerance): TensorRef[] {
  return [bound, ties].filter((ref) => ref != null);
}

/** What is wrong with the tensors of a test's tolerances, in a sentence that names it; null where nothing is. */
export function malformed({ id, outputs, tolerances }: Test): string | null {
  for (const [i, { bound, ties }] of tolerances.entries()) {
    const output = outputs[i] as TensorRef;
    const of = `of output ${i} of test ${id}`;
    const wanted: TensorType = { dtype: "float32", shape: output.shape };
    if (bound && describeType(bound) !== describeType(wanted)) {
      return `the bound ${of} is ${describeType(bound)}, not ${describeType(wanted)}`;
    }
    if (!ties) continue;
    if (output.dtype === "float32" || output.dtype === "float16") {
      return `the ties ${of} are for an output of integers, it is ${describeType(output)}`;
    }
    if (ties.dtype !== "int32" || ties.encoding || ties.shape.length !== 2 || ties.shape[1] !== 3) {
      return `the ties ${of} are ${describeType(ties)}, not int32[n, 3]`;
    }
  }
  return null;
}

/** With the bytes of its tensors; `load` gives those of a blob. */
export async function loadAllowed(
  tolerance: Tolerance,
  load: (ref: TensorRef) => Promise<ArrayBuffer>,
): Promise<Allowed> {
  const { absolute, relative } = tolerance;
  const [bound, ties] = await Promise.all(
    [tolerance.bound, tolerance.ties].map((ref) => (ref ? load(ref) : null)),
  );
  return {
    absolute,
    relative,
    bound: bound ? new Float32Array(bound) : null,
    ties: ties ? new Int32Array(ties) : null,
  };
}
