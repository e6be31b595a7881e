import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { overwritten, runKernel } from "../../../repro/kernel";
import type { Repro, Variant } from "../../../repro/types";
import { compare, judge } from "../../compare/compare";
import { loadAllowed } from "../../compare/tolerances";
import { Blobs } from "../../engine/blobs";
import { TestDevice } from "../../testing/dawn";
import { addText, type KernelText } from "../../testing/kernels";
import { reproOf } from "../../testing/repro";
import { runShared } from "./run";

const COUNT = 200;
const range = Array.from({ length: COUNT }, (_, i) => i);
const PLATFORM = { name: "Dawn", userAgent: "node" };

let device: TestDevice;
beforeEach(async () => {
  device = await TestDevice.open();
});
afterEach(() => device.close());

const shared = (repro: Repro, hangSeconds = 30) =>
  runShared(device.engine.gpu, new Blobs("http://tests"), PLATFORM, repro, hangSeconds);

/** The single file's own WebGPU on the same device. */
async function alone(repro: Repro) {
  const data = ({ digest }: { digest: string }) => device.blobs.get(digest) as Uint8Array<ArrayBuffer>;
  const seconds: Record<string, number> = {};
  const variant = repro.kernel.variants[0] as Variant;
  const got = await runKernel(device.engine.gpu, variant, repro, data, seconds);
  expect(seconds.run).toBeGreaterThan(0);
  return Promise.all(
    got.map(async (bytes, i) => {
      const type = repro.outputs[i] as Repro["outputs"][number];
      const allowed = await loadAllowed(type.tolerance, async (ref) => data(ref).buffer);
      const input = overwritten(repro, i);
      return compare(bytes, data(type), type, allowed, { before: input ? data(input) : undefined });
    }),
  );
}

async function both(text: KernelText, outputs: number[][], bound?: number[]) {
  return bothOf(reproOf(device, text, [range, range], outputs), bound);
}

async function bothOf(repro: Repro, bound?: number[]) {
  for (const output of bound ? repro.outputs : []) {
    const digest = device.put("bound", Float32Array.from(bound as number[]));
    output.tolerance.bound = { digest, dtype: "float32", shape: output.shape };
  }
  const outcome = await shared(repro);
  const own = await alone(repro);
  expect(own).toEqual(outcome.outputs);
  expect(judge(own)).toEqual({ verdict: outcome.verdict, message: outcome.message });
  return outcome;
}

