import { expect, it } from "vitest";
import type { CallContext } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import type { Test, TestVerdict } from "../protocol/messages";
import { TestDevice } from "../testing/dawn";
import { addText, endlessCompilation, floats, kernelOf } from "../testing/kernels";
import { validate } from "./validate";

// In a file, and so a process, of its own: only its end stops a compilation like this one.
it("names the kernel whose compilation never ends, and no other; what was compiled before it has verdicts", async () => {
  const device = await TestDevice.open();
  const put = (digest: string, code: string) => device.put(digest, code);
  const ref = { ...floats(64), digest: device.put("zeros", new Float32Array(64)) };
  // The first two are a wave of their own.
  const before = ["early", "too"];
  const names = [...before, "first", "endless", "second", "third"];
  const kernels = names.map((name) => {
    const text = { ...addText(64), name };
    return kernelOf(name === "endless" ? endlessCompilation(text) : text, put);
  });
  const tests = names.map((kernel): Test => {
    const tolerances = [{ absolute: 0, relative: 0 }];
    return { id: `t.${kernel}`, kernel, inputs: [ref, ref], outputs: [ref], tolerances };
  });
  const verdicts: TestVerdict[] = [];
  const begun: string[] = [];
  const { signal } = new AbortController();
  const progress: CallContext["progress"] = (said) => {
    if (said.kind === "verdict") verdicts.push(said);
    if (said.kind === "compiling") begun.push(said.kernel);
  };
  const call = { engine: device.engine, id: "", hangSeconds: 2, progress, signal };
  const running = validate(call, { kernels, tests });
  const cause = await running.catch((thrown: unknown) => thrown);
  expect(cause).toBeInstanceOf(DeviceFailure);
  expect((cause as DeviceFailure).report).toMatchObject({
    kind: "device-lost",
    lost_reason: "hung",
    kernel: "endless",
    message: "compiling kernel endless did not end within 2 s: the GPU device is lost",
  });
  expect(begun.sort()).toEqual(names.sort());
  expect(verdicts).toMatchObject(before.map((kernel) => ({ kernel, verdict: "pass" })));
});
