import { describe, expect, it, vi } from "vitest";
import { ADD, COUNTER, functionOf, type ModelText, modelOf, range, tensor } from "../testing/compiled";
import { fault, Models } from "../testing/models";

const models = new Models();

describe("a call", () => {
  const short = range(3);
  const ints = Int32Array.of(1, 2);
  it.each([
    ["an unknown input", { x: short, z: short }, {}, "input: there is no input z: there is x"],
    ["a missing input", {}, {}, "input: input x is missing: give a Float32Array of float32[n]"],
    [
      "another dtype",
      { x: ints },
      {},
      "input: input x is of type Int32Array: give a Float32Array of float32[n]",
    ],
    [
      "plain numbers",
      { x: [1, 2] },
      {},
      "input: input x is no typed array: give a Float32Array of float32[n]",
    ],
    [
      "another rank",
      { x: { data: short, shape: [1, 3] } },
      {},
      "input: input x has the shape [1,3]: give a Float32Array of float32[n]",
    ],
    [
      "too few elements",
      { x: { data: short, shape: [4] } },
      {},
      "input: input x has 3 elements, and its shape [4] has 4: give a Float32Array of float32[n]",
    ],
    [
      "elements that are not those of a size",
      { x: short },
      { sizes: { n: 4 } },
      "input: input x has 3 elements, where float32[4] has 4: give a Float32Array of float32[n]",
    ],
    [
      "a size beyond the range",
      { x: range(1001) },
      {},
      "size: n is 1001, and must be from 1 to 1000: give sizes in the model's range",
    ],
    ["a size of zero", { x: range(0) }, {}, "size: n is 0, and must be from 1 to 1000"],
    [
      "two sizes",
      { x: { data: short, shape: [3] } },
      { sizes: { n: 4 } },
      "size: input x has the shape [3], where n is 3, and elsewhere it is 4",
    ],
    [
      "a size of nothing",
      { x: short },
      { sizes: { m: 4 } },
      "size: a size is given for m, and there is no symbol m here",
    ],
    [
      "an unknown output",
      { x: short },
      { outputs: { z: "buffer" } },
      "input: there is no output z: there are y",
    ],
  ] as const)("is refused for %s", async (_, inputs, options, expected) => {
    const model = await models.of(ADD);
    try {
      expect(await fault(model.run(inputs as never, options))).toContain(expected);
      expect((await model.run({ x: range(3) })).y).toEqual(range(3, 3));
    } finally {
      model.dispose();
    }
  });

  it("takes numbers of another width where they fit, and indices of what there is alone", async () => {
    const { main } = ADD.functions;
    const ids = tensor("ids", ["input", 1], ["n"], "int32");
    const code = main?.code ?? [];
    const served = await modelOf({
      ...ADD,
      functions: { main: functionOf([...(main?.tensors ?? []), ids], code, [4000]) },
    });
    const port = served.document.functions.main?.inputs[1];
    if (port) port.range = [-7, 6];
    const model = await models.open(served);
    const x = Float64Array.of(0, 1, 2);
    for (const given of [BigInt64Array.of(-7n, 0n, 6n), Int32Array.of(1, 2, 3), Uint8Array.of(0, 0, 6)])
      expect((await model.run({ x, ids: given })).y).toEqual(range(3, 3));
    expect(await fault(model.run({ x, ids: BigInt64Array.of(0n, 1n, 7n) }))).toBe(
      "input: input ids is 7 at element 2, and must be from -7 to 6: it is an index, and there is nothing at any other",
    );
    if (port)
      port.range = [
        ["sub", 0, "n"],
        ["sub", "n", 1],
      ];
    const other = await models.open(served);
    expect((await other.run({ x, ids: Int32Array.of(-3, 0, 2) })).y).toEqual(range(3, 3));
    expect(await fault(other.run({ x, ids: Int32Array.of(0, 3, 0) }))).toBe(
      "input: input ids is 3 at element 1, and must be from -3 (0 - n) to 2 (n - 1): it is an index, and there is nothing at any other",
    );
    expect(await fault(model.run({ x, ids: BigInt64Array.of(0n, 1n, 2n ** 40n) }))).toBe(
      "input: input ids has elements that no int32 is: give an Int32Array of int32[n]",
    );
    expect(await fault(model.run({ x, ids: Float32Array.of(0, 1, 2) }))).toContain("is of type Float32Array");
  });

  it("is refused for buffers that do not do", async () => {
    const model = await models.of(ADD);
    const { device } = models.here.gpu;
    const all = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const small = device.createBuffer({ size: 8, usage: all });
    const copied = device.createBuffer({ size: 64, usage: GPUBufferUsage.COPY_SRC });
    const data = (buffer: GPUBuffer) => ({ x: { data: buffer, shape: [3] } });
    const good = { x: range(2) };
    expect(await fault(model.run(data(small)))).toContain(
      "input: the buffer of input x has 8 bytes: float32[3] takes 12 bytes",
    );
    expect(await fault(model.run(data(copied)))).toContain(
      "input: the buffer of input x is not made to be read",
    );
    expect(await fault(model.run(good, { outputs: { y: copied } }))).toContain(
      "the buffer for output y cannot be written",
    );
    const both = model.run({ x: { data: small, shape: [2] } }, { outputs: { y: small } });
    expect(await fault(both)).toContain("the buffer for output y is an input of the call");
    small.destroy();
    expect(await fault(model.run({ x: { data: small, shape: [2] } }))).toMatch(/^gpu: GPU validation error/);
    expect((await model.run(good)).y).toEqual(range(2, 3));
    model.dispose();
    copied.destroy();
  });

  it("is right, or says that it is not, after the GPU had no memory for another one", async () => {
    const model = await models.of(ADD);
    expect((await model.run({ x: range(5) })).y).toEqual(range(5, 3));
    const { device } = models.here.gpu;
    const make = device.createBuffer.bind(device);
    vi.spyOn(device, "createBuffer").mockImplementationOnce((descriptor) => {
      const buffer = make(descriptor);
      buffer.destroy();
      return buffer;
    });
    expect(await fault(model.run({ x: range(1000) }))).toMatch(/^gpu: /);
    for (const n of [5, 1000]) expect((await model.run({ x: range(n) })).y).toEqual(range(n, 3));
  });

  it("is rejected where the model is disposed of", async () => {
    const model = await models.of(ADD);
    const running = [1, 2, 3].map(() => fault(model.run({ x: range(3) })));
    await Promise.resolve();
    model.dispose();
    for (const found of await Promise.all(running))
      expect(found).toBe("disposed: little is disposed of: load it again");
    expect(await fault(model.run({ x: range(3) }))).toBe("disposed: little is disposed of: load it again");
  });

  it("is aborted", async () => {
    const model = await models.of(COUNTER);
    const one = { x: Float32Array.of(1) };
    const stop = new AbortController();
    const { queue } = models.here.gpu.device;
    const submit = queue.submit.bind(queue);
    vi.spyOn(queue, "submit").mockImplementationOnce((buffers) => {
      submit(buffers);
      stop.abort(new Error("enough"));
    });
    await expect(model.run(one, { signal: stop.signal })).rejects.toThrow("enough");
    // What was submitted runs to its end.
    expect((await model.run(one)).y).toEqual(Float32Array.of(2));
    await expect(model.run(one, { signal: AbortSignal.abort(new Error("before")) })).rejects.toThrow(
      "before",
    );
    expect((await model.run(one)).y).toEqual(Float32Array.of(3));
    model.dispose();
  });

  it("leaves states undefined, and says so, where it ends in its middle", async () => {
    const text: ModelText = structuredClone(COUNTER);
    const { main } = text.functions;
    main?.tensors.push({ name: "limit", dtype: "int32", shape: [1], at: ["input", 1] });
    main?.inputs.push({ name: "limit", tensor: 4 });
    main?.code.splice(2, 0, { op: "read", name: "k", tensor: 4, index: 0, minimum: 0, maximum: 1 });
    const model = await models.of(text);
    const call = (limit: number) => model.run({ x: Float32Array.of(1), limit: Int32Array.of(limit) });
    expect((await call(1)).y).toEqual(Float32Array.of(1));
    expect(await fault(call(2))).toMatch(/^program: k, read from limit, is 2, and must be from 0 to 1/);
    expect(await fault(call(1))).toMatch(
      /^state: the states of little are undefined: a call of main ended in its middle/,
    );
    await model.reset();
    expect((await call(1)).y).toEqual(Float32Array.of(1));
    model.dispose();
  });
});
