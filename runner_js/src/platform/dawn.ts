/** WebGPU in node: Dawn, as npm's `webgpu` has it. */
export interface Dawn {
  create(options: string[]): GPU;
  globals: object;
}

/** For so long node asks as fast as it can whether the GPU is done, and then once a millisecond. */
const EAGER_MS = 1;

/** Dawn's `navigator.gpu`; asks for what it holds back: timestamps, as fine as the GPU's clock, and f16 on NVIDIA. */
export function gpuOf({ create, globals }: Dawn): GPU {
  Object.assign(globalThis, globals);
  pollGently();
  return create([
    "enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia",
    "disable-dawn-features=timestamp_quantization",
  ]);
}

/**
 * While something waits for the GPU, the binding calls itself by setImmediate: that takes a whole core, which a GPU in
 * software could use.
 */
function pollGently(): void {
  const scope = globalThis as unknown as { setImmediate: (call: () => void, ...rest: unknown[]) => unknown };
  const immediately = scope.setImmediate;
  let within = false;
  let began = 0;
  scope.setImmediate = (call, ...rest) => {
    const now = performance.now();
    // From within a call it is the same wait that goes on.
    if (!within) began = now;
    const poll = () => {
      within = true;
      try {
        (call as (...rest: unknown[]) => void)(...rest);
      } finally {
        within = false;
      }
    };
    return now - began < EAGER_MS ? immediately(poll) : setTimeout(poll, 1);
  };
}
