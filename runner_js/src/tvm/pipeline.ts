import { compileError, diagnose } from "../hal/diagnostics";
import { DeviceFailure } from "../hal/errors";
import { captureErrors } from "../hal/scopes";
import type { Context, EntryPointInfo, Shader } from "./tvmjs";

/** Compiles one entry point; throws a DeviceFailure of kind "compile" that points into the WGSL. */
export async function compilePipeline(
  context: Context,
  info: EntryPointInfo,
  code: string,
  kernel: string,
  file: string,
): Promise<Shader> {
  const captured = captureErrors(context.device);
  const pending = context.createShaderAsync(info, code);
  const [shader, error] = await Promise.all([
    pending.catch((cause: unknown) => new Refusal(cause)),
    captured(),
  ]);
  if (shader instanceof Refusal || error) {
    const diagnostics = await diagnose(context.device, file, code);
    const reason = shader instanceof Refusal ? shader.reason : (error?.message ?? "");
    throw new DeviceFailure(compileError(kernel, file, diagnostics, reason));
  }
  return shader;
}

class Refusal {
  readonly reason: string;

  constructor(cause: unknown) {
    this.reason = cause instanceof Error ? cause.message : String(cause);
  }
}
