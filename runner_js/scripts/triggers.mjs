// What triggers cost, and whether they are right: `node scripts/triggers.mjs [SEQUENCES]` (make bench-triggers).
import { runnerImport } from "vite";

const { Triggers } = (await runnerImport("./src/agent/events/triggers.ts")).module;
const { completes, drawer, drawnTrigger } = (await runnerImport("./src/testing/triggers.ts")).module;

const SEQUENCES = Number(process.argv[2] ?? 1_000_000);
const EVENTS = 100_000;
const ROUNDS = 5;

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

function median(values) {
  return values.sort((one, other) => one - other)[values.length >> 1];
}

/** One in ten triggers, and not at its end: what any event could go on with is work that each event has. */
function wild(sequence, wildcard, at) {
  return at % 10 === 0 ? [sequence[0], wildcard, ...sequence.slice(2)] : sequence;
}

/** CPU time of `count` triggers of 3 to 6 ids to that of one, side by side, and how many fire. */
function ratio(count, ids, wildcard) {
  const draw = drawer(count);
  const events = Array.from({ length: EVENTS }, () => ({ id: ids[draw(ids.length)], page: "home" }));
  const all = Array.from({ length: count }, (_, at) => {
    const sequence = Array.from({ length: 3 + draw(4) }, () => ids[draw(ids.length)]);
    return wildcard === null ? sequence : wild(sequence, wildcard, at);
  });
  const made = (sequences) => {
    const triggers = new Triggers();
    for (const [at, sequence] of sequences.entries()) triggers.add(`t${at}`, sequence);
    return triggers;
  };
  const [one, many] = [made(all.slice(1, 2)), made(all)];
  cost(one, events);
  cost(many, events);
  const rounds = Array.from({ length: ROUNDS }, () => [cost(one, events), cost(many, events)]);
  const [alone, together] = [0, 1].map((at) => median(rounds.map((round) => round[at])) / EVENTS);
  const fired = events.reduce((sum, event) => sum + many.next(event).length, 0) / EVENTS;
  const what = wildcard === null ? "no wildcard" : `${wildcard} in one of ten`;
  const shown = `${together.toFixed(3)} us an event against ${alone.toFixed(3)}, ${fired.toFixed(3)} fire`;
  console.log(`${count} triggers, ${ids.length} ids, ${what}: ${(together / alone).toFixed(2)} x (${shown})`);
}

const names = (count) => Array.from({ length: count }, (_, at) => `event${at}`);
for (const ids of [20, 200]) for (const wildcard of [null, "*", "**"]) ratio(1_000, names(ids), wildcard);
ratio(10_000, names(200), null);
console.log(`${compared()} events of ${SEQUENCES} sequences: all as brute force says`);
