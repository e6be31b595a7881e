// GPU time of kernels, in Dawn in node: works as JSON on stdin, a JSON line for each on stdout. Candidates of a work
// take turns; a turn is a compute pass of many calls between two timestamps. `check`: texts are only compiled, in Dawn's
// null backend, which has every feature.
const { create, globals } = await dawn(process.env.TAPML_DAWN);
Object.assign(globalThis, globals);

const MOST_BYTES = 2 ** 30; // of what rotates
const SETS = 4;
const MATRICES = "chromium-experimental-subgroup-matrix";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { works, turns, warm, microseconds, calls, check } = JSON.parse(Buffer.concat(chunks).toString());

const gpu = create([
  ...(check ? ["backend=null"] : []),
  "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
  "disable-dawn-features=timestamp_quantization",
]);
const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
const wanted = ["shader-f16", "subgroups", "timestamp-query", MATRICES];
const limited = [
  "maxSampledTexturesPerShaderStage",
  "maxStorageTexturesPerShaderStage",
  "maxTextureArrayLayers",
  "maxTextureDimension2D",
  "maxTextureDimension3D",
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
];
const device = await adapter.requestDevice({
  requiredFeatures: wanted.filter((feature) => adapter.features.has(feature)),
  requiredLimits: Object.fromEntries(limited.map((name) => [name, adapter.limits[name]])),
});
device.lost.then((info) => {
  if (info.reason !== "destroyed") console.error(`the device was lost: ${info.message}`);
});
const { info } = adapter;
// Names that the runner has for what an adapter multiplies (runner_js/src/hal/matrices.ts).
const offered = new Set([...device.features, ...(check ? ["subgroup-matrix-f16-f32-16x16x16"] : [])]);
for (const one of info.subgroupMatrixConfigs ?? []) {
  offered.add(`subgroup-matrix-${one.componentType}-${one.resultComponentType}-${one.M}x${one.N}x${one.K}`);
}
for (const one of gpu.wgslLanguageFeatures) offered.add(one);
const { vendor, architecture, device: model, description } = info;
say({
  device: description || model || vendor,
  adapter: { vendor, architecture, device: model, description },
  features: [...device.features],
});

const times = device.createQuerySet({ type: "timestamp", count: 2 });
const resolved = device.createBuffer({ size: 16, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
const read = device.createBuffer({ size: 16, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
const fillers = {
  float32: "bitcast<u32>(noise(i))",
  float16: "pack2x16float(vec2f(noise(2 * i), noise(2 * i + 1)))",
  uint32: "bitcast<u32>(noise(i)) * 747796405u",
};
const filling = {};
for (const [dtype, value] of Object.entries(fillers)) filling[dtype] = await pipeline(filler(value), "fill");

for (const work of works) {
  try {
    say(await measured(work));
  } catch (cause) {
    say({ name: work.name, dtype: work.dtype, error: String(cause?.message ?? cause).slice(0, 500) });
  }
}
// Not before a pipe has taken it all.
process.stdout.write("", () => process.exit(0));

/** npm's `webgpu`, or its dawn.node alone. */
async function dawn(file) {
  if (!file.endsWith(".node")) return import(file);
  const loaded = { exports: {} };
  process.dlopen(loaded, file);
  return loaded.exports;
}

function say(found) {
  process.stdout.write(`${JSON.stringify(found)}\n`);
}

function filler(value) {
  return `
@group(0) @binding(0) var<storage, read_write> words : array<u32>;
fn noise(i : u32) -> f32 {
  var x = (i + 1u) * 747796405u + 2891336453u;
  x = ((x >> ((x >> 28u) + 4u)) ^ x) * 277803737u;
  x = (x >> 22u) ^ x;
  return f32(x >> 8u) * 0x1p-23 - 1.0;
}
@compute @workgroup_size(256)
fn fill(@builtin(global_invocation_id) at : vec3<u32>, @builtin(num_workgroups) groups : vec3<u32>) {
  for (var i = at.x; i < arrayLength(&words); i += groups.x * 256u) {
    words[i] = ${value};
  }
}`;
}

async function pipeline(code, entryPoint) {
  // The scope is closed before anything waits: several texts are compiled at a time.
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code });
  const scope = device.popErrorScope();
  const made = device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint } });
  const [error, found] = await Promise.all([scope, made.catch((cause) => cause)]);
  if (error || found instanceof Error) throw error ?? found;
  return found;
}

