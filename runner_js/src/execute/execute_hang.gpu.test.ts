import { expect, it } from "vitest";
import { DeviceFailure } from "../hal/errors";
import { TestDevice } from "../testing/dawn";
import { addText, allocate, call, download, kernelOf, load } from "../testing/kernels";

// In a file, and so a process, of its own: only its end stops a kernel like this one.
const body = "loop { p2[i] = p2[i] + 1.0; if (p2[0] == 12345.5) { break; } }";

it("takes a kernel that loops for ever for hung and names it", async () => {
  const device = await TestDevice.open();
  const kernel = kernelOf({ ...addText(64), body }, (digest, code) => device.put(digest, code));
  await device.execute([load(kernel), allocate("a", 64), allocate("c", 64)]);
  const commands = [call("add", "a", "a", "c"), download("c")];
  const cause = await device.execute(commands, { hangSeconds: 1 }).catch((thrown: unknown) => thrown);
  expect(cause).toBeInstanceOf(DeviceFailure);
  expect((cause as DeviceFailure).report).toMatchObject({
    kind: "device-lost",
    lost_reason: "hung",
    kernel: "add",
    message: "kernel add did not end within 1 s: the GPU device is lost",
  });
});
