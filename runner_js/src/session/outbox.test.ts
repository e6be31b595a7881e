import { describe, expect, it } from "vitest";
import type { Progress, Reply } from "../protocol/messages";
import { Outbox } from "./outbox";

const compile = (done: number) => ({ kind: "compile" as const, kernel: "add", done, total: 9, seconds: 0 });

describe("Outbox", () => {
  it("numbers messages and sends again what is missing", () => {
    const sent: [string, Progress | Reply][] = [];
    const outbox = new Outbox("c", (event, message) => sent.push([event, message]));
    outbox.progress(compile(1));
    outbox.progress(compile(2));
    outbox.reply({ ok: true, result: {} });
    expect(outbox.ended).toBe(true);
    const expected = [
      ["progress", { call: "c", number: 0, progress: compile(1) }],
      ["progress", { call: "c", number: 1, progress: compile(2) }],
      ["reply", { call: "c", number: 2, ok: true, result: {} }],
    ];
    expect(sent).toEqual(expected);
    outbox.resend(1);
    expect(sent.slice(3)).toEqual(expected.slice(1));
    outbox.resend(3);
    expect(sent).toHaveLength(5);
  });

  it("replaces a reply that no message can carry", () => {
    const sent: (Progress | Reply)[] = [];
    new Outbox("c", (_, message) => sent.push(message)).reply({
      ok: true,
      result: { text: "x".repeat(13_000_000) },
    });
    expect(sent).toEqual([
      {
        call: "c",
        number: 0,
        ok: false,
        error: { kind: "protocol", message: expect.stringContaining("too large") },
      },
    ]);
  });
});
