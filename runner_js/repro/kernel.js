/** The kernel: compiled, bound, dispatched, read back. The part to step through in a debugger. */
/** @import { Bytes, Diagnostic, EntryPoint, Info, Launch, Outcome, Repro, Tensor, Variant } from "./types" */
import { bytesOf } from "./compare.js";
import { captureErrors, Failure, within } from "./device.js";

/** Work of the GPU, or a compilation, that takes longer is taken for hung. */
const HANG_SECONDS = 30;

/**
 * Buffers are bindings 0, 1, ... of group 0; the uniform comes after them. A tag tells which of them are written.
 * @param {GPUDevice} device @param {EntryPoint} entry @param {string} code
 */
async function compile(device, { info, file }, code) {
  const written = info.launch_param_tags.find((tag) => tag.startsWith("paramWriteAccess:"));
  /** @type {number[]} */
  const flags = written ? JSON.parse(written.slice("paramWriteAccess:".length)) : [];
  const handles = info.arg_types.filter((type) => type === "handle");
  /** @type {GPUBufferBindingType[]} */
  const types = [...handles.map((_, i) => (flags[i] ? "storage" : "read-only-storage")), "uniform"];

  const errors = captureErrors(device);
  const layout = device.createBindGroupLayout({
    entries: types.map((type, binding) => ({
      binding,
      visibility: GPUShaderStage.COMPUTE,
      buffer: { type },
    })),
  });
  const module = device.createShaderModule({ code });
  const compiling = device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module, entryPoint: info.name },
  });
  const [pipeline, sound] = await Promise.allSettled([compiling, errors()]);
  if (pipeline.status === "fulfilled" && sound.status === "fulfilled")
    return { pipeline: pipeline.value, layout, info };

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

/**
 * The uniform of one launch: its scalars, four bytes each, then the number of workgroups along x before `foldDispatch`.
 * @param {Info} info @param {Launch} launch
 */
export function uniformOf(info, launch) {
  const types = info.arg_types.filter((type) => type !== "handle");
  const scalars = launch.arguments.flatMap((operand) => ("scalar" in operand ? [operand.scalar] : []));
  const view = new DataView(new ArrayBuffer(4 * (scalars.length + 1)));
  scalars.forEach((value, i) => {
    if (types[i]?.startsWith("float")) view.setFloat32(4 * i, value, true);
    else if (types[i]?.startsWith("uint")) view.setUint32(4 * i, value, true);
    else view.setInt32(4 * i, value, true);
  });
  view.setUint32(4 * scalars.length, launch.dispatch[0] ?? 1, true);
  return new Uint8Array(view.buffer);
}

/**
 * The kernels expect an x beyond `most` workgroups to be halved, and z doubled, until it fits. Null where it never does.
 * @param {readonly number[]} dispatch @param {number} most @returns {[number, number, number] | null}
 */
export function foldDispatch([x = 1, y = 1, z = 1], most) {
  while (x > most) {
    x = Math.ceil(x / 2);
    z *= 2;
  }
  return y <= most && z <= most ? [x, y, z] : null;
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

  const { maxBufferSize, maxComputeWorkgroupsPerDimension: most } = device.limits;
  const largest = Math.max(...[...repro.inputs, ...repro.outputs].map(bytesOf), ...variant.temporaries);
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
  const temporaries = variant.temporaries.map((bytes) => device.createBuffer({ size: padded(bytes), usage }));
  const operands = [...inputs, ...outputs];

  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  for (const launch of variant.launches) {
    const made = compiled.get(launch.entry_point);
    if (!made) throw new Failure("protocol", `there is no entry point ${launch.entry_point}`);
    const bound = launch.arguments.flatMap((operand) => {
      if ("scalar" in operand) return [];
      const buffer = "argument" in operand ? operands[operand.argument] : temporaries[operand.temporary];
      if (!buffer) throw new Failure("protocol", `no such operand: ${JSON.stringify(operand)}`);
      return [buffer];
    });
    bound.push(filledBuffer(device, GPUBufferUsage.UNIFORM, uniformOf(made.info, launch)));
    const workgroups = foldDispatch(launch.dispatch, most);
    if (!workgroups) {
      const wanted = `dispatches [${launch.dispatch}] workgroups`;
      throw new Failure(
        "unsupported",
        `${wanted}, this device allows maxComputeWorkgroupsPerDimension ${most}`,
      );
    }
    const entries = bound.map((buffer, binding) => ({ binding, resource: { buffer } }));
    pass.setPipeline(made.pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: made.layout, entries }));
    pass.dispatchWorkgroups(...workgroups);
  }
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
