// What triggers cost, and whether they are right: `node scripts/triggers.mjs [SEQUENCES]` (make bench-triggers).
import { runnerImport } from "vite";

const { Triggers } = (await runnerImport("./src/agent/events/triggers.ts")).module;
const { EventProcessor } = (await runnerImport("./src/agent/events/processor.ts")).module;
const { completes, drawer, drawnTrigger } = (await runnerImport("./src/testing/triggers.ts")).module;

const SEQUENCES = Number(process.argv[2] ?? 1_000_000);
const EVENTS = 100_000;
const ROUNDS = 5;
/** Triggers of which each is taken alone. */
const ONES = 10;

/** Triggers and a sequence of events drawn at random, as often as asked: how many events were held against brute force. */
function compared() {
  const draw = drawer(2022);
  const ids = ["a", "b", "c", "home", "item"];
  let events = 0;
  for (let sequence = 0; sequence < SEQUENCES; sequence++) {
    const drawn = new Map();
    const triggers = new Triggers();
    for (let at = 0; at < 1 + draw(4); at++) {
      drawn.set(`t${at}`, drawnTrigger(draw, ids, 5));
      triggers.add(`t${at}`, drawn.get(`t${at}`));
    }
    const happened = [];
    for (let at = 0; at < 8; at++, events++) {
      happened.push({ id: ids[draw(4)], page: ids[3 + draw(3)] ?? "other" });
      const expected = [...drawn].filter(([, one]) => completes(one, happened)).map(([name]) => name);
      const got = triggers.next(happened.at(-1));
      if (got.join() !== expected.sort().join())
        throw new Error(
          `${JSON.stringify([...drawn])} after ${JSON.stringify(happened)}: ${got}, not ${expected}`,
        );
    }
  }
  return events;
}

/** CPU microseconds of all `events`. */
function cost(triggers, events) {
  const before = process.cpuUsage();
  for (const event of events) triggers.next(event);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** The same of all that they cost a page: each is checked, and becomes part of the sequences, too. No task is started. */
function costOfPage(processor, events) {
  const before = process.cpuUsage();
  for (const event of events) processor.add(event);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

function median(values) {
  return values.sort((one, other) => one - other)[values.length >> 1];
}

/** Of so many triggers one has these wildcards, behind its first id and not at its end. */
function wild(sequence, { every, wildcards }, at) {
  return at % every === 0 ? [sequence[0], ...wildcards, ...sequence.slice(2)] : sequence;
}

function added(triggers, sequences) {
  for (const [at, sequence] of sequences.entries()) triggers.add(`t${at}`, sequence);
  return triggers;
}

function pageWith(sequences) {
  const processor = new EventProcessor(() => {});
  added(processor.triggers, sequences);
  return processor;
}

/** CPU microseconds an event of one, the mean of ten of them alone, and of all, side by side. */
function compare(made, cost, all, events) {
  const [many, ...ones] = [all, ...all.slice(0, ONES).map((one) => [one])].map(made);
  for (const one of [many, ...ones]) cost(one, events);
  const rounds = Array.from({ length: ROUNDS }, () => [
    ones.reduce((sum, one) => sum + cost(one, events), 0) / ones.length,
    cost(many, events),
  ]);
  return [0, 1].map((at) => median(rounds.map((round) => round[at])) / EVENTS);
}

/** CPU time of `count` triggers of 3 to 6 ids to that of one: of matching, and of all that an event costs; and how many fire. */
function ratio(count, ids, kind) {
  const draw = drawer(count);
  const events = Array.from({ length: EVENTS }, (_, at) => ({
    kind: "click",
    id: ids[draw(ids.length)],
    time: at,
    contents: {},
    page: kind?.pages ? PAGES[Math.floor(at / 20) % PAGES.length] : "home",
  }));
  const all = Array.from({ length: count }, (_, at) => {
    const sequence = Array.from({ length: 3 + draw(4) }, () => ids[draw(ids.length)]);
    if (kind?.pages && at % 2 === 0) sequence[0] = PAGES[draw(PAGES.length)];
    return kind === null ? sequence : wild(sequence, kind, at);
  });
  const [alone, together] = compare((sequences) => added(new Triggers(), sequences), cost, all, events);
  const [page, pageOfAll] = compare(pageWith, costOfPage, all, events);
  const triggers = added(new Triggers(), all);
  const fired = events.reduce((sum, event) => sum + triggers.next(event).length, 0) / EVENTS;
  const named = kind?.pages ? ", half of a page" : "";
  const what = kind === null ? "no wildcard" : `${kind.wildcards.join(" ")} in one of ${kind.every}${named}`;
  const shown = `${together.toFixed(3)} us an event against ${alone.toFixed(3)}, ${fired.toFixed(3)} fire`;
  const whole = `${(pageOfAll / page).toFixed(2)} x of the whole event (${pageOfAll.toFixed(3)} us, ${page.toFixed(3)})`;
  console.log(
    `${count} triggers, ${ids.length} ids, ${what}: ${whole}, ${(together / alone).toFixed(2)} x of matching (${shown})`,
  );
}

/** What is remembered where there is no end of what could be: triggers that begin anywhere and wait for long. */
function memory() {
  const draw = drawer(7);
  const ids = names(50);
  const triggers = new Triggers();
  for (let at = 0; at < 1_000; at++)
    triggers.add(
      `t${at}`,
      Array.from({ length: 12 }, (_, i) => (i > 0 && i < 11 && draw(2) === 0 ? "*" : ids[draw(50)])),
    );
  const events = Array.from({ length: EVENTS }, () => ({ id: ids[draw(50)], page: "home" }));
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  let most = 0;
  for (let round = 0; round < 20; round++) {
    cost(triggers, events);
    globalThis.gc?.();
    most = Math.max(most, process.memoryUsage().heapUsed - before);
  }
  const each = cost(triggers, events) / EVENTS;
  console.log(
    `1000 triggers of 12 ids, half of them *: ${each.toFixed(3)} us an event, at most ${(most / 1e6).toFixed(1)} MB`,
  );
}

const names = (count) => Array.from({ length: count }, (_, at) => `event${at}`);
const PAGES = names(10).map((name) => `page of ${name}`);
const kinds = [
  null,
  { every: 10, wildcards: ["*"], pages: true },
  ...[10, 2, 1].flatMap((every) =>
    [["*"], ["*", "*", "*"], ["**"]].map((wildcards) => ({ every, wildcards })),
  ),
];
for (const ids of [20, 200, 2000]) for (const kind of kinds) ratio(1_000, names(ids), kind);
ratio(10_000, names(200), null);
memory();
console.log(`${compared()} events of ${SEQUENCES} sequences: all as brute force says`);
