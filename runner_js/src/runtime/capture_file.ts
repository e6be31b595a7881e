import type { CompiledKernel, CompiledModel } from "../compiled/generated/model";
import { allPlaces } from "../compiled/generation";
import type { Capabilities } from "../hal/gpu";
import type { Sizes } from "../program/expressions";
import type { TensorType } from "../protocol/messages";
import { whereThisRuns } from "./validated";

/** Of a file; `tapml import` takes no more. */
const MOST_REASONS = 100;
const LONGEST_REASON = 2000;

export interface CapturedTensor {
  name: string;
  type: TensorType;
  /** Of the model. */
  weight: boolean;
  digest: string;
  /** Null where it does not go into the file. */
  data: Uint8Array<ArrayBuffer> | null;
}

/** One call of an operator. */
export interface CapturedCall {
  node: string;
  /** Its number in the model. */
  kernel: number;
  variant: string;
  sizes: Sizes;
  inputs: CapturedTensor[];
  outputs: CapturedTensor[];
}

export interface CaptureFacts {
  model: CompiledModel;
  function: string;
  sizes: Sizes;
  capabilities: Capabilities;
  leftOut: number;
  why: string[];
  calls: CapturedCall[];
  /** The text of an operator's program; null where it cannot be had. */
  program(kernel: string): Promise<string | null>;
}

/** tapml.capture/1, a safetensors file (docs/capture.md): each tensor once, by its digest. */
export async function captureFile(facts: CaptureFacts): Promise<Blob> {
  const { model, calls, capabilities } = facts;
  const data = new Map<string, Uint8Array<ArrayBuffer>>();
  const all = (tensors: CapturedTensor[]) =>
    tensors.map(({ name, type, weight, digest, data: bytes }) => {
      if (bytes) data.set(digest, bytes);
      return { name, digest, ...type, weight };
    });
  const numbers = [...new Set(calls.map(({ kernel }) => kernel))].sort((a, b) => a - b);
  const { wgsl, kernels } = kernelsOf(model, numbers);
  const operators: Record<string, string> = {};
  for (const { kernel } of kernels) {
    const text = await facts.program(kernel);
    if (text !== null) operators[kernel] = text;
  }
  const { provenance } = model;
  const { name, runtime, userAgent } = whereThisRuns();
  const document = {
    format: "tapml.capture/1",
    created: new Date().toISOString(),
    model: {
      name: model.name,
      title: model.title,
      source: provenance.model.source,
      sha256: provenance.model.sha256,
      suite: provenance.suite,
      tapml: provenance.tapml,
      doubts: provenance.doubts,
    },
    device: { name, runtime, user_agent: userAgent, ...capabilities },
    function: facts.function,
    sizes: withoutPlaces(model, facts.sizes),
    left_out: facts.leftOut,
    why: facts.why.slice(0, MOST_REASONS).map((reason) => reason.slice(0, LONGEST_REASON)),
    wgsl,
    kernels,
    operators,
    calls: calls.map(({ node, kernel, variant, sizes, inputs, outputs }) => ({
      node,
      kernel: model.kernels[kernel]?.kernel,
      variant,
      sizes: withoutPlaces(model, sizes),
      inputs: all(inputs),
      outputs: all(outputs),
    })),
  };
  return safetensors(JSON.stringify(document), data);
}

/** Kernels, and the texts that they name by their place among these alone. */
function kernelsOf(model: CompiledModel, numbers: number[]): { wgsl: string[]; kernels: CompiledKernel[] } {
  const places = new Map<number, number>();
  const place = (index: number) => {
    const found = places.get(index) ?? places.size;
    places.set(index, found);
    return found;
  };
  const kernels = numbers.map((number) => {
    const kernel = model.kernels[number] as CompiledKernel;
    const variants = kernel.variants.map((variant) => {
      const entries = variant.entry_points.map((entry) => ({ ...entry, wgsl: place(entry.wgsl) }));
      return { ...variant, entry_points: entries };
    });
    return { ...ofSuite(model, kernel), variants };
  });
  return { wgsl: [...places.keys()].map((index) => model.wgsl[index] ?? ""), kernels };
}

/** A kernel as the suite has it, whose states have room for all that fits: such a call is captured. */
function ofSuite({ generation }: CompiledModel, kernel: CompiledKernel): CompiledKernel {
  const places = generation?.places;
  if (!places) return kernel;
  return {
    ...kernel,
    symbols: kernel.symbols.filter(({ name }) => name !== places),
    arguments: kernel.arguments.map((argument) => ({
      ...argument,
      shape: argument.shape.map((extent) => (extent === places ? allPlaces(generation) : extent)),
    })),
  };
}

function withoutPlaces({ generation }: CompiledModel, sizes: Sizes): Sizes {
  return Object.fromEntries(Object.entries(sizes).filter(([name]) => name !== generation?.places));
}

/** Tensors as bytes, for what they hold is in the document. */
function safetensors(document: string, data: ReadonlyMap<string, Uint8Array<ArrayBuffer>>): Blob {
  const header: Record<string, unknown> = { __metadata__: { tapml: document } };
  let end = 0;
  for (const [digest, { length }] of data) {
    header[digest] = { dtype: "U8", shape: [length], data_offsets: [end, end + length] };
    end += length;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const padded = new Uint8Array(8 + Math.ceil(text.length / 8) * 8).fill(0x20);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - 8), true);
  padded.set(text, 8);
  return new Blob([padded, ...data.values()], { type: "application/octet-stream" });
}
