const WARM = 20;
const CALLS = 300;
/** Where the GPU is slow there are fewer. */
const MILLISECONDS = 6000;

/** One call after the other: time of the thread until the GPU has all of a call, and what the server sees of CPU time. */
export async function hostCost(embed, told) {
  let submitted = 0;
  const { submit } = GPUQueue.prototype;
  GPUQueue.prototype.submit = function (...given) {
    submit.apply(this, given);
    submitted = performance.now();
  };
  const begun = performance.now();
  for (let call = 0; call < WARM && performance.now() - begun < MILLISECONDS; call++) await embed();
  const [until, whole] = [[], []];
  await told("/mark", { name: "begin" });
  const warm = performance.now();
  while (whole.length < CALLS && performance.now() - warm < MILLISECONDS) {
    const called = performance.now();
    await embed();
    whole.push(performance.now() - called);
    until.push(submitted - called);
  }
  await told("/mark", { name: "end" });
  return { calls: whole.length, until: median(until), whole: median(whole) };
}

export function median(numbers) {
  return numbers.sort((a, b) => a - b)[numbers.length >> 1];
}
