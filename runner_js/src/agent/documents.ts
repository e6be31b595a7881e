/** What the service and versions say, read strictly: a field that is missing, of another type or too large is refused. */
import type { Columns, ColumnType, Keeps, TaskConfiguration } from "./api";
import { AgentError } from "./error";

export interface TaskFile {
  readonly path: string;
  readonly sha256: string;
  readonly bytes: number;
}
export interface Manifest {
  readonly task: string;
  readonly version: string;
  readonly shared: readonly TaskFile[];
  readonly exclusive: string | null;
}
/** By the release's plan: the share of model calls that are sampled, and of each one's operator calls. */
export interface Sampling {
  readonly runs: number;
  readonly operators: number;
}
export interface Offer {
  readonly task: string;
  readonly version: string;
  readonly manifest: string;
  readonly sampling?: Sampling;
}
export interface Answer {
  readonly install: readonly Offer[];
  readonly remove: readonly string[];
}

const PART = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const TASK = new RegExp(`^${PART}/${PART}$`);
const VERSION = /^(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){0,3}$/;
const DIGEST = /^[0-9a-f]{64}$/;
const FILE =
  /^[A-Za-z0-9_](?:[A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?(?:\/[A-Za-z0-9_](?:[A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?)*$/;
const MODULE = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const EVENT = /^(?:\*\*?|[A-Za-z0-9_.:-]{1,64})$/;
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
/** Of tables and columns. SQLite has its own use for the others. */
const COLUMN = /^(?!sqlite_|rowid$|oid$)[a-z][a-z0-9_]{0,62}$/;
const TYPES: readonly string[] = ["integer", "real", "text", "blob"] satisfies ColumnType[];
const MOST_FILES = 5_000;

type Json = Record<string, unknown>;

/** Reads one document: `what` is its name in sentences. */
class Reader {
  constructor(
    private readonly what: string,
    private readonly fix: string,
  ) {}

  refuse(field: string, wanted: string): never {
    throw new AgentError("untrusted", `${this.what}: ${field} is not ${wanted}`, this.fix);
  }

  json(data: Uint8Array): Json {
    try {
      return this.object(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data)), "it", null);
    } catch (cause) {
      if (cause instanceof AgentError) throw cause;
      return this.refuse("it", "JSON");
    }
  }

  object(value: unknown, field: string, names: readonly string[] | null): Json {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return this.refuse(field, "an object");
    for (const name of names === null ? [] : Object.keys(value))
      if (names !== null && !names.includes(name))
        this.refuse(`${field}.${name}`, `one of ${names.join(", ")}`);
    return value as Json;
  }

  list<T>(value: unknown, field: string, most: number, one: (value: unknown, field: string) => T): T[] {
    if (!Array.isArray(value) || value.length > most) return this.refuse(field, `a list of at most ${most}`);
    return value.map((each, i) => one(each, `${field}[${i}]`));
  }

  text(value: unknown, field: string, pattern: RegExp, wanted: string, most = 200): string {
    if (typeof value !== "string" || value.length > most || !pattern.test(value))
      return this.refuse(field, wanted);
    return value;
  }

  /** An object of 1 to `most` names that one may choose. */
  named<T>(
    value: unknown,
    field: string,
    most: number,
    one: (value: unknown, field: string) => T,
  ): Record<string, T> {
    const found = Object.entries(this.object(value, field, null));
    if (found.length < 1 || found.length > most) this.refuse(field, `an object of 1 to ${most} names`);
    return Object.fromEntries(
      found.map(([name, each]) => {
        this.text(name, `${field}: ${name.slice(0, 64)}`, COLUMN, "a name for SQL, of a-z, 0-9 and _");
        return [name, one(each, `${field}.${name}`)];
      }),
    );
  }

  number(value: unknown, field: string, least: number, most: number): number {
    if (typeof value !== "number" || !(value >= least && value <= most))
      return this.refuse(field, `a number from ${least} to ${most}`);
    return value;
  }

  task = (value: unknown, field: string): string => this.text(value, field, TASK, "SCENARIO/TASK");
  version = (value: unknown, field: string): string => this.text(value, field, VERSION, "a version");
  digest = (value: unknown, field: string): string => this.text(value, field, DIGEST, "a SHA-256 digest");

  files(value: unknown, field: string): TaskFile[] {
    const files = this.list(value, field, MOST_FILES, (each, at) => {
      const file = this.object(each, at, ["path", "sha256", "bytes"]);
      return {
        path: this.text(file.path, `${at}.path`, FILE, "a file's path"),
        sha256: this.digest(file.sha256, `${at}.sha256`),
        bytes: this.number(file.bytes, `${at}.bytes`, 0, 256_000_000),
      };
    });
    if (new Set(files.map(({ path }) => path)).size !== files.length)
      this.refuse(field, "free of repetitions");
    return files;
  }
}

export function readManifest(data: Uint8Array): Manifest {
  const reader = new Reader("the manifest", "publish the version again");
  const found = reader.object(reader.json(data), "it", ["format", "task", "version", "shared", "exclusive"]);
  reader.text(found.format, "format", /^tapml\.task\/1$/, "tapml.task/1: use an agent of the same tapml");
  return {
    task: reader.task(found.task, "task"),
    version: reader.version(found.version, "version"),
    shared: reader.files(found.shared, "shared"),
    exclusive: found.exclusive === null ? null : reader.digest(found.exclusive, "exclusive"),
  };
}

/** The files of a subject, whoever it is: the grant says that. `manifest`: whose they must be. */
export function readExclusive(data: Uint8Array, manifest: string): TaskFile[] {
  const reader = new Reader("the list of exclusive files", "publish the version again");
  const found = reader.object(reader.json(data), "it", ["format", "manifest", "subject", "files"]);
  reader.text(found.format, "format", /^tapml\.exclusive\/1$/, "tapml.exclusive/1");
  if (found.manifest !== manifest) reader.refuse("manifest", "the version's");
  return reader.files(found.files, "files");
}

export function readAnswer(data: Uint8Array): Answer {
  const reader = new Reader("the service's answer", "ask `tapml field serve`");
  const found = reader.json(data);
  return {
    install: reader.list(found.install, "install", 1000, (each, at) => {
      const offer = reader.object(each, at, null);
      return {
        task: reader.task(offer.task, `${at}.task`),
        version: reader.version(offer.version, `${at}.version`),
        manifest: reader.digest(offer.manifest, `${at}.manifest`),
        ...(offer.sampling !== undefined && {
          sampling: readSampling(reader, offer.sampling, `${at}.sampling`),
        }),
      };
    }),
    remove: reader.list(found.remove, "remove", 1000, (each, at) => reader.task(each, at)),
  };
}

function readSampling(reader: Reader, given: unknown, field: string): Sampling {
  const { runs, operators } = reader.object(given, field, ["runs", "operators"]);
  return {
    runs: reader.number(runs, `${field}.runs`, 0, 1),
    operators: reader.number(operators, `${field}.operators`, 0, 1),
  };
}

/** Of task.json. What it leaves out has its default: nothing starts it, and it may do nothing but compute. */
export function readConfiguration(data: Uint8Array): TaskConfiguration {
  const reader = new Reader("task.json", "docs/field.md says what is in it");
  const top = ["format", "main", "triggers", "schedule", "needs", "emits", "keeps"];
  const found = reader.object(reader.json(data), "it", top);
  reader.text(found.format, "format", /^tapml\.task-configuration\/1$/, "tapml.task-configuration/1");
  const needs = reader.object(found.needs ?? {}, "needs", ["network", "models", "seconds"]);
  const schedule = reader.object(found.schedule ?? {}, "schedule", ["every_seconds"]);
  return {
    main: reader.text(found.main ?? "main", "main", MODULE, "the name of a Python module"),
    triggers: reader.list(found.triggers ?? [], "triggers", 100, (each, at) => {
      const ids = reader.list(each, at, 32, (id, where) => reader.text(id, where, EVENT, "an event's id"));
      if (ids.length === 0) reader.refuse(at, "a list of events' ids");
      if (ids[0] === "**" || ids.at(-1) === "**") reader.refuse(at, "free of ** at its ends");
      return ids;
    }),
    schedule:
      found.schedule === undefined || found.schedule === null
        ? null
        : { every_seconds: reader.number(schedule.every_seconds, "schedule.every_seconds", 1, 86_400) },
    needs: {
      network: reader.list(needs.network ?? [], "needs.network", 16, (each, at) =>
        reader.text(each, at, /^https?:\/\/[^/\s?#@]+$/, "an origin, such as https://example.org"),
      ),
      models: reader.list(needs.models ?? [], "needs.models", 16, (each, at) =>
        reader.text(each, at, /^[A-Za-z0-9_][A-Za-z0-9_./+@-]*\/$/, "a folder's path with a / at its end"),
      ),
      seconds: reader.number(needs.seconds ?? 10, "needs.seconds", 0.01, 3600),
    },
    emits: reader.list(found.emits ?? [], "emits", 64, (each, at) => reader.text(each, at, NAME, "a name")),
    keeps: found.keeps === undefined || found.keeps === null ? null : readKeeps(reader, found.keeps),
  };
}

function readKeeps(reader: Reader, given: unknown): Keeps {
  const found = reader.object(given, "keeps", ["tables", "bytes", "buffer"]);
  const whole = (value: unknown, field: string, least: number, most: number): number =>
    Number.isInteger(value)
      ? reader.number(value, field, least, most)
      : reader.refuse(field, "a whole number");
  return {
    tables: reader.named(
      found.tables,
      "keeps.tables",
      16,
      (columns, table): Columns =>
        reader.named(columns, table, 64, (type, at) =>
          TYPES.includes(type as string)
            ? (type as ColumnType)
            : reader.refuse(at, `one of ${TYPES.join(", ")}`),
        ),
    ),
    bytes: whole(found.bytes ?? 10_000_000, "keeps.bytes", 100_000, 1_000_000_000),
    buffer: whole(found.buffer ?? 100, "keeps.buffer", 1, 10_000),
  };
}

/** Below 0 where `a` is the older one. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [a.split(".").map(Number), b.split(".").map(Number)];
  for (let i = 0; i < 4; i++) {
    const difference = (one[i] ?? 0) - (other[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
