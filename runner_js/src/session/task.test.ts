import { describe, expect, it } from "vitest";
import type { Test, TestVerdict, Verdict } from "../protocol/messages";
import { TaskFollower } from "./task";

function verdict(id: string, verdict: Verdict): TestVerdict {
  const seconds = { fetch: 0, compile: 0, run: 0, compare: 0 };
  return {
    kind: "verdict",
    id,
    kernel: "softmax",
    variant: "256",
    verdict,
    outputs: [],
    message: "",
    error: null,
    seconds,
  };
}

describe("TaskFollower", () => {
  it("counts verdicts", () => {
    const tests = [{}, {}, {}] as Test[];
    const follower = new TaskFollower({
      call: "c",
      method: "validate",
      hang_seconds: 30,
      params: { kernels: [], tests },
    });
    follower.progress({ kind: "compile", kernel: "softmax", done: 1, total: 2, seconds: 0.1 });
    expect(follower.task).toMatchObject({ detail: "compiled softmax (1 of 2)", done: 0 });
    follower.progress(verdict("n1", "pass"));
    follower.progress(verdict("n2", "fail"));
    expect(follower.task).toEqual({
      title: "Validating 3 tests",
      detail: "n2 softmax: fail",
      done: 2,
      total: 3,
    });
    expect(follower.summary()).toBe("Validating 3 tests: 1 pass, 1 fail");
  });

  it("says what else is running", () => {
    const execute = new TaskFollower({
      call: "c",
      method: "execute",
      hang_seconds: 30,
      params: { timing: false, commands: [{ op: "free", tensors: ["a"] }] },
    });
    expect(execute.summary()).toBe("Moving tensors");
    expect(new TaskFollower({ call: "c", method: "ping", hang_seconds: 30, params: {} }).task.title).toBe(
      "Answering",
    );
  });
});
