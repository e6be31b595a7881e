/** Shared tests of little kernels, for tests. */
import type { Repro } from "../../repro/types";
import type { TestDevice } from "./dawn";
import { type KernelText, variantOf } from "./kernels";

/** A test of `text` whose tensors are on the device's server; texts and digests are only names. */
export function reproOf(
  device: TestDevice,
  text: KernelText,
  inputs: number[][],
  outputs: number[][],
): Repro {
  const texts: Record<string, string> = {};
  const variant = variantOf(text, (digest, code) => {
    texts[digest] = code;
    return device.put(digest, code);
  });
  const workgroup_size = [text.invocations ?? 64, 1, 1];
  const tensor = (role: string) => (values: number[], i: number) => {
    const digest = device.put(`${role}${i}`, Float32Array.from(values));
    return { name: `${role}${i}`, digest, dtype: "float32" as const, shape: [values.length] };
  };
  const tolerance = { absolute: 0, relative: 0, reasons: ["exact"] };
  return {
    ...{ format: "tapml.repro/2", created: "2026-11-20T10:00:00Z", tapml: "0.1.0", report: null },
    suite: { id: "s", name: "s", synthetic: false, doubts: [] },
    model: { title: "m", source: "m.onnx", sha256: "0" },
    reference: { platform: "cpu", device: "cpu" },
    test: { id: "n000.s0", node: "n000", kernel: text.name, step: 0, sizes: {} },
    inputs: inputs.map(tensor("in")),
    outputs: outputs.map(tensor("out")).map((output) => ({ ...output, tolerance })),
    kernel: {
      kernel: text.name,
      symbols: [],
      arguments: [],
      variants: [
        { ...variant, entry_points: variant.entry_points.map((entry) => ({ ...entry, workgroup_size })) },
      ],
      unsupported: null,
    },
    files: Object.entries(texts).map(([sha256, text]) => {
      return { name: variant.entry_points[0]?.file ?? "", sha256, edited: false, text };
    }),
  };
}
