import type { CompiledModel } from "../compiled/generated/model";
import type { LoadOptions } from "./api";

/** What is told of a model that is being loaded: bytes of its weights, and kernels. */
export function teller(document: CompiledModel, onProgress: LoadOptions["onProgress"] = () => {}) {
  const totalBytes = document.weights.shards.reduce((sum, { bytes }) => sum + bytes, 0);
  const progress = { bytes: 0, totalBytes, kernels: 0, totalKernels: document.kernels.length };
  const tell = () => onProgress({ ...progress });
  tell();
  return {
    bytes: (more: number) => {
      progress.bytes += more;
      tell();
    },
    kernel: () => {
      progress.kernels++;
      tell();
    },
  };
}
