import type { Compilations } from "../hal/compilations";
import { DeviceFailure } from "../hal/errors";
import { diagnosed } from "../hal/executable";
import type { EntryPointInfo, Instance, Shader, Tensor, TvmRuntime, VirtualMachine } from "./tvmjs";
import { isArray, isTensor } from "./tvmjs";

/**
 * Compiles a model library's pipelines; `replace` gives other WGSL by entry point, and `dispatched` is called after each
 * dispatch that the virtual machine records. Call within a scope.
 */
export async function loadPipelines(
  runtime: TvmRuntime,
  vm: VirtualMachine,
  replace: ReadonlyMap<string, string>,
  compilations: Compilations,
  compiled: (entryPoint: string, done: number, total: number) => void,
  dispatched: (entryPoint: string) => void,
): Promise<void> {
  const { instance, context } = runtime;
  const library = vm.getInternalModule();
  const infos = JSON.parse(library.getFunction("webgpu.get_fmap", true)()) as Record<string, EntryPointInfo>;
  const getShader = library.getFunction("webgpu.get_shader");
  const updatePrebuild = library.getFunction("webgpu.update_prebuild");
  const names = Object.keys(infos);
  for (const name of replace.keys()) {
    if (!infos[name]) {
      const message = `the model library has no entry point ${name} to replace: it was linked from another kernel`;
      throw new DeviceFailure({ kind: "protocol", message, kernel: name });
    }
  }
  let done = 0;
  await Promise.all(
    Object.entries(infos).map(async ([name, info]) => {
      const code: string = replace.get(name) ?? getShader(name);
      const make = () => context.createShaderAsync(info, code);
      const shader = await compilations.run(name, () =>
        diagnosed(context.device, name, `${name}.wgsl`, code, make),
      );
      const told: Shader = (...args) => {
        shader(...args);
        dispatched(name);
      };
      instance.withNewScope(() => updatePrebuild(name, told));
      done++;
      compiled(name, done, names.length);
    }),
  );
}

export function makeTensor(instance: Instance, shape: number[], dtype: string, data: ArrayBuffer): Tensor {
  const tensor = instance.empty(shape, dtype, instance.webgpu());
  // Deno ends where nothing is copied.
  if (data.byteLength === 0) return tensor;
  if (data.byteLength % 4 === 0) return tensor.copyFromRawBytes(new Uint8Array(data));
  // tvmjs copies to the GPU by whole words only, but pads what comes from a tensor in wasm memory.
  instance.withNewScope(() => {
    const staged = instance.empty(shape, dtype, instance.cpu());
    tensor.copyFrom(staged.copyFromRawBytes(new Uint8Array(data)));
  });
  return tensor;
}

/** Calls a Relax function and reads its outputs (one tensor, or the tensors of a tuple) back. */
export async function callFunction(
  instance: Instance,
  vm: VirtualMachine,
  name: string,
  args: readonly Tensor[],
): Promise<{ bytes: Uint8Array[]; shapes: number[][] }> {
  instance.beginScope();
  try {
    const call: unknown = vm.getFunction(name);
    if (typeof call !== "function") {
      throw new DeviceFailure({ kind: "protocol", message: `the model library has no function ${name}` });
    }
    const outputs = outputTensors(call(...args), name);
    const host = outputs.map((output) => {
      const copy = instance.empty(output.shape, output.dtype, instance.cpu());
      return output.shape.includes(0) ? copy : copy.copyFrom(output);
    });
    await instance.webgpu().sync();
    return { bytes: host.map((tensor) => tensor.toRawBytes()), shapes: host.map((tensor) => tensor.shape) };
  } finally {
    instance.endScope();
  }
}

function outputTensors(value: unknown, name: string): Tensor[] {
  if (isTensor(value)) return [value];
  if (isArray(value)) {
    const items: unknown[] = Array.from({ length: value.size() }, (_, i) => value.get(i));
    if (items.every(isTensor)) return items;
  }
  throw new DeviceFailure({ kind: "protocol", message: `${name} gives something else than tensors` });
}
