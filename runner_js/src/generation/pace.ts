/**
 * What the calls ahead take, in ms, so that there is work until what follows them comes: a browser tells up to 5 ms later that a
 * call has ended, and tokens of calls that went to the GPU together come together.
 */
const TRAVEL = 12;
const MOST = 32;
/** Submissions that are under way then: in one with others a call costs the host less. */
const SUBMISSIONS = 8;
/** Times between tokens that say how far apart they come. */
const FEW = 4;

/**
 * How many calls are submitted before the token of the one in front of them is known: each is given its token on the device,
 * so that the GPU has work while tokens travel. Where a text ends their work is lost, so they are as many as take the time
 * that a token travels, and one where a single call takes that long.
 */
export class Pace {
  /** Calls ahead. */
  ahead = 1;
  /** The place in the text of the last token, and when it and those before it came, in ms. */
  #place = Number.NaN;
  #came: number[] = [];

  /** Calls that go to the GPU together. */
  get together(): number {
    return Math.max(1, Math.floor(this.ahead / SUBMISSIONS));
  }

  /** A token of this place came, at that time in ms. */
  token(place: number, now = performance.now()): void {
    if (place !== this.#place + 1) this.#came = [];
    this.#place = place;
    this.#came.push(now);
    // Over several: some browsers give what was ready for long all at once.
    const spans = this.#came.length - 1;
    if (spans < FEW) return;
    const first = this.#came[0] as number;
    const wanted = Math.ceil((TRAVEL * spans) / Math.max(now - first, 1e-3));
    this.ahead = Math.min(MOST, Math.max(1, wanted));
    if (spans === MOST) this.#came.shift();
  }
}

const PACES = new WeakMap<object, Pace>();

/** One of each model: the next text is as fast as the one before. */
export function paceOf(model: object): Pace {
  let pace = PACES.get(model);
  if (!pace) {
    pace = new Pace();
    PACES.set(model, pace);
  }
  return pace;
}
