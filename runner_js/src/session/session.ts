import { io, type Socket } from "socket.io-client";
import { Blobs } from "../engine/blobs";
import { Engine } from "../engine/engine";
import { canCompile } from "../hal/compilations";
import { DeviceFailure, toErrorReport } from "../hal/errors";
import { acquireGpu, type Capabilities } from "../hal/gpu";
import type { Platform } from "../platform/platform";
import { callId, checkCall, checkCancel, checkHelloAck, ProtocolError } from "../protocol/check";
import { type Call, type Hello, PROTOCOL_VERSION, type Welcome } from "../protocol/messages";
import { perform, stopped } from "./calls";
import { Outbox } from "./outbox";
import { TaskFollower } from "./task";
import type { RunnerState, Start, View } from "./view";

const HELLO_TIMEOUT_MS = 20_000;
/** Socket.IO gives up by itself where the server refused or ended the connection. */
const RECONNECT_MS = 2000;
const NO_ADAPTER = { vendor: "", architecture: "", device: "", description: "" };

/** A turn of the event loop: what was sent has left this process. */
const afterSending = () => new Promise<void>((resolve) => setTimeout(resolve, 1));

const STILL_HELD =
  "and nothing else is compiled here since then: end this browser or process and start it again";

interface OpenCall {
  controller: AbortController;
  outbox: Outbox;
}

/** Serves one server for as long as it lives: says hello, runs its calls one after the other, replies. */
export class Session {
  private readonly socket: Socket;
  private readonly blobs: Blobs;
  private capabilities: Capabilities | null = null;
  private unavailable: string | null = null;
  /** Of work that did not end, until something else is known to. */
  private hung: string | null = null;
  private engine: Engine | null = null;
  /** Counts the engines. */
  private generation = 0;
  private welcome: Welcome | null = null;
  private introduced = false;
  private wasConnected = false;
  private refusal: string | null = null;
  private follower: TaskFollower | null = null;
  /** Calls that wait, run, or ended without being sure that the server knows. */
  private readonly calls = new Map<string, OpenCall>();
  /** Calls that overtook the server's answer to the hello: nothing may run on what that answer may free. */
  private early: unknown[] = [];
  private tail: Promise<void> = Promise.resolve();

  constructor(
    private readonly platform: Platform,
    private readonly start: Start,
    private readonly view: View,
  ) {
    this.blobs = new Blobs(
      platform.origin,
      start.token === null ? {} : { Cookie: `tapml-token=${start.token}` },
    );
    this.socket = io(`${platform.origin}/device`, {
      // In the address, for node and Deno set no cookie; a page has one, and no token here.
      query: start.token === null ? {} : { token: start.token },
      transports: ["websocket"],
      reconnectionDelay: 250,
      reconnectionDelayMax: RECONNECT_MS,
      autoConnect: false,
    });
    this.socket.on("connect", () => void this.introduce());
    this.socket.on("disconnect", (reason) => this.disconnected(reason));
    this.socket.on("connect_error", (error) => this.refused(error.message));
    this.socket.on("call", (message: unknown) => this.receive(message));
    this.socket.on("cancel", (message: unknown) => this.cancel(message));
  }

  async begin(): Promise<void> {
    this.show();
    try {
      await this.readyEngine();
    } catch (cause) {
      this.unavailable ??= toErrorReport(cause).message;
      this.view.log("error", this.unavailable);
    }
    this.show();
    this.socket.connect();
  }

  /** An engine on a living device; a lost one is replaced, and the server is told what the new one can do. */
  private async readyEngine(): Promise<Engine> {
    const before = this.engine?.gpu;
    if (this.engine && !before?.lost) return this.engine;
    if (before?.hung) this.hung = before.lost;
    this.engine = null;
    const gpu = await acquireGpu(this.platform.gpu, this.platform);
    if ("unavailable" in gpu) throw this.without(gpu.unavailable);
    if (this.hung !== null && !(await canCompile(gpu.device)))
      throw this.without(`${this.hung}, ${STILL_HELD}`);
    this.hung = null;
    this.unavailable = null;
    this.capabilities = gpu.capabilities;
    this.engine = new Engine(gpu, this.blobs, this.platform.memory);
    // A page's GPU work is another process's; elsewhere compiling may take this thread.
    if (this.platform.runtime !== "browser") this.engine.told = afterSending;
    this.generation++;
    (globalThis as { tapmlDevice?: GPUDevice }).tapmlDevice = gpu.device; // for tests and for the console
    void gpu.whenLost.then(() => this.view.log("warning", gpu.lost ?? "device lost"));
    if (this.introduced) void this.introduce();
    return this.engine;
  }

  private without(why: string): DeviceFailure {
    this.unavailable = why;
    return new DeviceFailure({ kind: "unsupported", message: why });
  }

  private async introduce(): Promise<void> {
    this.wasConnected = true;
    this.refusal = null;
    const connection = this.socket.id;
    const before = new Set(this.calls.keys());
    try {
      const answer: unknown = await this.socket.timeout(HELLO_TIMEOUT_MS).emitWithAck("hello", this.hello());
      if (connection !== this.socket.id) return;
      const ack = checkHelloAck(answer);
      if ("error" in ack) {
        this.refusal = ack.error;
        this.view.log("error", `the server refuses this runner: ${ack.error}`);
      } else {
        this.welcomed(ack, before);
      }
    } catch (cause) {
      if (cause instanceof ProtocolError)
        this.view.log("error", `malformed acknowledgement: ${cause.message}`);
      if (connection === this.socket.id) this.socket.disconnect().connect();
    }
    this.show();
  }

