import { expect, it, vi } from "vitest";
import {
  ADD,
  COUNTER,
  dispatch,
  type ElementwiseText,
  functionOf,
  modelOf,
  range,
  repeated,
  tensor,
} from "../testing/compiled";
import { countedGpu } from "../testing/gpus";
import { Models } from "../testing/models";
import type { Capture } from "./api";
import { load } from "./index";
import { digestOf } from "./source";

const models = new Models();

/** The document, and the elements of each tensor that is there, as float32. */
async function read({ file }: Capture) {
  const bytes = await file.arrayBuffer();
  const end = 8 + Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.slice(8, end)));
  const document = JSON.parse(header.__metadata__.tapml);
  const elements = ({ digest }: { digest: string }) => {
    const at = header[digest]?.data_offsets;
    return at ? Array.from(new Float32Array(bytes.slice(end + at[0], end + at[1]))) : null;
  };
  const calls = document.calls.map(
    (call: { inputs: { digest: string }[]; outputs: { digest: string }[] }) => ({
      ...call,
      inputs: call.inputs.map(elements),
      outputs: call.outputs.map(elements),
    }),
  );
  return { document, calls, bytes: bytes.byteLength };
}

const array = (...numbers: number[]) => Float32Array.from(numbers);

it("gives what operators of the next call are given and give, and the call what it gives without", async () => {
  const model = await models.of(ADD);
  const { total } = model.memory;
  const capture = model.capture({ weights: true });
  expect((await model.run({ x: range(5) })).y).toEqual(range(5, 3));
  const found = await capture;
  expect(found.operators.map(({ kernel, bytes }) => [kernel, bytes])).toEqual([
    ["add", 60],
    ["double", 40],
  ]);
  const { document, calls } = await read(found);
  expect(calls[0]).toMatchObject({ kernel: "add", variant: "default", sizes: { n: 5 } });
  const sum = Array.from(range(5, 1.5));
  expect(calls[0]).toMatchObject({
    inputs: [
      [0, 1, 2, 3, 4],
      [0, 0.5, 1, 1.5, 2],
    ],
    outputs: [sum],
  });
  expect(calls[1]).toMatchObject({ inputs: [sum], outputs: [Array.from(range(5, 3))] });
  expect(document.kernels.map(({ kernel }: { kernel: string }) => kernel)).toEqual(["add", "double"]);
  expect(document).toMatchObject({
    format: "tapml.capture/1",
    function: "main",
    left_out: 0,
    device: { runtime: "node" },
  });
  // Inputs, outputs, what is mapped and uniforms of a call stay; nothing of the capture.
  const { total: after } = model.memory;
  await model.run({ x: range(5) });
  expect(after - total).toBeLessThan(1000);
});

it("copies nothing of a call that nobody captures", async () => {
  const model = await models.of(ADD);
  await model.capture({ inputs: { x: range(30) } });
  await model.run({ x: range(30) });
  const { device } = models.here.gpu;
  const made = (["createBindGroup", "createBuffer", "pushErrorScope"] as const).map((name) =>
    vi.spyOn(device, name),
  );
  const copies = vi.spyOn(GPUCommandEncoder.prototype, "copyBufferToBuffer");
  await model.run({ x: range(30) });
  for (const spy of made) expect(spy).not.toHaveBeenCalled();
  expect(copies).toHaveBeenCalledTimes(1); // its output
});

