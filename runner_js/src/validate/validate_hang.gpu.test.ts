import { expect, it } from "vitest";
import type { CallContext } from "../engine/engine";
import { DeviceFailure } from "../hal/errors";
import type { Test, TestVerdict } from "../protocol/messages";
import { TestDevice } from "../testing/dawn";
import { addText, floats, kernelOf } from "../testing/kernels";
import { validate } from "./validate";

// In a file, and so a process, of its own: only its end stops a kernel like this one.
const body = "loop { p2[i] = p2[i] + 1.0; if (p2[0] == 12345.5) { break; } }";

it("takes a test that never ends for hung and names it", async () => {
  const device = await TestDevice.open();
  const put = (digest: string, code: string) => device.put(digest, code);
  const ref = { ...floats(64), digest: device.put("zeros", new Float32Array(64)) };
  const test = (id: string, kernel: string): Test => {
    const tolerances = [{ absolute: 0, relative: 0 }];
    return { id, kernel, inputs: [ref, ref], outputs: [ref], tolerances };
  };
  const kernels = [kernelOf(addText(64), put), kernelOf({ ...addText(64), name: "endless", body }, put)];
  const tests = [test("t1", "add"), test("t2", "endless"), test("t3", "add")];
  const verdicts: TestVerdict[] = [];
  const progress: CallContext["progress"] = (message) => {
    if (message.kind === "verdict") verdicts.push(message);
  };
  const { signal } = new AbortController();
  const running = validate(
    { engine: device.engine, id: "", hangSeconds: 1, progress, signal },
    { kernels, tests },
  );
  const cause = await running.catch((thrown: unknown) => thrown);
  expect(cause).toBeInstanceOf(DeviceFailure);
  expect((cause as DeviceFailure).report).toMatchObject({
    kind: "device-lost",
    lost_reason: "hung",
    kernel: "endless",
    test: "t2",
    message: "kernel endless did not end within 1 s in test t2: the GPU device is lost",
  });
  // The others are for another device.
  expect(verdicts).toMatchObject([{ id: "t2", verdict: "error", error: { kind: "device-lost" } }]);
});
