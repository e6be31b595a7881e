/** @tapml/agent/tunnel: what tasks emit goes to the field's service, each record once, where the page allows it. */
import { type Emission, type Leaving, Outbox, type OutboxStorage } from "./outbox";

export type { Emission, Leaving, OutboxStorage } from "./outbox";

/** What an agent is to the tunnel; `Agent` of @tapml/agent is one. */
export interface Emitter {
  readonly device: string;
  readonly tasks: ReadonlyMap<string, { readonly configuration: { readonly emits: readonly string[] } }>;
  on(kind: "emitted", listener: (what: Emission) => void): () => void;
}

export interface TunnelOptions {
  /** Of the service: `tapml field serve` prints it. */
  url: string;
  /** The page's setting, asked for each record and before each message. False: nothing is kept and nothing leaves. */
  consent: (record: Emission) => boolean;
  /** Where what was not acknowledged outlives the page; without one it is lost with it. */
  storage?: OutboxStorage;
  /** Milliseconds that records are collected for one message; 50. */
  collect?: number;
  /** Who opens a connection; the page's WebSocket. */
  connect?: (url: string) => WebSocket;
}

const COLLECT = 50;
const RETRY = { first: 500, most: 60_000 };
/** Milliseconds, whatever the server asks for. */
const LONGEST_WAIT = 300_000;

/** One connection while there is something to send. It is opened with the first record, and again after a cut. */
export class Tunnel {
  private readonly outbox: Outbox;
  private readonly off: () => void;
  private socket: WebSocket | null = null;
  /** The last number that went out on this connection; null before its hello is answered. */
  private sent: number | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private retry = RETRY.first;
  /** Milliseconds that the server asked to wait before the next connection. */
  private told = 0;
  private closed = false;
  /** What the server said last was wrong. */
  error: string | null = null;

  constructor(
    private readonly emitter: Emitter,
    private readonly options: TunnelOptions,
  ) {
    this.outbox = new Outbox(options.storage ?? null, () => crypto.randomUUID());
    this.off = emitter.on("emitted", (record) => this.take(record));
    if (this.outbox.size > 0) this.soon(0);
  }

  /** What left this device and what waits to, the latest 500: for the page to show. */
  log(): readonly Leaving[] {
    return this.outbox.log.map((one) => ({ ...one }));
  }

  /** Records that were not acknowledged yet, and those that found no room. */
  get state(): { waiting: number; dropped: number } {
    return { waiting: this.outbox.size, dropped: this.outbox.dropped };
  }

  /** Consent was withdrawn: what waits is erased here, and the connection closed. */
  withdraw(): void {
    this.outbox.withdraw();
    this.socket?.close();
  }

  close(): void {
    this.closed = true;
    this.off();
    clearTimeout(this.timer);
    this.socket?.close();
  }

  private take(record: Emission): void {
    const declared = this.emitter.tasks.get(record.task)?.configuration.emits.includes(record.name) ?? false;
    if (!declared || !this.options.consent(record)) return;
    if (this.outbox.add(record)) this.soon(this.options.collect ?? COLLECT);
  }

  private soon(milliseconds: number): void {
    if (this.closed || this.timer !== undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.socket === null) this.open();
      else this.send();
    }, milliseconds);
  }

  private open(): void {
    if (this.outbox.size === 0) return;
    const socket = (this.options.connect ?? ((url) => new WebSocket(url)))(this.options.url);
    this.socket = socket;
    this.sent = null;
    socket.onopen = () =>
      socket.send(JSON.stringify({ tunnel: 1, device: this.emitter.device, stream: this.outbox.stream }));
    socket.onmessage = ({ data }) => this.answered(String(data));
    socket.onclose = () => {
      this.socket = null;
      this.sent = null;
      if (this.outbox.size === 0) return;
      const told = Math.min(this.told, LONGEST_WAIT);
      this.soon(told > 0 ? told * (1 + Math.random() / 4) : this.retry * (0.5 + Math.random()));
      this.told = 0;
      this.retry = Math.min(2 * this.retry, RETRY.most);
    };
  }

  private answered(text: string): void {
    const { acknowledged, error, wait } = JSON.parse(text) as Record<string, unknown>;
    if (typeof error === "string") this.error = error;
    if (typeof wait === "number" && wait > 0) this.told = 1000 * wait;
    if (typeof acknowledged !== "number") return;
    this.outbox.acknowledge(acknowledged);
    this.retry = RETRY.first;
    // With the hello's answer it is known from where to go on; after that messages follow each other.
    this.sent ??= acknowledged;
    this.send();
  }

  /** One message at a time: it says what is new, and its answer asks for the next one. */
  private send(): void {
    const waits = this.outbox.log.filter(({ state }) => state === "waiting");
    if (waits.some((record) => !this.options.consent(record))) {
      this.withdraw();
      return;
    }
    if (this.sent === null || this.socket?.readyState !== 1) return;
    const batch = this.outbox.batch(this.sent);
    if (batch === null) return;
    this.socket.send(batch.text);
    this.sent = batch.last;
  }
}