  private hello(): Hello {
    const { welcome, platform, capabilities } = this;
    return {
      protocol: PROTOCOL_VERSION,
      runtime: platform.runtime,
      resume: welcome && { device: welcome.device, session: welcome.session, calls: [...this.calls.keys()] },
      generation: this.generation,
      secret: this.start.secret,
      name: platform.name,
      user_agent: platform.userAgent,
      adapter: capabilities?.adapter ?? NO_ADAPTER,
      features: capabilities?.features ?? [],
      limits: capabilities?.limits ?? {},
      unavailable: this.unavailable,
    };
  }

  /** `before`: the calls that were here when the hello went out; those that came since are of this very session. */
  private welcomed(welcome: Welcome, before: ReadonlySet<string>): void {
    const again = this.welcome?.session === welcome.session;
    const back = !this.introduced;
    this.introduced = true;
    // Under another session the server knows nothing of what is still here.
    if (!again) this.engine?.freeAll();
    for (const [id, { controller, outbox }] of this.calls) {
      if (!before.has(id)) continue;
      const received = welcome.calls[id];
      if (again && received !== undefined) {
        if (back) outbox.resend(received);
      } else {
        controller.abort(stopped("the server does not wait for this call any more"));
        if (outbox.ended) this.calls.delete(id);
      }
    }
    if (back) this.view.log("info", `connected as ${welcome.device}${again ? " again" : ""}`);
    this.welcome = welcome;
    this.view.joined(welcome);
    for (const message of this.early.splice(0)) this.receive(message);
  }

  private disconnected(reason: string): void {
    this.introduced = false;
    this.early.length = 0; // the server sends again what this hello does not name
    this.view.log("warning", `connection to the server lost (${reason})`);
    this.comeBack();
    this.show();
  }

  private refused(message: string): void {
    // "websocket error" and the like only mean that nobody listens there now.
    if (!this.socket.active) {
      if (this.refusal !== message) this.view.log("error", message);
      this.refusal = message;
    }
    this.comeBack();
    this.show();
  }

  private comeBack(): void {
    if (!this.socket.active) setTimeout(() => this.socket.connect(), RECONNECT_MS);
  }

  private receive(message: unknown): void {
    const id = callId(message);
    if (id === null) {
      this.view.log("error", "the server sent a call without an id");
      return;
    }
    if (this.calls.has(id)) return;
    if (!this.introduced) {
      this.early.push(message);
      return;
    }
    // The server runs one call at a time: with a new one it has the ends of those before.
    for (const [known, { outbox }] of this.calls) if (outbox.ended) this.calls.delete(known);
    const controller = new AbortController();
    const outbox = new Outbox(id, (event, body) => {
      // Socket.IO would keep what is sent while there is no connection; `resend` does that.
      if (this.introduced) this.socket.emit(event, body);
    });
    this.calls.set(id, { controller, outbox });
    let call: Call;
    try {
      call = checkCall(message);
    } catch (cause) {
      const text = cause instanceof ProtocolError ? `malformed call: ${cause.message}` : String(cause);
      outbox.reply({ ok: false, error: { kind: "protocol", message: text.slice(0, 2000) } });
      this.view.log("error", text);
      return;
    }
    if (call.method === "ping") {
      outbox.reply({ ok: true, result: {} });
      return;
    }
    this.tail = this.tail.then(() => this.run(call, outbox, controller.signal));
  }

  private cancel(message: unknown): void {
    try {
      const { call } = checkCancel(message);
      this.early = this.early.filter((waiting) => callId(waiting) !== call);
      this.calls.get(call)?.controller.abort(stopped("the call was cancelled"));
    } catch (cause) {
      this.view.log("error", `malformed cancel: ${cause}`);
    }
  }

  private async run(call: Call, outbox: Outbox, signal: AbortSignal): Promise<void> {
    const follower = new TaskFollower(call);
    this.follower = follower;
    this.show();
    try {
      signal.throwIfAborted();
      const engine = await this.readyEngine();
      const result = await perform(
        engine,
        call,
        (progress) => {
          outbox.progress(progress);
          follower.progress(progress);
          this.show();
        },
        signal,
      );
      outbox.reply({ ok: true, result: result as Record<string, unknown> });
      if (follower.worthLogging) this.view.log("info", follower.summary());
    } catch (cause) {
      const error = toErrorReport(signal.aborted ? signal.reason : cause);
      outbox.reply({ ok: false, error });
      this.view.log("error", `${follower.summary()}: ${error.message}`);
    }
    this.follower = null;
    this.show();
  }

  private state(): RunnerState {
    if (!this.introduced) return this.wasConnected ? "disconnected" : "connecting";
    if (this.unavailable) return "unavailable";
    return this.follower ? "busy" : "ready";
  }

  private show(): void {
    this.view.show({
      state: this.state(),
      name: this.platform.name,
      device: this.welcome?.device ?? null,
      adapter: this.capabilities?.adapter ?? null,
      features: this.capabilities?.features ?? [],
      limits: this.capabilities?.limits ?? {},
      problem: this.unavailable ?? this.refusal,
      task: this.follower ? { ...this.follower.task } : null,
    });
  }
}
