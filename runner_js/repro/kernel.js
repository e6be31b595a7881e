/** The kernel: compiled, bound, dispatched, read back. The part to step through in a debugger. */
/** @import { Bytes, Diagnostic, EntryPoint, Outcome, Repro, Tensor, Variant } from "./types" */

import { bytesOf } from "../src/program/dtypes.js";
import { checkSizes } from "../src/program/expressions.js";
import { evaluateLaunches, storageBindings } from "../src/program/launches.js";
import { captureErrors, Failure, within } from "./device.js";

/** Work of the GPU, or a compilation, that takes longer is taken for hung. */
const HANG_SECONDS = 30;

/** @type {Record<string, GPUBufferBindingType>} */
const BUFFER_TYPES = { read: "read-only-storage", read_write: "storage", uniform: "uniform" };

/** @param {GPUDevice} device @param {EntryPoint} entry @param {string} code */
async function compile(device, entry, code) {
  const { name, file, bindings } = entry;
  const errors = captureErrors(device);
  const layout = device.createBindGroupLayout({
    entries: bindings.map(({ binding, access }) => ({
      binding,
      visibility: GPUShaderStage.COMPUTE,
      buffer: { type: BUFFER_TYPES[access] },
    })),
  });
  const module = device.createShaderModule({ code });
  const compiling = device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module, entryPoint: name },
  });
  const [pipeline, sound] = await Promise.allSettled([compiling, errors()]);
  if (pipeline.status === "fulfilled" && sound.status === "fulfilled")
    return { pipeline: pipeline.value, layout, entry };

  const refusal = pipeline.status === "rejected" ? pipeline : /** @type {PromiseRejectedResult} */ (sound);
  const gpu_message = String(refusal.reason?.message ?? refusal.reason);
  const lines = code.split("\n");
  const { messages } = await module.getCompilationInfo();
  const diagnostics = messages.map(({ type, lineNum, linePos, message: whole }) => {
    const message = whole.trim().replace(/^Shader '[^']*' (parsing|validation) error: /, ""); // Firefox
    const source = (lines[lineNum - 1] ?? "").trimEnd();
    return { severity: type, line: lineNum, column: linePos, message, source, file };
  });
  const first = diagnostics.find(({ severity }) => severity === "error");
  const message = first ? `${placeOf(first)}: ${first.message.split("\n")[0]}` : `${file}: ${gpu_message}`;
  throw new Failure("compile", message, { gpu_message, diagnostics });
}

/** @param {Diagnostic} diagnostic */
export function placeOf({ file, line, column }) {
  return line > 0 ? `${file}:${line}:${column}` : file;
}

/** In whole words, and not empty: such buffers could not be bound. @param {number} bytes */
function padded(bytes) {
  return Math.max(4, Math.ceil(bytes / 4) * 4);
}

/** @param {GPUDevice} device @param {GPUBufferUsageFlags} usage @param {Bytes} bytes */
function filledBuffer(device, usage, bytes) {
  const size = padded(bytes.byteLength);
  const buffer = device.createBuffer({ size, usage, mappedAtCreation: true });
  new Uint8Array(buffer.getMappedRange()).set(bytes);
  buffer.unmap();
  return buffer;
}

/**
 * Runs the kernel once; gives the bytes of each output. Throws a Failure.
 * @param {GPUDevice} device @param {Variant} variant @param {Repro} repro
 * @param {(file: string) => string} code WGSL by file name
 * @param {(tensor: Tensor) => Bytes} data @param {Outcome["seconds"]} seconds filled with the time of each part
 * @param {number} hangSeconds
 * @returns {Promise<Bytes[]>}
 */
export async function runKernel(device, variant, repro, code, data, seconds, hangSeconds = HANG_SECONDS) {
  const start = performance.now();
  /** @type {Map<string, Awaited<ReturnType<typeof compile>>>} */
  const compiled = new Map();
  for (const entry of variant.entry_points) {
    const compiling = compile(device, entry, code(entry.file));
    const late = `compiling kernel ${repro.kernel.kernel} did not end within ${hangSeconds} s`;
    compiled.set(entry.name, await within(compiling, hangSeconds, late));
  }
  seconds.compile = (performance.now() - start) / 1000;

  checkSizes(repro.kernel.symbols, repro.test.sizes);
  const { launches, temporaries: scratch } = evaluateLaunches(variant, repro.test.sizes);
  const { maxBufferSize, maxComputeWorkgroupsPerDimension: most } = device.limits;
  const largest = Math.max(...[...repro.inputs, ...repro.outputs].map(bytesOf), ...scratch);
  if (largest > maxBufferSize) {
    throw new Failure(
      "unsupported",
      `needs a buffer of ${largest} bytes, this device allows maxBufferSize ${maxBufferSize}`,
    );
  }

  const errors = captureErrors(device);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC;
  const inputs = repro.inputs.map((tensor) => filledBuffer(device, usage, data(tensor)));
  // Outputs begin as 0xFF bytes, NaN for floats: what the kernel leaves out must not look as if it were right.
  const outputs = repro.outputs.map((tensor) =>
    filledBuffer(device, usage, new Uint8Array(bytesOf(tensor)).fill(0xff)),
  );
  const temporaries = scratch.map((bytes) => device.createBuffer({ size: padded(bytes), usage }));
  const operands = [...inputs, ...outputs];

  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  variant.launches.forEach((launch, i) => {
    const made = compiled.get(launch.entry_point);
    if (!made) throw new Failure("protocol", `there is no entry point ${launch.entry_point}`);
    const { grid, uniform } = launches[i];
    if (grid.some((workgroups) => workgroups > most)) {
      const wanted = `dispatches [${grid}] workgroups`;
      throw new Failure(
        "unsupported",
        `${wanted}, this device allows maxComputeWorkgroupsPerDimension ${most}`,
      );
    }
    const entries = storageBindings(made.entry).map(({ binding }, k) => {
      const operand = launch.operands[k];
      const buffer = "argument" in operand ? operands[operand.argument] : temporaries[operand.temporary];
      if (!buffer) throw new Failure("protocol", `no such operand: ${JSON.stringify(operand)}`);
      return { binding, resource: { buffer } };
    });
    for (const { binding } of made.entry.bindings.filter(({ access }) => access === "uniform")) {
      const buffer = filledBuffer(device, GPUBufferUsage.UNIFORM, uniform ?? new Uint8Array(4));
      entries.push({ binding, resource: { buffer } });
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
  await within(
    errors().then(() => mapped),
    hangSeconds,
    `the kernel did not end within ${hangSeconds} s`,
  );
  seconds.run = (performance.now() - submitted) / 1000;
  return staged.map((staging, i) =>
    new Uint8Array(staging.getMappedRange()).slice(0, bytesOf(/** @type {Tensor} */ (repro.outputs[i]))),
  );
}
