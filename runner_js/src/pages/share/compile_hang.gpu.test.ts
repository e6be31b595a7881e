import { expect, it } from "vitest";
import { runKernel } from "../../../repro/kernel";
import type { Variant } from "../../../repro/types";
import { Blobs } from "../../engine/blobs";
import { TestDevice } from "../../testing/dawn";
import { addText, endlessCompilation } from "../../testing/kernels";
import { reproOf } from "../../testing/repro";
import { runShared } from "./run";

// In a file, and so a process, of its own: only its end stops compilations like these.
it("says of a compilation that never ends which kernel's it is, behind a link and in a single file", async () => {
  // Each loses the device.
  const { gpu } = (await TestDevice.open()).engine;
  const device = await TestDevice.open();
  const zeros = new Array<number>(64).fill(0);
  const repro = reproOf(device, endlessCompilation(addText(64)), [zeros, zeros], [zeros]);
  const said = "compiling kernel add did not end within 1 s";

  const data = ({ digest }: { digest: string }) => device.blobs.get(digest) as Uint8Array<ArrayBuffer>;
  const variant = repro.kernel.variants[0] as Variant;
  const alone = await runKernel(gpu, variant, repro, data, {}, 1).catch((cause) => cause);
  expect(alone).toMatchObject({ message: said, report: { kind: "device-lost", lost_reason: "hung" } });

  const blobs = new Blobs("http://tests");
  const shared = await runShared(device.engine.gpu, blobs, { name: "Dawn", userAgent: "node" }, repro, 1);
  expect(shared).toMatchObject({
    verdict: "error",
    message: `${said}: the GPU device is lost`,
    error: { kind: "device-lost", lost_reason: "hung", kernel: "add" },
  });
});
