/** What a task emitted; `Emitted` of @tapml/agent is one. */
export interface Emission {
  readonly task: string;
  readonly version: string;
  readonly name: string;
  /** JSON. */
  readonly value: unknown;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What leaves the device, as it can be shown to its user. */
export interface Leaving extends Emission {
  readonly number: number;
  state: "waiting" | "sent" | "acknowledged" | "withdrawn";
}

/** Where the outbox outlives its page: `sessionStorage` (one tab is one outbox; two must not share one). */
export interface OutboxStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

const KEY = "tapml.agent.outbox/1";
/** As the server reads names of streams. */
const STREAM = /^[A-Za-z0-9_-]{16,64}$/;
/** Of records that wait, as JSON; what comes beyond is dropped, and counted. */
const MOST_CHARACTERS = 1_000_000;
/** What the server takes of one record is less than a message. */
const MOST_OF_ONE = 200_000;
const MOST_SHOWN = 500;
/** A message has at most 262,144 characters and 256 records. */
const BATCH = { records: 256, characters: 200_000 };

/** Numbered records of one stream: each is kept until it is acknowledged, under the number it was given first. */
export class Outbox {
  stream: string;
  /** The latest that left or wait to, the oldest first. */
  readonly log: Leaving[] = [];
  /** Records that found no room. */
  dropped = 0;
  private waiting: { number: number; text: string }[] = [];
  private next = 1;
  private characters = 0;

  /** Goes on with what `storage` has; another stream begins where that is nothing. */
  constructor(
    private readonly storage: OutboxStorage | null,
    private readonly draw: () => string,
  ) {
    const kept = read(storage);
    this.stream = kept?.stream ?? draw();
    this.next = kept?.next ?? 1;
    this.waiting = kept?.waiting ?? [];
    this.characters = this.waiting.reduce((sum, { text }) => sum + text.length, 0);
    for (const { number, text } of this.waiting)
      this.log.push({ ...(JSON.parse(text) as Emission), number, state: "waiting" });
  }

  get size(): number {
    return this.waiting.length;
  }

  /** Whether there was room. It is kept before it can be sent: a number never means two records. */
  add({ task, version, name, value, at }: Emission): boolean {
    const text = JSON.stringify({ task, version, name, value: value ?? null, at: Math.round(at) });
    if (text.length > MOST_OF_ONE || this.characters + text.length > MOST_CHARACTERS) {
      this.dropped += 1;
      return false;
    }
    const number = this.next++;
    this.waiting.push({ number, text });
    this.characters += text.length;
    if (!this.save()) {
      // Sent without being kept it might come twice, after a reload, as another.
      this.waiting.pop();
      this.characters -= text.length;
      this.next -= 1;
      this.dropped += 1;
      return false;
    }
    this.log.push({ task, version, name, value, at, number, state: "waiting" });
    return true;
  }

  /** The next message behind number `sent`, or null: its text, and its last number. */
  batch(sent: number): { text: string; last: number } | null {
    const records: string[] = [];
    let characters = 0;
    let first = 0;
    for (const { number, text } of this.waiting) {
      if (number <= sent) continue;
      if (
        records.length === BATCH.records ||
        (records.length > 0 && characters + text.length > BATCH.characters)
      )
        break;
      first ||= number;
      records.push(text);
      characters += text.length;
    }
    if (records.length === 0) return null;
    const last = first + records.length - 1;
    this.mark("sent", (number) => number >= first && number <= last);
    return { text: `{"first":${first},"records":[${records.join()}]}`, last };
  }

  /** All up to this number are committed. */
  acknowledge(number: number): void {
    this.mark("acknowledged", (one) => one <= number);
    const shown = this.log.findIndex(({ state }) => state === "waiting" || state === "sent");
    const over = Math.min(this.log.length - MOST_SHOWN, shown < 0 ? this.log.length : shown);
    if (over > 0) this.log.splice(0, over);
    this.waiting = this.waiting.filter((one) => one.number > number);
    this.characters = this.waiting.reduce((sum, { text }) => sum + text.length, 0);
    this.save();
  }

  /** What waits is erased. What comes later is another stream: the server would wait for the numbers that are gone. */
  withdraw(): void {
    for (const one of this.log) if (one.state === "waiting") one.state = "withdrawn";
    this.waiting = [];
    this.characters = 0;
    this.stream = this.draw();
    this.next = 1;
    this.save();
  }

  private mark(state: Leaving["state"], which: (number: number) => boolean): void {
    for (const one of this.log) {
      if (which(one.number) && one.state !== "acknowledged" && one.state !== "withdrawn") one.state = state;
    }
  }

  private save(): boolean {
    try {
      this.storage?.setItem(
        KEY,
        JSON.stringify({ stream: this.stream, next: this.next, waiting: this.waiting }),
      );
      return true;
    } catch {
      return false;
    }
  }
}

interface Kept {
  stream: string;
  next: number;
  waiting: { number: number; text: string }[];
}

/** Null for what is no outbox: numbers without a gap, up to the next one. */
function read(storage: OutboxStorage | null): Kept | null {
  try {
    const { stream, next, waiting } = JSON.parse(storage?.getItem(KEY) ?? "null") as Kept;
    const whole = waiting.every(
      ({ number, text }, at) => number === next - waiting.length + at && typeof JSON.parse(text) === "object",
    );
    return STREAM.test(stream) && Number.isSafeInteger(next) && next >= 1 && whole
      ? { stream, next, waiting }
      : null;
  } catch {
    return null;
  }
}
