/** The kernel: compiled, bound, dispatched, read back. The part to step through in a debugger. */
import { tooLarge } from "../src/hal/buffers";
import { DeviceFailure } from "../src/hal/errors";
import { compile, type Executable } from "../src/hal/executable";
import type { Gpu } from "../src/hal/gpu";
import { captureErrors } from "../src/hal/scopes";
import { paddedBytes } from "../src/hal/sizes";
import { makeTexture, viewOf } from "../src/hal/textures";
import { bytesOf } from "../src/program/dtypes";
import { checkSizes } from "../src/program/expressions";
import { evaluateLaunches } from "../src/program/launches";
import { texturesAt, textureTooLarge } from "../src/program/textures";
import type { TensorRef } from "../src/protocol/messages";
import type { Bytes, Outcome, Repro, Variant } from "./types";

/** Work of the GPU, or a compilation, that takes longer is taken for hung. */
const HANG_SECONDS = 30;

function filledBuffer(device: GPUDevice, usage: GPUBufferUsageFlags, bytes: Uint8Array): GPUBuffer {
  const buffer = device.createBuffer({ size: paddedBytes(bytes.byteLength), usage, mappedAtCreation: true });
  new Uint8Array(buffer.getMappedRange()).set(bytes);
  buffer.unmap();
  return buffer;
}

/** The input in whose bytes an output is written; null where it has bytes of its own. */
export function overwritten({ kernel, inputs }: Repro, output: number): TensorRef | null {
  return inputs[kernel.arguments[inputs.length + output]?.overwrites ?? -1] ?? null;
}

/** The same promise, rejected when the device is lost: it counts as lost when this takes longer than `seconds`. */
async function inTime<T>(gpu: Gpu, promise: Promise<T>, seconds: number, what: string): Promise<T> {
  const late = `${what} did not end within ${seconds} s`;
  const timer = setTimeout(() => gpu.markLost("hung", late, {}), 1000 * seconds);
  return gpu.guard(promise, new AbortController().signal).finally(() => clearTimeout(timer));
}

/**
 * Runs the kernel once; gives the bytes of each output. Throws a DeviceFailure. `data` gives the bytes of a tensor, and
 * `seconds` is filled with the time of each part.
 */
export async function runKernel(
  gpu: Gpu,
  variant: Variant,
  repro: Repro,
  data: (tensor: TensorRef) => Bytes,
  seconds: Outcome["seconds"],
  hangSeconds = HANG_SECONDS,
): Promise<Bytes[]> {
  const { device } = gpu;
  const { kernel, symbols } = repro.kernel;
  const start = performance.now();
  const compiled = new Map<string, Executable>();
  for (const entry of variant.entry_points) {
    const code = repro.files.find((file) => file.name === entry.file)?.text ?? "";
    const compiling = compile(device, kernel, entry, code);
    compiled.set(entry.name, await inTime(gpu, compiling, hangSeconds, `compiling kernel ${kernel}`));
  }
  seconds.compile = (performance.now() - start) / 1000;

  checkSizes(symbols, repro.test.sizes);
  const { launches, temporaries: scratch } = evaluateLaunches(variant, repro.test.sizes);
  const textures = texturesAt(variant, repro.test.sizes);
  const { maxBufferSize, maxComputeWorkgroupsPerDimension: most } = device.limits;
  const largest = Math.max(...[...repro.inputs, ...repro.outputs].map(bytesOf), ...scratch);
  if (largest > maxBufferSize)
    throw new DeviceFailure({ kind: "unsupported", message: tooLarge(largest, maxBufferSize) });
  const beyond = textures.map((texture) => textureTooLarge(texture, device.limits)).find(Boolean);
  if (beyond) throw new DeviceFailure({ kind: "unsupported", message: beyond });

  const errors = captureErrors(device);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC;
  const inputs = repro.inputs.map((tensor) => filledBuffer(device, usage, data(tensor)));
  // Outputs begin as 0xFF bytes, NaN for floats: what the kernel leaves out must not look as if it were right. One that
  // overwrites an input begins as that.
  const outputs = repro.outputs.map((tensor, i) => {
    const before = overwritten(repro, i);
    return filledBuffer(device, usage, before ? data(before) : new Uint8Array(bytesOf(tensor)).fill(0xff));
  });
  const temporaries = scratch.map((bytes) => device.createBuffer({ size: paddedBytes(bytes), usage }));
  const views = textures.map((texture) => viewOf(makeTexture(device, texture), texture));
  const operands = [...inputs, ...outputs];

  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  variant.launches.forEach((launch, i) => {
    const made = compiled.get(launch.entry_point);
    const evaluated = launches[i];
    if (!made || !evaluated)
      throw new DeviceFailure({ kind: "protocol", message: `there is no entry point ${launch.entry_point}` });
    const { grid, uniform } = evaluated;
    if (grid.some((workgroups) => workgroups > most)) {
      const message = `dispatches [${grid}] workgroups, this device allows maxComputeWorkgroupsPerDimension ${most}`;
      throw new DeviceFailure({ kind: "unsupported", message });
    }
    const entries = made.storage.map(({ binding }, k): GPUBindGroupEntry => {
      const operand = launch.operands[k] ?? { argument: -1 };
      const view = "texture" in operand && views[operand.texture];
      if (view) return { binding, resource: view };
      const buffer =
        "argument" in operand
          ? operands[operand.argument]
          : "temporary" in operand && temporaries[operand.temporary];
      if (!buffer)
        throw new DeviceFailure({ kind: "protocol", message: `no such operand: ${JSON.stringify(operand)}` });
      return { binding, resource: { buffer } };
    });
    if (made.uniform !== undefined) {
      const buffer = filledBuffer(device, GPUBufferUsage.UNIFORM, uniform ?? new Uint8Array(4));
      entries.push({ binding: made.uniform, resource: { buffer } });
    }
    pass.setPipeline(made.pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: made.layout, entries }));
    pass.dispatchWorkgroups(...grid);
  });
  pass.end();
  const staged = outputs.map((output) => {
    const staging = device.createBuffer({
      size: output.size,
      usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
    });
    encoder.copyBufferToBuffer(output, 0, staging, 0, output.size);
    return staging;
  });
  const submitted = performance.now();
  device.queue.submit([encoder.finish()]);
  const mapped = Promise.all(staged.map((staging) => staging.mapAsync(GPUMapMode.READ)));
  mapped.catch(() => {}); // an error of the scopes says more
  const ended = errors().then((error) => {
    if (error) throw new DeviceFailure(error);
    return mapped;
  });
  await inTime(gpu, ended, hangSeconds, "the kernel");
  seconds.run = (performance.now() - submitted) / 1000;
  return staged.map((staging, i) =>
    new Uint8Array(staging.getMappedRange()).slice(0, bytesOf(repro.outputs[i] as TensorRef)),
  );
}
