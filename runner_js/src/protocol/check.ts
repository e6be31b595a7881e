/** Checks what the network sent before anything acts on it: types, digests, sizes. */
import { type Check, isCall, isCancelCall, isHelloAck } from "./generated/check";
import type { Call, CancelCall, HelloAck } from "./messages";

/** More than any GPU buffer. */
const MAX_ELEMENTS = 2 ** 38;

/** A message that is not what the protocol says. */
export class ProtocolError extends Error {
  override name = "ProtocolError";
}

/** The id that a reply to this message must carry; null where there is none to reply to. */
export function callId(message: unknown): string | null {
  if (typeof message !== "object" || message === null || !("call" in message)) return null;
  return typeof message.call === "string" && message.call ? message.call : null;
}

/** Throws ProtocolError naming the field that is wrong. */
export function checkCall(message: unknown): Call {
  const call = checked(isCall, message);
  for (const [path, shape] of shapesOf(call)) {
    if (shape.reduce((product, extent) => product * extent, 1) > MAX_ELEMENTS) {
      throw new ProtocolError(`${path} must be the shape of a tensor that fits a device`);
    }
  }
  return call;
}

export function checkCancel(message: unknown): CancelCall {
  return checked(isCancelCall, message);
}

export function checkHelloAck(message: unknown): HelloAck {
  return checked(isHelloAck, message);
}

function checked<T>(check: Check<T>, message: unknown): T {
  if (check(message)) return message;
  const found = check.errors?.[0];
  const path = (found?.instancePath ?? "")
    .slice(1)
    .replace(/\/(\d+)/g, "[$1]")
    .replaceAll("/", ".");
  const { additionalProperty } = found?.params ?? {};
  const what = found?.message ?? "is not what the protocol says";
  const extra = typeof additionalProperty === "string" ? `: ${additionalProperty}` : "";
  throw new ProtocolError(`${path || "the message"} ${what}${extra}`);
}

/** Extents are bounded one by one in the schema, their product is not. */
function* shapesOf(call: Call): Generator<[string, readonly number[]]> {
  if (call.method === "validate") {
    for (const [i, test] of call.params.tests.entries()) {
      for (const ref of [...test.inputs, ...test.outputs]) yield [`params.tests[${i}]`, ref.shape];
    }
  } else if (call.method === "execute") {
    for (const [i, command] of call.params.commands.entries()) {
      if ("shape" in command) yield [`params.commands[${i}].shape`, command.shape];
    }
  } else if (call.method === "run_compiled") {
    for (const [i, inputs] of call.params.calls.entries()) {
      for (const ref of Object.values(inputs)) yield [`params.calls[${i}]`, ref.shape];
    }
  } else if (call.method === "run_model") {
    for (const ref of [...call.params.arguments, ...call.params.outputs]) yield ["params", ref.shape];
  }
}
