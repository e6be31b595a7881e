/** One task's database: its tables as task.json declares them, and SQL of the task, which reaches nothing else. */
import type { Database, Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import type { Row } from "./messages";
import type { Columns, Found, Tables, Value } from "./types";

const PAGE = 4096;
const MOST_ROWS = 10_000;
const MOST_BYTES = 8_000_000;
/** Milliseconds of one statement; others wait for it. */
const MOST_TIME = 1000;
/** Steps of SQLite's machine between two looks at the clock. */
const STEPS = 10_000;

/** SQLite functions that give nothing but a value of their arguments. */
const FUNCTIONS = new Set(
  (
    "count sum total avg min max group_concat string_agg abs round sign length octet_length lower upper trim ltrim rtrim substr " +
    "substring instr replace like glob hex unhex quote typeof coalesce ifnull nullif iif if printf format char unicode concat " +
    "concat_ws random randomblob zeroblob likely unlikely likelihood changes last_insert_rowid total_changes date time datetime " +
    "julianday unixepoch strftime timediff acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log " +
    "log10 log2 mod pi pow power radians sin sinh sqrt tan tanh trunc json json_array json_array_length json_error_position " +
    "json_extract -> ->> json_insert json_object json_patch json_remove json_replace json_set json_type json_valid json_quote " +
    "json_group_array json_group_object row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value " +
    "nth_value"
  ).split(" "),
);
/** Tables that SQLite makes of an argument. */
const FUNCTION_TABLES = ["json_each", "json_tree"];

/** Of a file that is no database any more. */
export class Damaged extends Error {}

export class TaskDatabase {
  /** Whether a statement is the task's. */
  private asked = false;
  private deadline = 0;

  /** Throws Damaged, or an Error of SQLite. `bytes`: it gets no larger. */
  constructor(
    private readonly sqlite: Sqlite3Static,
    readonly db: Database,
    private readonly tables: Tables,
    bytes: number,
  ) {
    const { capi } = sqlite;
    db.exec("PRAGMA temp_store = memory; PRAGMA trusted_schema = off");
    this.check();
    this.declare();
    db.exec(`PRAGMA max_page_count = ${Math.floor(bytes / PAGE)}`);
    capi.sqlite3_db_config(db, capi.SQLITE_DBCONFIG_DEFENSIVE, 1, 0);
    const limits: [kind: Parameters<typeof capi.sqlite3_limit>[1], most: number][] = [
      [capi.SQLITE_LIMIT_LENGTH, 2_000_000],
      [capi.SQLITE_LIMIT_SQL_LENGTH, 100_000],
      [capi.SQLITE_LIMIT_EXPR_DEPTH, 100],
      [capi.SQLITE_LIMIT_COMPOUND_SELECT, 50],
      [capi.SQLITE_LIMIT_FUNCTION_ARG, 32],
      [capi.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000],
      [capi.SQLITE_LIMIT_VARIABLE_NUMBER, 1000],
      [capi.SQLITE_LIMIT_ATTACHED, 0],
    ];
    for (const [kind, most] of limits) capi.sqlite3_limit(db, kind, most);
    capi.sqlite3_set_authorizer(db, (_, action, first, second) => this.judge(action, first, second), 0);
    capi.sqlite3_progress_handler(
      db,
      STEPS,
      () => (this.asked && performance.now() > this.deadline ? 1 : 0),
      0,
    );
  }

  /** All rows or, where it throws, none. */
  write(rows: ReadonlyMap<string, readonly Row[]>): void {
    this.whole(() => {
      for (const [table, all] of rows) {
        const columns = Object.keys(this.tables[table] as Columns);
        const insert = this.db.prepare(
          `INSERT INTO ${quoted(table)} (${columns.map(quoted)}) VALUES (${columns.map(() => "?")})`,
        );
        try {
          for (const row of all) insert.bind([...row]).stepReset();
        } finally {
          insert.finalize();
        }
      }
    });
  }

  /** SQL of the task. Throws an Error with a sentence. */
  sql(text: string, values: readonly Value[]): Found {
    const { capi } = this.sqlite;
    const columns: string[] = [];
    const rows: Value[][] = [];
    const reals: number[] = [];
    let bytes = 0;
    this.deadline = performance.now() + MOST_TIME;
    this.asked = true;
    try {
      this.db.exec(text, {
        ...(values.length > 0 && { bind: [...values] }),
        columnNames: columns,
        rowMode: "stmt",
        callback: (row) => {
          if (rows.length >= MOST_ROWS)
            throw new Error(`it gives more than ${MOST_ROWS} rows: end it with a LIMIT`);
          const found = columns.map((_, i) => {
            const value = row.get(i) as Value;
            if (typeof value === "string") bytes += value.length;
            else bytes += value instanceof Uint8Array ? value.length : 8;
            if (Number.isInteger(value) && capi.sqlite3_column_type(row, i) === capi.SQLITE_FLOAT)
              reals.push(rows.length * columns.length + i);
            return value;
          });
          if (bytes > MOST_BYTES) throw new Error(`it gives more than ${MOST_BYTES} bytes: ask for less`);
          rows.push(found);
        },
      });
    } catch (cause) {
      throw new Error(said(cause, performance.now() > this.deadline));
    } finally {
      this.asked = false;
    }
    return { columns, rows, reals };
  }

  /** What `work` writes is there when it has ended, or nothing of it is. */
  private whole(work: () => void): void {
    this.db.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.db.exec("COMMIT");
    } catch (cause) {
      // A full disk has ended it already.
      if (this.sqlite.capi.sqlite3_get_autocommit(this.db) === 0) this.db.exec("ROLLBACK");
      throw cause;
    }
  }

  private check(): void {
    const { SQLITE_CORRUPT, SQLITE_NOTADB } = this.sqlite.capi;
    let found: unknown;
    try {
      found = this.db.selectValue("PRAGMA integrity_check(1)");
    } catch (cause) {
      const code = (cause as { resultCode?: number }).resultCode ?? 0;
      const kind = code & 255;
      if (kind !== SQLITE_CORRUPT && kind !== SQLITE_NOTADB) throw cause;
      throw new Damaged(said(cause));
    }
    if (found !== "ok") throw new Damaged(String(found));
  }

  /** The database gets the tables that are declared, and has no others. A column that is new is null in rows that are there. */
  private declare(): void {
    this.whole(() => {
      const names = this.db.selectValues(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
      ) as string[];
      for (const name of names)
        if (!Object.hasOwn(this.tables, name)) this.db.exec(`DROP TABLE ${quoted(name)}`);
      for (const [name, columns] of Object.entries(this.tables)) {
        const had = this.columnsOf(name);
        const wanted = Object.entries(columns);
        const same = ([column, type]: [string, string]): boolean => had.get(column) === type;
        if (had.size === wanted.length && wanted.every(same)) continue;
        const made = wanted.map(([column, type]) => `${quoted(column)} ${type.toUpperCase()}`);
        this.db.exec(`CREATE TABLE "new table" (${made}) STRICT`);
        const kept = wanted.filter(same).map(([column]) => quoted(column));
        if (kept.length > 0)
          this.db.exec(
            `INSERT INTO "new table" (${kept}) SELECT ${kept} FROM ${quoted(name)} ORDER BY rowid`,
          );
        if (had.size > 0) this.db.exec(`DROP TABLE ${quoted(name)}`);
        this.db.exec(`ALTER TABLE "new table" RENAME TO ${quoted(name)}`);
      }
    });
  }

  private columnsOf(table: string): Map<string, string> {
    const found = this.db.selectArrays("SELECT name, type FROM pragma_table_info(?)", [table]);
    return new Map(found.map(([name, type]) => [String(name), String(type).toLowerCase()]));
  }

  /** SQLite asks it of everything that a statement would do, when it is compiled. */
  private judge(action: number, first: unknown, second: unknown): number {
    const { capi } = this.sqlite;
    const allowed = (): boolean => {
      switch (action) {
        case capi.SQLITE_SELECT:
        case capi.SQLITE_RECURSIVE:
          return true;
        case capi.SQLITE_READ:
          // Of what no column is read, nothing is learnt but how many rows it has: SQLite so names subqueries, too.
          return second === "" || this.has(first) || FUNCTION_TABLES.includes(String(first));
        case capi.SQLITE_INSERT:
        case capi.SQLITE_UPDATE:
        case capi.SQLITE_DELETE:
          return this.has(first);
        case capi.SQLITE_FUNCTION:
          return FUNCTIONS.has(String(second).toLowerCase());
        default:
          return false;
      }
    };
    return !this.asked || allowed() ? capi.SQLITE_OK : capi.SQLITE_DENY;
  }

  private has(table: unknown): boolean {
    return typeof table === "string" && Object.hasOwn(this.tables, table);
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** What SQLite says, for people. */
export function said(cause: unknown, late = false): string {
  const message = (cause instanceof Error ? cause.message : String(cause)).replace(
    /^(?:SQLITE_\w+: )?sqlite3 result code \d+: /,
    "",
  );
  if (late && /interrupt/i.test(message)) return `it takes longer than ${MOST_TIME / 1000} s: ask for less`;
  if (/database or disk is full/.test(message))
    return "what the task may keep is full: delete rows, or declare more in task.json";
  return message.slice(0, 500);
}
