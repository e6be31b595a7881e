import { afterEach, describe, expect, it, vi } from "vitest";
import { type Emission, type Emitter, Tunnel } from "./index";

const TASK = "shop/a";

class Kept {
  readonly items = new Map<string, string>();

  getItem(key: string): string | null {
    return this.items.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    this.items.set(key, value);
  }
}

/** The server's rules, as tests/field/test_field_tunnel.py holds the real one to them; connections can be cut. */
class Server {
  readonly streams = new Map<string, unknown[]>();
  readonly sockets: WebSocket[] = [];
  answers = true;
  /** Seconds that the next connection is told to wait. */
  wait = 0;

  connect = (): WebSocket => {
    let mine: unknown[] | undefined;
    const socket = {
      readyState: 1,
      close: () => {
        socket.readyState = 3;
        socket.onclose?.();
      },
      send: (text: string) => {
        const message = JSON.parse(text) as { stream: string; first: number; records: { value: unknown }[] };
        if (this.wait > 0) {
          const data = JSON.stringify({ error: "this device connects too often", wait: this.wait });
          this.wait = 0;
          queueMicrotask(() => {
            socket.onmessage?.({ data });
            socket.close();
          });
          return;
        }
        if (mine === undefined) {
          mine = this.streams.get(message.stream) ?? [];
          this.streams.set(message.stream, mine);
        } else if (message.first <= mine.length + 1) {
          mine.push(...message.records.slice(mine.length + 1 - message.first).map(({ value }) => value));
        }
        const acknowledged = mine.length;
        if (this.answers)
          queueMicrotask(() => socket.onmessage?.({ data: JSON.stringify({ acknowledged }) }));
      },
      onopen: undefined as (() => void) | undefined,
      onclose: undefined as (() => void) | undefined,
      onmessage: undefined as ((event: { data: string }) => void) | undefined,
    };
    this.sockets.push(socket as unknown as WebSocket);
    queueMicrotask(() => socket.onopen?.());
    return socket as unknown as WebSocket;
  };

  get values(): unknown[] {
    return [...this.streams.values()].flat();
  }
}

const opened: Tunnel[] = [];
afterEach(() => {
  for (const tunnel of opened.splice(0)) tunnel.close();
});

function device(server: Server, storage = new Kept()) {
  let tell: (what: Emission) => void = () => {};
  let allowed = true;
  const emitter: Emitter = {
    device: "device-0123456789",
    tasks: new Map([[TASK, { configuration: { emits: ["feature"] } }]]),
    on: (_, listener) => {
      tell = listener;
      return () => {};
    },
  };
  const options = {
    url: "ws://field/",
    consent: () => allowed,
    storage,
    collect: 1,
    connect: server.connect,
  };
  const tunnel = new Tunnel(emitter, options);
  opened.push(tunnel);
  const emit = (value: unknown, name = "feature") => tell({ task: TASK, version: "1", name, value, at: 5 });
  return { tunnel, emit, allow: (value: boolean) => (allowed = value) };
}

const settled = (tunnel: Tunnel) => expect.poll(() => tunnel.state.waiting, { timeout: 60_000 }).toBe(0);

describe("Tunnel", () => {
  it("collects, sends once, and shows what left", async () => {
    const server = new Server();
    const { tunnel, emit } = device(server);
    for (let value = 0; value < 600; value++) emit(value);
    await settled(tunnel);
    expect(server.values).toEqual(Array.from({ length: 600 }, (_, at) => at));
    expect(server.sockets).toHaveLength(1);
    expect(tunnel.log().at(-1)).toMatchObject({ number: 600, value: 599, state: "acknowledged" });
    expect(tunnel.log()).toHaveLength(500);
  });

  it("sends again what was not acknowledged, after a cut and after a reload, and the server has it once", async () => {
    const server = new Server();
    const storage = new Kept();
    const before = device(server, storage);
    before.emit(1);
    await settled(before.tunnel);
    server.answers = false;
    before.emit(2);
    await expect.poll(() => server.values).toEqual([1, 2]);
    expect(before.tunnel.state.waiting).toBe(1);
    server.answers = true;
    server.sockets.at(-1)?.close();
    before.emit(3);
    before.tunnel.close();
    const after = device(server, storage);
    after.emit(4);
    await settled(after.tunnel);
    expect(server.values).toEqual([1, 2, 3, 4]);
    expect(server.streams.size).toBe(1);
  });

  it("comes again when the server says, and not before", async () => {
    vi.useFakeTimers();
    try {
      const server = new Server();
      server.wait = 30;
      const { tunnel, emit } = device(server);
      emit(1);
      await vi.advanceTimersByTimeAsync(29_900);
      expect(server.sockets).toHaveLength(1);
      expect(tunnel.error).toBe("this device connects too often");
      await vi.advanceTimersByTimeAsync(8_000);
      expect([server.sockets.length, server.values]).toEqual([2, [1]]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("nothing leaves that a task did not declare, or without consent", async () => {
    const server = new Server();
    const { tunnel, emit, allow } = device(server);
    emit(1, "other");
    allow(false);
    emit(2);
    allow(true);
    emit(3);
    allow(false); // before it was sent
    await settled(tunnel);
    expect(server.values).toEqual([]);
    expect(tunnel.log().map(({ value, state }) => [value, state])).toEqual([[3, "withdrawn"]]);
    allow(true);
    emit(4);
    await settled(tunnel);
    expect(server.values).toEqual([4]);
  });

  it("drops what finds no room, and says so", async () => {
    const { tunnel, emit } = device(new Server());
    emit("x".repeat(300_000));
    expect(tunnel.state).toEqual({ waiting: 0, dropped: 1 });
    expect(tunnel.log()).toEqual([]);
  });
});
