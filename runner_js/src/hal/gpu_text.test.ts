import { describe, expect, it } from "vitest";
import { tidyGpuMessage } from "./gpu_text";

describe("tidyGpuMessage", () => {
  it("leaves one line alone", () => {
    expect(tidyGpuMessage("unresolved value 'foo'")).toBe("unresolved value 'foo'");
  });

  it("drops how Chromium came there", () => {
    const message =
      "Dispatch workgroup count Y (70000) exceeds the maximum.\n - While encoding [ComputePassEncoder].\n" +
      " - While finishing [CommandEncoder (unlabeled)].\n";
    expect(tidyGpuMessage(message)).toBe("Dispatch workgroup count Y (70000) exceeds the maximum.");
  });

  it("takes Firefox's parsing error out of its frame", () => {
    const message =
      "\nShader '' parsing error: no definition in scope for identifier: `foo`\n  ┌─ wgsl:7:52\n  │\n" +
      "7 │   o[id.x] = a[id.x] + foo;\n  │                       ^^^ unknown identifier\n\n\n";
    expect(tidyGpuMessage(message)).toBe("no definition in scope for identifier: `foo` (unknown identifier)");
  });

  it("keeps Firefox's notes", () => {
    const message =
      "\nShader validation error: Entry point k at Compute is invalid\n = Workgroup size is out of range\n\n";
    expect(tidyGpuMessage(message)).toBe(
      "Shader validation error: Entry point k at Compute is invalid; Workgroup size is out of range",
    );
  });

  it("keeps further lines that say something", () => {
    expect(tidyGpuMessage("first\nsecond")).toBe("first; second");
  });
});
