/**
 * Takes from a worker's realm all that reaches out of it. What stays is on a list: a browser's new interfaces are none of it.
 *
 * A VM's Python may reach every JavaScript object of its realm, so that what must not be used must not be there: no request,
 * no storage of the page's origin, no other worker, no channel, and no way to make code of text, which could import() what
 * no list knows.
 */

const KEPT = new Set(
  (
    "globalThis self Object Array Boolean Number String Symbol BigInt Math JSON Reflect Proxy Promise Date RegExp Map Set " +
    "WeakMap WeakSet WeakRef FinalizationRegistry Iterator ArrayBuffer SharedArrayBuffer DataView Atomics " +
    "Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array Float16Array Float32Array " +
    "Float64Array BigInt64Array BigUint64Array Error AggregateError EvalError RangeError ReferenceError SyntaxError " +
    "TypeError URIError SuppressedError InternalError DisposableStack AsyncDisposableStack Intl undefined NaN Infinity isNaN " +
    "isFinite parseInt parseFloat decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape WebAssembly " +
    "setTimeout clearTimeout setInterval clearInterval queueMicrotask console performance crypto TextDecoder TextEncoder " +
    "setImmediate clearImmediate MessageChannel MessagePort AbortController AbortSignal DOMException Event EventTarget structuredClone atob btoa Function eval"
  ).split(" "),
);

/** Throws where something cannot be taken away: nothing of a task runs then. */
export function lockDown(realm: typeof globalThis): void {
  noCodeOfText(realm);
  for (
    let place: object | null = realm;
    place !== null && place !== Object.prototype && place !== EventTarget.prototype;
    place = Object.getPrototypeOf(place)
  )
    for (const name of Reflect.ownKeys(place))
      if (typeof name === "string" && name !== "constructor" && !KEPT.has(name))
        Reflect.deleteProperty(place, name);
  const left: string[] = [];
  for (
    let place: object | null = realm;
    place !== null && place !== Object.prototype && place !== EventTarget.prototype;
    place = Object.getPrototypeOf(place)
  )
    for (const [name, own] of Object.entries(Object.getOwnPropertyDescriptors(place)))
      if (name !== "constructor" && !KEPT.has(name) && !isNumber(own)) left.push(name);
  if (left.length > 0) throw new Error(`${left.join(", ")} cannot be taken away in this browser`);
}

/** TEMPORARY and PERSISTENT of Chromium stay: constants that reach nothing. */
function isNumber(own: PropertyDescriptor): boolean {
  return own.configurable === false && typeof own.value === "number";
}

function noCodeOfText(realm: typeof globalThis): void {
  const refuse = function refused(): never {
    throw new TypeError("tasks make no code of text");
  };
  const samples = [() => {}, async () => {}, function* () {}, async function* () {}];
  for (const sample of samples)
    Object.defineProperty(Object.getPrototypeOf(sample), "constructor", {
      value: refuse,
      writable: false,
      configurable: false,
    });
  // `instanceof Function` stays what it was.
  Object.defineProperty(refuse, "prototype", { value: Object.getPrototypeOf(samples[0]) });
  Object.defineProperty(realm, "Function", { value: refuse, writable: false, configurable: false });
  Object.defineProperty(realm, "eval", { value: refuse, writable: false, configurable: false });
  for (const name of ["setTimeout", "setInterval"] as const) {
    const own = realm[name].bind(realm) as (...given: unknown[]) => unknown;
    const only = (called: unknown, ...rest: unknown[]) =>
      typeof called === "function" ? own(called, ...rest) : refuse();
    Object.defineProperty(realm, name, { value: only, writable: false, configurable: false });
  }
}
