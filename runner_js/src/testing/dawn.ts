/** Engines on a real GPU, or a software one, for tests in node: WebGPU by Dawn. */
import { create, globals } from "webgpu";
import { Blobs } from "../engine/blobs";
import { Engine } from "../engine/engine";
import { execute } from "../execute/execute";
import { acquireGpu } from "../hal/gpu";
import { gpuOf } from "../platform/dawn";
import { limited } from "../profiles/adapters";
import { changed } from "../profiles/profiles";
import type { Command, ExecuteParams, ExecuteResult } from "../protocol/messages";

const ORIGIN = "http://tests";

/** Devices live no longer than what made them. */
const dawn = gpuOf({ create, globals });

export interface Execution {
  result: ExecuteResult;
  /** Bytes of each download. */
  downloads: Uint8Array<ArrayBuffer>[];
  /** The same as float32. */
  floats: number[][];
}

/** An engine, and the server that it fetches from and posts to. */
export class TestDevice {
  readonly blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  /** Bytes of a piece of a response's body. */
  piece = 1 << 20;
  private readonly posted = new Map<string, Uint8Array<ArrayBuffer>>();
  private calls = 0;

  private constructor(readonly engine: Engine) {
    globalThis.fetch = (url, init) => this.serve(String(url), init ?? {});
  }

  /** `limits` that the adapter shall not exceed; `change` what else is different. One device at a time is served. */
  static async open(
    limits: Record<string, number> = {},
    change: (gpu: GPU) => GPU = (gpu) => gpu,
  ): Promise<TestDevice> {
    const about = { userAgent: "node", secure: true, origin: ORIGIN };
    const gpu = await acquireGpu(change(changed(dawn, limited(limits))), about);
    if ("unavailable" in gpu) throw new Error(gpu.unavailable);
    return new TestDevice(new Engine(gpu, new Blobs(ORIGIN)));
  }

  /** Bytes under a digest that is only a name; gives the name. */
  put(digest: string, bytes: ArrayBufferView<ArrayBuffer> | string): string {
    const data = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
    this.blobs.set(digest, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return digest;
  }

  async execute(
    commands: Command[],
    options: Partial<ExecuteParams> & { hangSeconds?: number; signal?: AbortSignal } = {},
  ): Promise<Execution> {
    const { hangSeconds = 60, signal = new AbortController().signal, timing = false } = options;
    const id = String(this.calls++);
    const call = { engine: this.engine, id, hangSeconds, progress: () => {}, signal };
    const result = await execute(call, { commands, timing });
    const body = this.posted.get(id) ?? new Uint8Array(0);
    let offset = 0;
    const downloads = result.downloads.map((bytes) => {
      offset += bytes;
      return body.slice(offset - bytes, offset);
    });
    if (offset !== body.byteLength)
      throw new Error(`${body.byteLength} bytes were posted, ${offset} promised`);
    return { result, downloads, floats: downloads.map((bytes) => floatsOf(bytes)) };
  }

  /** What tensors hold now. */
  async read(...tensors: string[]): Promise<number[][]> {
    return (await this.execute(tensors.map((tensor) => ({ op: "download", tensor })))).floats;
  }

  close(): void {
    this.engine.gpu.device.destroy();
  }

  private async serve(url: string, init: RequestInit): Promise<Response> {
    init.signal?.throwIfAborted();
    const [, kind, name = ""] = new URL(url).pathname.split("/");
    if (kind !== "blobs") {
      const call = url.split("/").at(-2) ?? "";
      this.posted.set(call, new Uint8Array(await new Response(init.body ?? null).arrayBuffer()));
      return Response.json({});
    }
    const found = name.split("+").map((digest) => this.blobs.get(decodeURIComponent(digest)));
    if (found.includes(undefined)) return Response.json({ error: `no blob ${name}` }, { status: 404 });
    return new Response(inPieces(new Blob(found as Uint8Array<ArrayBuffer>[]), this.piece));
  }
}

function inPieces(body: Blob, bytes: number): ReadableStream<Uint8Array> {
  let offset = 0;
  return new ReadableStream({
    async pull(controller) {
      const piece = await body.slice(offset, offset + bytes).arrayBuffer();
      offset += piece.byteLength;
      if (piece.byteLength) controller.enqueue(new Uint8Array(piece));
      else controller.close();
    },
  });
}

function floatsOf(bytes: Uint8Array<ArrayBuffer>): number[] {
  return bytes.byteLength % 4
    ? []
    : [...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)];
}
