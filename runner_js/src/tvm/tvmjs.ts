/**
 * The one place that reaches into tvmjs. To compile a model's pipelines with errors that point into the WGSL we need
 * the WebGPUContext inside an Instance, whose members below are private in its types.
 */
import * as tvmjs from "@mlc-ai/web-runtime";
import { captureErrors } from "../hal/scopes";
import type { ErrorReport } from "../protocol/messages";

/** The signature of an entry point as TVM writes it into a library. */
export interface EntryPointInfo {
  name: string;
  arg_types: string[];
  launch_param_tags: string[];
}

/** Encodes one dispatch: buffer pointers and scalars in the order of `arg_types`, then the launch extents. */
export type Shader = (...args: number[]) => void;

export interface Context {
  readonly device: GPUDevice;
  createShaderAsync(info: EntryPointInfo, code: string): Promise<Shader>;
  /** Submits the dispatches that were recorded. */
  flushCommands(): void;
}

export type Instance = tvmjs.Instance;
export type Tensor = tvmjs.Tensor;
export type VirtualMachine = tvmjs.VirtualMachine;

export interface TvmRuntime {
  instance: Instance;
  context: Context;
  /** GPU errors of buffers that tvmjs made for itself (the virtual machine's tensors). */
  bufferErrors: Promise<ErrorReport | null>[];
}

/** `dispose` of the instance frees its buffers and leaves the device alive. */
export async function instantiate(wasm: ArrayBuffer, device: GPUDevice): Promise<TvmRuntime> {
  const bufferErrors: Promise<ErrorReport | null>[] = [];
  // tvmjs logs whatever the wasm prints; nothing there is for the reader of the page.
  const instance = await tvmjs.instantiate(wasm, tvmjs.createPolyfillWASI(), () => {});
  instance.initWebGPU(lend(device, bufferErrors));
  const { lib } = instance as unknown as { lib: { webGPUContext: Context } };
  return { instance, context: lib.webGPUContext, bufferErrors };
}

export function isTensor(value: unknown): value is Tensor {
  return value instanceof tvmjs.Tensor;
}

export function isArray(value: unknown): value is tvmjs.TVMArray {
  return value instanceof tvmjs.TVMArray;
}

/**
 * The device as tvmjs may use it. Three of its habits do not suit a shared device: an Instance destroys the device
 * when it is disposed of, and also when a buffer cannot be made; and it holds on to `lost`, which would keep every
 * instance, wasm memory included, alive as long as the device.
 */
function lend(device: GPUDevice, bufferErrors: Promise<ErrorReport | null>[]): GPUDevice {
  const replaced: Partial<Record<PropertyKey, unknown>> = {
    destroy: () => {},
    addEventListener: () => {},
    lost: new Promise<never>(() => {}),
    createBuffer(descriptor: GPUBufferDescriptor): GPUBuffer {
      const captured = captureErrors(device);
      // Of a tensor without elements: not every implementation takes a buffer of 0 bytes.
      const buffer = device.createBuffer({ ...descriptor, size: Math.max(descriptor.size, 4) });
      bufferErrors.push(captured());
      return buffer;
    },
  };
  const bound = new Map<PropertyKey, unknown>();
  return new Proxy(device, {
    get(target, key) {
      if (key in replaced) return replaced[key];
      const known = bound.get(key);
      if (known) return known;
      // Attributes and methods of platform objects insist on the object itself as `this`.
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      const method: unknown = value.bind(target);
      bound.set(key, method);
      return method;
    },
  });
}