it("holds what was chosen, and weights by their digests", async () => {
  const model = await models.of(ADD);
  const { document, calls } = await read(await model.capture({ inputs: { x: range(4) }, nodes: ["add"] }));
  expect(calls).toHaveLength(1);
  expect(calls[0].inputs[1]).toBeNull();
  expect(document.calls[0].inputs[1]).toMatchObject({ name: "w", weight: true, shape: [4] });
  expect(document.wgsl).toHaveLength(1);
  const all = { inputs: { x: range(4) } };
  await expect(model.capture({ ...all, nodes: ["softmax"] })).rejects.toThrow(
    "main has no node or kernel softmax",
  );
  await expect(model.capture({ ...all, nodes: [] })).rejects.toThrow("nodes is empty");
  await expect(model.capture({ ...all, sample: 2 })).rejects.toThrow("sample is 2");
  await expect(model.capture({ ...all, function: "other" })).rejects.toThrow("little has no function other");
  await expect(model.capture({ ...all, maxBytes: 3 })).rejects.toThrow(
    "they take more than 3 bytes: maxBytes of 64 would be enough",
  );
  await expect(model.capture({ inputs: {} })).rejects.toThrow("input x is missing");
});

it("leaves out what is beyond its bytes, and says so", async () => {
  const model = await models.of(ADD);
  const inputs = { x: range(100) };
  const kernels = async (weights: boolean, maxBytes: number) => {
    const found = await model.capture({ inputs, weights, maxBytes });
    expect((await read(found)).document.why).toEqual(found.why);
    return [found.operators.map(({ kernel }) => kernel), found.leftOut, found.why];
  };
  // x, w and their sum; the sum and y. A weight whose bytes do not go into the file is not counted.
  const why = (bytes: number, enough: number) => [
    `they take more than ${bytes} bytes: maxBytes of ${enough} would be enough`,
  ];
  expect(await kernels(true, 1300)).toEqual([["add"], 1, why(1300, 2000)]);
  expect(await kernels(true, 2000)).toEqual([["add", "double"], 0, []]);
  expect(await kernels(false, 900)).toEqual([["add"], 1, why(900, 1600)]);
  expect(await kernels(false, 1600)).toEqual([["add", "double"], 0, []]);
});

it("reads weights where they are, in parts, and copies none of them as the call runs", async () => {
  const count = (2 << 20) + 5000;
  const large = { name: "n", minimum: 1, maximum: count };
  const w = range(count, 0.5);
  const kernels = [
    { ...(ADD.kernels as ElementwiseText[])[0], shape: [count], symbols: [] } as ElementwiseText,
  ];
  const tensors = (["input", "weights", "output"] as const).map((kind, i) =>
    tensor(`t${i}`, kind === "weights" ? [kind, 0, 0] : [kind, 0], [count]),
  );
  const functions = { main: functionOf(tensors, [dispatch(0, 0, 1, 2)]) };
  const model = await models.open(
    await modelOf({ kernels, symbols: [large], weights: [w], functions }, 1 << 22),
  );
  const inputs = { t0: range(count) };
  const copied = await model.capture({ inputs, weights: true });
  const { calls } = (await read(copied)).document;
  expect(calls[0].inputs[1].digest).toBe(await digestOf(new Uint8Array(w.buffer)));
  const without = await model.capture({ inputs, maxBytes: 2 * w.byteLength });
  expect((await read(without)).document.calls).toEqual(calls);
  expect(copied.file.size - without.file.size).toBeGreaterThan(w.byteLength);
});

it("refuses an option that there is not", async () => {
  const model = await models.of(ADD);
  const wrong = { maxbytes: 1 } as object;
  await expect(model.capture(wrong)).rejects.toThrow("capture has no option maxbytes: there are function, ");
  await expect(model.run({ x: range(2) }, wrong)).rejects.toMatchObject({ kind: "input" });
  await expect(model.reload(wrong)).rejects.toThrow("reload has no option maxbytes");
  await expect(load("http://nowhere/", wrong)).rejects.toThrow("load has no option maxbytes");
});

