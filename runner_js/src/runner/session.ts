import { io, type Socket } from "socket.io-client";
import { DeviceFailure, toDeviceError } from "../hal/errors";
import { acquireGpu, type Capabilities } from "../hal/gpu";
import { callId, checkCall, ProtocolError } from "../protocol/check";
import { type Call, type Hello, type HelloAck, PROTOCOL_VERSION, type Reply } from "../protocol/messages";
import type { RunnerState, Start, View } from "../view";
import { Blobs } from "./blobs";
import { browserName } from "./browser_name";
import { perform, stopped } from "./calls";
import { Engine } from "./engine";
import { TaskFollower } from "./task";

const HELLO_TIMEOUT_MS = 20_000;
/** Socket.IO gives up by itself where the server refused or ended the connection. */
const RECONNECT_MS = 2000;

/** Serves one server for as long as the page is open: says hello, runs its calls one after the other, replies. */
export class Session {
  private readonly socket: Socket;
  private readonly blobs = new Blobs();
  private readonly name: string;
  private capabilities: Capabilities | null = null;
  private unavailable: string | null = null;
  private engine: Engine | null = null;
  private device: string | null = null;
  private introduced = false;
  private wasConnected = false;
  private refusal: string | null = null;
  private follower: TaskFollower | null = null;
  /** Calls that wait or run, by id; aborted when nobody waits for them any more. */
  private readonly open = new Map<string, AbortController>();
  private tail: Promise<void> = Promise.resolve();

  constructor(
    private readonly start: Start,
    private readonly view: View,
  ) {
    const { userAgentData } = navigator as { userAgentData?: { brands?: { brand: string }[] } };
    this.name = browserName(
      navigator.userAgent,
      (userAgentData?.brands ?? []).map(({ brand }) => brand),
    );
    this.socket = io(`${location.origin}/device`, {
      auth: start.token === null ? {} : { token: start.token },
      transports: ["websocket", "polling"],
      tryAllTransports: true,
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
      this.unavailable ??= toDeviceError(cause).message;
      this.view.log("error", this.unavailable);
    }
    this.show();
    this.socket.connect();
  }

  /** An engine on a living device; a lost one is replaced. */
  private async readyEngine(): Promise<Engine> {
    if (this.engine && !this.engine.gpu.lost) return this.engine;
    this.engine = null;
    const gpu = await acquireGpu();
    if ("unavailable" in gpu) {
      this.unavailable = gpu.unavailable;
      throw new DeviceFailure({ kind: "unsupported", message: gpu.unavailable });
    }
    this.unavailable = null;
    this.capabilities = gpu.capabilities;
    this.engine = await Engine.create(gpu, this.blobs);
    gpu.device.lost.then(() => this.view.log("warning", gpu.lost ?? "device lost"));
    return this.engine;
  }

  private async introduce(): Promise<void> {
    this.wasConnected = true;
    this.refusal = null;
    const hello: Hello = {
      protocol: PROTOCOL_VERSION,
      resume: this.device,
      tag: this.start.tag,
      name: this.name,
      user_agent: navigator.userAgent,
      adapter: this.capabilities?.adapter ?? { vendor: "", architecture: "", device: "", description: "" },
      features: this.capabilities?.features ?? [],
      limits: this.capabilities?.limits ?? {},
      unavailable: this.unavailable,
    };
    const connection = this.socket.id;
    try {
      const ack: HelloAck = await this.socket.timeout(HELLO_TIMEOUT_MS).emitWithAck("hello", hello);
      if (connection !== this.socket.id) return;
      if ("error" in ack) {
        this.refusal = ack.error;
        this.view.log("error", `the server refuses this page: ${ack.error}`);
      } else {
        // Under another id the server knows none of the tensors that are still here.
        if (this.device !== null && this.device !== ack.device) this.engine?.tensors.freePrefix("");
        this.device = ack.device;
        this.introduced = true;
        this.view.log("info", `connected as ${ack.device}`);
      }
    } catch {
      if (connection === this.socket.id) this.socket.disconnect().connect();
    }
    this.show();
  }

  private disconnected(reason: string): void {
    this.introduced = false;
    this.view.log("warning", `connection to the server lost (${reason})`);
    for (const controller of this.open.values()) controller.abort(stopped("the connection broke"));
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
    const connection = this.socket.id;
    let call: Call;
    try {
      call = checkCall(message);
    } catch (cause) {
      const text = cause instanceof ProtocolError ? `malformed call: ${cause.message}` : String(cause);
      this.send(connection, "reply", { call: id, ok: false, error: { kind: "protocol", message: text } });
      this.view.log("error", text);
      return;
    }
    if (call.method === "ping") {
      this.send(connection, "reply", { call: id, ok: true, result: {} });
      return;
    }
    const controller = new AbortController();
    this.open.set(id, controller);
    this.tail = this.tail.then(() => this.run(call, connection, controller.signal));
  }

  private cancel(message: unknown): void {
    const id = callId(message);
    if (id !== null) this.open.get(id)?.abort(stopped("the call was cancelled"));
  }

  private async run(call: Call, connection: string | undefined, signal: AbortSignal): Promise<void> {
    const follower = new TaskFollower(call);
    this.follower = follower;
    this.show();
    let reply: Reply;
    try {
      signal.throwIfAborted();
      const engine = await this.readyEngine();
      const result = await perform(
        engine,
        call,
        (progress) => {
          this.send(connection, "progress", { call: call.call, progress });
          follower.progress(progress);
          this.show();
        },
        signal,
      );
      reply = { call: call.call, ok: true, result };
      this.view.log("info", follower.summary());
    } catch (cause) {
      const error = toDeviceError(signal.aborted ? signal.reason : cause);
      reply = { call: call.call, ok: false, error };
      this.view.log("error", `${follower.summary()}: ${error.message}`);
    }
    this.open.delete(call.call);
    this.send(connection, "reply", reply);
    this.follower = null;
    this.show();
  }

  /** Nothing of an earlier connection's calls reaches a later one: socket.io would keep it and send it on. */
  private send(connection: string | undefined, event: "progress" | "reply", message: object): void {
    if (this.socket.connected && this.socket.id === connection) this.socket.emit(event, message);
  }

  private state(): RunnerState {
    if (!this.introduced) return this.wasConnected ? "disconnected" : "connecting";
    if (this.unavailable) return "unavailable";
    return this.follower ? "busy" : "ready";
  }

  private show(): void {
    this.view.show({
      state: this.state(),
      name: this.name,
      device: this.device,
      adapter: this.capabilities?.adapter ?? null,
      features: this.capabilities?.features ?? [],
      limits: this.capabilities?.limits ?? {},
      problem: this.unavailable ?? this.refusal,
      task: this.follower ? { ...this.follower.task } : null,
    });
  }
}