describe("the page behind a link and the single file", () => {
  const doubled = range.map((i) => 2 * i);

  it("hold each element against its own bound", async () => {
    const off = { ...addText(COUNT), body: "p2[i] = p0[i] + p1[i] + 0.5;" };
    const wide = doubled.map(() => 0.5);
    expect(await both(off, [doubled], wide)).toMatchObject({ verdict: "pass", maps: [] });
    const open = wide.with(3, Number.POSITIVE_INFINITY);
    const unbounded = await both(off, [doubled], open);
    expect(unbounded).toMatchObject({ verdict: "unbounded", outputs: [{ unbounded: 1 }], maps: [] });
    expect(unbounded.message).toContain("WGSL promises nothing");
    const failed = await both(off, [doubled], open.with(5, 0.25));
    expect(failed).toMatchObject({ verdict: "fail", outputs: [{ mismatched: 1, unbounded: 1 }] });
    expect(failed.maps[0]?.cells.filter(Boolean)).toHaveLength(1);
  });

  it("begin an output as the input that it overwrites", async () => {
    const after = range.map((i) => (i < 10 ? 1000 + i : i));
    const inPlace = (body: string) => {
      const text = { name: "put", access: ["read", "write"], body, elements: COUNT } as const;
      const repro = reproOf(device, text, [range, range.map((i) => 1000 + i)], [after]);
      repro.kernel.arguments = [{}, {}, { overwrites: 0 }];
      for (const variant of repro.kernel.variants)
        for (const launch of variant.launches) launch.operands = [{ argument: 1 }, { argument: 2 }];
      return bothOf(repro);
    };
    expect(await inPlace("if (i < 10) { p1[i] = p0[i]; }")).toMatchObject({ verdict: "pass" });
    const outcome = await inPlace("if (i < 13 && i != 2) { p1[i] = p0[i]; }");
    expect(outcome).toMatchObject({ verdict: "fail", outputs: [{ mismatched: 4, disturbed: 3 }] });
    expect(outcome.message).toContain("3 of them the operator leaves as they were");
  });

  it("pass a right kernel", async () => {
    const outcome = await both(addText(COUNT), [doubled]);
    expect(outcome).toMatchObject({
      verdict: "pass",
      variant: "default",
      message: "",
      maps: [],
      error: null,
    });
    expect(outcome.device).toMatchObject({ name: "Dawn", user_agent: "node" });
  });

  it("fail a wrong one with the same numbers, and show where", async () => {
    const body = "p2[i] = p0[i] + p1[i]; if (i == 7u) { p2[i] = 99.0; }";
    const outcome = await both({ ...addText(COUNT), body }, [doubled]);
    expect(outcome).toMatchObject({
      verdict: "fail",
      outputs: [{ mismatched: 1, first: { index: [7], got: 99 } }],
    });
    const [map] = outcome.maps;
    expect(map).toMatchObject({ output: 0, width: COUNT, height: 1 });
    expect([...(map?.cells ?? [])].flatMap((level, i) => (level ? [i] : []))).toEqual([7]);
  });

  it("fail one that leaves elements out", async () => {
    const outcome = await both({ ...addText(COUNT), body: "if (i != 9u) { p2[i] = p0[i] + p1[i]; }" }, [
      doubled,
    ]);
    expect(outcome).toMatchObject({ verdict: "fail", outputs: [{ mismatched: 1, nan: 1 }] });
  });

  it("run one with scalars, temporaries and a written input", async () => {
    const text: KernelText = {
      ...{
        name: "mixed",
        access: ["write", "read", "write", "write"],
        temporaries: [4 * COUNT],
        elements: COUNT,
      },
      scalars: [
        { type: "i32", value: -3 },
        { type: "f32", value: 0.5 },
      ],
      body: "p0[i] = p0[i] * 2.0; p3[i] = p0[i] + f32(podArgs.s0); p2[i] = p3[i] + podArgs.s1 + p1[i] * 0.0;",
    };
    const outcome = await both(text, [range.map((i) => 2 * i - 2.5)]);
    expect(outcome).toMatchObject({ verdict: "pass" });
  });

  it("say where a kernel does not compile", async () => {
    const repro = reproOf(
      device,
      { ...addText(COUNT), body: "p2[i] = nonsense;" },
      [range, range],
      [doubled],
    );
    const { verdict, error } = await shared(repro);
    expect(verdict).toBe("error");
    expect(error).toMatchObject({ kind: "compile", diagnostics: [{ severity: "error", file: "add.wgsl" }] });
    const failure = await alone(repro).catch((cause: unknown) => cause);
    expect(failure).toMatchObject({ report: { kind: "compile" } });
    const [one, other] = [error, (failure as { report: typeof error }).report].map(
      (found) => found?.diagnostics?.[0],
    );
    expect([other?.line, other?.column, other?.source]).toEqual([one?.line, one?.column, one?.source]);
  });

  it("say what the GPU refused", async () => {
    // Bound for reading and for writing at a time.
    const repro = reproOf(device, addText(COUNT), [range, range], [doubled]);
    for (const launch of repro.kernel.variants[0]?.launches ?? []) {
      launch.operands = [{ argument: 0 }, { argument: 2 }, { argument: 2 }];
    }
    expect(await shared(repro)).toMatchObject({ verdict: "error", error: { kind: "validation" } });
    await expect(alone(repro)).rejects.toMatchObject({ report: { kind: "validation" } });
  });
});

describe("the page behind a link", () => {
  it("calls a kernel that is not for this device unsupported", async () => {
    const text = { ...addText(COUNT), requires: { features: ["nothing-has-this"] } };
    const outcome = await shared(reproOf(device, text, [range, range], [range]));
    expect(outcome).toMatchObject({ verdict: "unsupported", error: { kind: "unsupported" }, variant: null });
  });

  it("gives an error for a tensor that the server does not give", async () => {
    const repro = reproOf(device, addText(COUNT), [range, range], [range]);
    device.blobs.delete("in0");
    expect(await shared(repro)).toMatchObject({ verdict: "error", error: { kind: "fetch" } });
  });

  it("gives an error where the device is lost", async () => {
    const running = shared(reproOf(device, addText(COUNT), [range, range], [range]));
    device.close();
    expect(await running).toMatchObject({ verdict: "error", error: { kind: "device-lost" } });
  });
});