it("sees each turn of a loop as it was, in bytes that the next overwrites, and a share of them", async () => {
  const model = await models.of(repeated(8, 8));
  const { calls } = await read(await model.capture({ inputs: { x: array(1, 2) } }));
  expect(calls.map(({ outputs }: { outputs: number[][] }) => outputs[0]?.[0])).toEqual([
    2, 3, 4, 5, 6, 7, 8, 9,
  ]);
  expect(calls.map(({ inputs }: { inputs: number[][] }) => inputs[0]?.[1])).toEqual([
    2, 4, 6, 8, 10, 12, 14, 16,
  ]);
  for (let i = 0; i < 5; i++) {
    const { operators } = await model.capture({ inputs: { x: array(1) }, sample: 0.25 });
    expect(operators).toHaveLength(2);
  }
});

it("keeps states as they are, and sees them before they are changed", async () => {
  const model = await models.of(COUNTER);
  await model.run({ x: array(3) });
  const { calls } = await read(await model.capture({ inputs: { x: array(4) } }));
  expect(calls[0]).toMatchObject({ inputs: [[3], [4]], outputs: [[7]] });
  expect((await model.run({ x: array(1) })).y).toEqual(array(8));
});

it("captures the call that is made, not one that is refused or aborted before it begins", async () => {
  const model = await models.of(ADD);
  const capture = model.capture();
  await expect(model.capture()).rejects.toThrow("the next call of main is captured already");
  await expect(model.run({ x: range(2000) })).rejects.toThrow("n is 2000");
  const first = model.run({ x: range(2) });
  const stop = new AbortController();
  const aborted = model.run({ x: range(3) }, { signal: stop.signal });
  stop.abort();
  await expect(aborted).rejects.toThrow("aborted");
  await first;
  expect((await read(await capture)).document.sizes).toEqual({ n: 2 });
});

it("ends with its signal, with its call, and with its model, and the page's call goes on", async () => {
  const model = await models.of(ADD);
  const stop = new AbortController();
  const capture = model.capture({ signal: stop.signal });
  const run = model.run({ x: range(6) });
  await Promise.resolve();
  stop.abort(new Error("enough"));
  await expect(capture).rejects.toThrow("enough");
  expect((await run).y).toEqual(range(6, 3));
  const again = model.capture();
  const gone = new AbortController();
  const call = model.run({ x: range(6) }, { signal: gone.signal });
  const copied = vi.spyOn(models.here.gpu.device.queue, "submit").mockImplementationOnce(() => {
    gone.abort(new Error("closed"));
    return undefined;
  });
  await expect(call).rejects.toThrow("closed");
  await expect(again).rejects.toThrow("closed");
  copied.mockRestore();
  expect((await model.run({ x: range(6) })).y).toEqual(range(6, 3));
  const never = model.capture();
  model.dispose();
  await expect(never).rejects.toThrow("little is disposed of");
});

it("goes on without copies that cannot be made", async () => {
  const model = await models.of(ADD);
  const { device } = models.here.gpu;
  const x = device.createBuffer({ size: 16, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(x, 0, range(4));
  const capture = model.capture();
  expect((await model.run({ x: { data: x, shape: [4] } })).y).toEqual(range(4, 3));
  const { operators, why } = await capture;
  expect(operators.map(({ kernel }) => kernel)).toEqual(["double"]);
  expect(why).toEqual(["the GPUBuffer of x cannot be copied: make it with COPY_SRC"]);
  x.destroy();
});

it("is rejected where the device is lost in its call, and the model comes back", async () => {
  const own = await countedGpu();
  const served = await modelOf(ADD);
  const model = await load(served.url, { device: own.gpu, fetch: served.fetch, unvalidated: "ignore" });
  const capture = model.capture();
  vi.spyOn(own.gpu.device.queue, "submit").mockImplementationOnce(() => {
    own.gpu.device.destroy();
    return undefined;
  });
  await expect(model.run({ x: range(6) })).rejects.toMatchObject({ kind: "device-lost" });
  await expect(capture).rejects.toMatchObject({ kind: "device-lost" });
  await model.reload({ device: models.here.gpu });
  expect((await model.capture({ inputs: { x: range(2) } })).operators).toHaveLength(2);
  model.dispose();
});
