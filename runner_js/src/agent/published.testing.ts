/** A service in memory with versions signed by a key, for tests. */
import { sha256 } from "./trust";

type Bytes = Uint8Array<ArrayBuffer>;
const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

export class Service {
  readonly files = new Map<string, Bytes>();
  readonly asked: string[] = [];
  readonly reports: unknown[] = [];
  /** Of samples, what they are of and their bytes. */
  readonly samples: [query: string, bytes: number][] = [];
  answer: unknown = { install: [], remove: [] };

  private constructor(
    private readonly pair: CryptoKeyPair,
    readonly key: string,
  ) {}

  static async make(): Promise<Service> {
    const pair = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
    const { x } = await crypto.subtle.exportKey("jwk", pair.publicKey);
    return new Service(pair, String(x));
  }

  async sign(what: string, data: Bytes): Promise<Bytes> {
    return new Uint8Array(
      await crypto.subtle.sign(
        "Ed25519",
        this.pair.privateKey,
        utf8(`${what}\0${new TextDecoder().decode(data)}`),
      ),
    );
  }

  /** Gives the offer. */
  async publish(task: string, version: string, given: Record<string, string | Bytes>) {
    const shared = [];
    for (const [path, text] of Object.entries(given)) {
      const data = typeof text === "string" ? utf8(text) : text;
      const digest = await sha256(data);
      this.files.set(`blobs/${digest}`, data);
      shared.push({ path, sha256: digest, bytes: data.length });
    }
    const manifest = utf8(JSON.stringify({ format: "tapml.task/1", task, version, shared, exclusive: null }));
    const digest = await sha256(manifest);
    this.files.set(`manifests/${digest}.json`, manifest);
    this.files.set(`manifests/${digest}.sig`, await this.sign("tapml.task/1", manifest));
    return { task, version, manifest: digest };
  }

  readonly fetch = (async (url: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const path = String(url).replace("https://field.example/field/", "");
    this.asked.push(path);
    if (path === "answer") return Response.json(this.answer);
    if (path === "reports") {
      this.reports.push(JSON.parse(String(init.body)));
      return Response.json({ counted: true });
    }
    if (path.startsWith("samples?")) {
      this.samples.push([path.slice("samples?".length), (init.body as Blob).size]);
      return Response.json({ counted: true });
    }
    const found = this.files.get(path);
    return new Response(found ?? null, { status: found ? 200 : 404 });
  }) as typeof fetch;
}

export const SERVICE = "https://field.example/field/";