function bufferOf(size) {
  return device.createBuffer({
    size: Math.max(16, Math.ceil(size / 16) * 16),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
}

function textureOf({ dimension, format, size }) {
  const made = device.createTexture({
    size,
    format,
    dimension: dimension === "3d" ? "3d" : "2d",
    usage: GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.STORAGE_BINDING,
  });
  return { made, view: made.createView({ dimension }) };
}

function filled({ bytes, dtype, below }) {
  const buffer = bufferOf(bytes);
  if (dtype === "int32") {
    const values = Int32Array.from({ length: bytes / 4 }, (_, i) => (i * 7919) % below);
    device.queue.writeBuffer(buffer, 0, values);
    return buffer;
  }
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  const layout = filling[dtype].getBindGroupLayout(0);
  pass.setPipeline(filling[dtype]);
  pass.setBindGroup(0, device.createBindGroup({ layout, entries: [{ binding: 0, resource: { buffer } }] }));
  pass.dispatchWorkgroups(Math.min(4096, Math.ceil(bytes / 1024)));
  pass.end();
  device.queue.submit([encoder.finish()]);
  return buffer;
}

/** The dispatches of a candidate, for each set of buffers. Those that run `once` write to temporaries of the set's own. */
async function prepared(candidate, sets) {
  const made = await Promise.all(candidate.launches.map((launch) => pipeline(launch.text, launch.entry_point)));
  const temporaries = sets.length ? candidate.temporaries.map(bufferOf) : [];
  const textures = sets.length ? candidate.textures.map(textureOf) : [];
  const { once = [], kept = [] } = candidate;
  const all = sets.map((buffers, number) => {
    const own = temporaries.slice();
    for (const one of number ? kept : []) temporaries.push((own[one] = bufferOf(candidate.temporaries[one])));
    return candidate.launches.map((launch, place) => {
      const entries = launch.operands.map(({ argument, temporary, texture }, at) => ({
        binding: launch.bindings[at],
        resource:
          texture === undefined
            ? { buffer: argument === undefined ? own[temporary] : buffers[argument] }
            : textures[texture].view,
      }));
      if (launch.uniforms.length) {
        const size = Math.ceil(launch.uniforms.length / 4) * 16;
        const buffer = device.createBuffer({ size, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
        device.queue.writeBuffer(buffer, 0, Int32Array.from(launch.uniforms));
        entries.push({ binding: launch.uniform_binding, resource: { buffer } });
      }
      const group = device.createBindGroup({ layout: made[place].getBindGroupLayout(0), entries });
      return { pipeline: made[place], group, grid: launch.grid };
    });
  });
  const some = (runs) => all.map((dispatches) => dispatches.filter((_, place) => once.includes(place) === runs));
  if (once.length && sets.length) await pass({ calls: some(true) }, sets.length);
  return { calls: some(false), temporaries: [...temporaries, ...textures.map(({ made }) => made)] };
}

/** Microseconds of a call, over so many. */
async function pass({ calls }, count) {
  const encoder = device.createCommandEncoder();
  const timestampWrites = { querySet: times, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 };
  const begun = encoder.beginComputePass({ timestampWrites });
  for (let number = 0; number < count; number++) {
    for (const { pipeline, group, grid } of calls[number % calls.length]) {
      begun.setPipeline(pipeline);
      begun.setBindGroup(0, group);
      begun.dispatchWorkgroups(...grid);
    }
  }
  begun.end();
  encoder.resolveQuerySet(times, 0, 2, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, read, 0, 16);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  const [from, to] = new BigUint64Array(read.getMappedRange().slice(0));
  read.unmap();
  return Number(to - from) / 1e3 / count;
}

async function result({ calls }, buffer, { bytes, dtype }) {
  const size = Math.ceil(bytes / 4) * 4;
  const mapped = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  const encoder = device.createCommandEncoder();
  encoder.clearBuffer(buffer);
  const begun = encoder.beginComputePass();
  for (const { pipeline, group, grid } of calls[0]) {
    begun.setPipeline(pipeline);
    begun.setBindGroup(0, group);
    begun.dispatchWorkgroups(...grid);
  }
  begun.end();
  encoder.copyBufferToBuffer(buffer, 0, mapped, 0, size);
  device.queue.submit([encoder.finish()]);
  await mapped.mapAsync(GPUMapMode.READ);
  const found = mapped.getMappedRange().slice(0);
  mapped.destroy();
  return dtype === "float16" ? halves(new Uint16Array(found, 0, bytes / 2)) : new Float32Array(found);
}

function halves(bits) {
  const table = (halves.table ??= Float32Array.from({ length: 65536 }, (_, half) => {
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const magnitude =
      exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? (fraction ? NaN : Infinity) : (1024 + fraction) * 2 ** (exponent - 25);
    return half >> 15 ? -magnitude : magnitude;
  }));
  return Float32Array.from(bits, (half) => table[half]);
}

/** The length of a difference to that of `right`. */
function apart(left, right) {
  let difference = 0;
  let length = 0;
  for (let i = 0; i < right.length; i++) {
    difference += (left[i] - right[i]) ** 2;
    length += right[i] ** 2;
  }
  return Math.sqrt(difference / length);
}

/** Of each compiler and its parameters the first that the device can run; to check texts, all of them. */
function fitting(all) {
  if (check) return all;
  const able = all.filter(({ features }) => features.every((feature) => offered.has(feature)));
  const same = (one, other) => one.compiler === other.compiler && one.parameters === other.parameters;
  return able.filter((one, place) => able.findIndex((other) => same(one, other)) === place);
}

async function measured({ name, dtype, arguments: given, rotated, candidates: all }) {
  const candidates = fitting(all);
  if (dtype === "float16" && !device.features.has("shader-f16")) throw Error("the device has no shader-f16");
  const bytes = given.filter((_, place) => rotated.includes(place)).reduce((sum, one) => sum + one.bytes, 0);
  const count = check ? 0 : rotated.length ? Math.max(2, Math.min(SETS, Math.floor(MOST_BYTES / bytes))) : 1;
  const first = check ? [] : given.map((one) => (one.role === "output" ? bufferOf(one.bytes) : filled(one)));
  const others = Array.from({ length: Math.max(0, count - 1) }, () =>
    first.map((buffer, place) => (rotated.includes(place) ? filled(given[place]) : buffer)),
  );
  const sets = check ? [] : [first, ...others];
  const ready = [];
  const found = [];
  const waiting = candidates.map((candidate) => prepared(candidate, sets).catch((cause) => cause));
  for (const [place, one] of (await Promise.all(waiting)).entries()) {
    const { compiler, parameters, features, launches } = candidates[place];
    const matrices = features.includes(MATRICES);
    const shown = { compiler, parameters, matrices, dispatches: launches.length };
    found.push(shown);
    if (one instanceof Error || one.calls === undefined) shown.error = String(one?.message ?? one).slice(0, 300);
    else ready.push({ ...one, shown });
  }
  if (check) return { name, dtype, sets: count, candidates: found };
  const output = given.findIndex((one) => one.role === "output");
  let reference = null;
  for (const one of ready) {
    const values = await result(one, first[output], given[output]);
    reference ??= values;
    one.shown.apart = apart(values, reference);
    // How many calls take the time of a pass; a first estimate also warms up.
    await pass(one, 1);
    const each = await pass(one, Math.min(calls, 4));
    one.count = Math.max(1, Math.min(calls, Math.round(microseconds / Math.max(each, 0.5))));
    one.spent = [];
  }
  // A GPU that had nothing to do, as while texts are compiled, has a low clock for a while.
  const until = performance.now() + warm;
  while (ready.length && performance.now() < until) for (const one of ready) await pass(one, one.count);
  for (let turn = 0; turn < turns; turn++) for (const one of ready) one.spent.push(await pass(one, one.count));
  for (const { shown, spent } of ready) {
    spent.sort((a, b) => a - b);
    Object.assign(shown, { us: spent[0], median_us: spent[spent.length >> 1] });
  }
  for (const set of sets) for (const buffer of set) buffer.destroy();
  for (const { temporaries } of ready) for (const buffer of temporaries) buffer.destroy();
  return { name, dtype, sets: count, candidates: found };
}
