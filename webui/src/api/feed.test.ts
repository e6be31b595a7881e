import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { JobFeed } from "./feed";
import type { Job, JobEvent } from "./types";

const say = (text: string): JobEvent => ({ type: "message", level: "info", text });
const done: JobEvent = { type: "ended", state: "done", error: null };

/** A server with one job, and what the feed delivered of it. */
function setUp(log: JobEvent[] = []) {
  const got: string[] = [];
  const ended: Job[] = [];
  const problems: boolean[] = [];
  const fetchJob = vi.fn(async (job: string, after: number): Promise<Job> => {
    const over = log.some((event) => event.type === "ended");
    const state = over ? "done" : "running";
    const events = log.slice(after);
    return {
      job,
      kind: "validation",
      suite: "s",
      state,
      events,
      next: log.length,
      document: null,
      error: null,
    };
  });
  const feed = new JobFeed(
    { suite: "s", fetchJob, pollEvery: 100 },
    {
      job: () => got.push("job"),
      events: (events) =>
        got.push(...events.map((event) => (event.type === "message" ? event.text : event.type))),
      ended: (job) => ended.push(job),
      problem: (_, gone) => problems.push(gone),
    },
  );
  const emit = (event: JobEvent, suite = "s", job = "j") => {
    log.push(event);
    feed.receive({ job, suite, number: log.length - 1, event });
  };
  return { log, got, ended, problems, fetchJob, feed, emit };
}

it("reads on when an answer does not hold all events", async () => {
  const { got, ended, feed, fetchJob, log } = setUp([say("a"), say("b"), done]);
  const whole = fetchJob.getMockImplementation();
  fetchJob.mockImplementation(async (job, after) => {
    const answer = await whole?.(job, after);
    if (answer === undefined) throw new Error("no answer");
    const events = answer.events.slice(0, 1);
    return { ...answer, events, next: after + events.length };
  });
  feed.follow("j");
  await settle();
  await settle();
  await settle();
  expect(log).toHaveLength(3);
  expect(got).toEqual(["job", "a", "b", "ended"]);
  expect(ended).toHaveLength(1);
});

const settle = () => vi.advanceTimersByTimeAsync(0);
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("polls to the end when there is no socket", async () => {
  const { log, got, ended, feed, fetchJob } = setUp([say("a")]);
  feed.follow("j");
  await settle();
  log.push(say("b"));
  await vi.advanceTimersByTimeAsync(100);
  log.push(done);
  await vi.advanceTimersByTimeAsync(100);
  expect(got).toEqual(["job", "a", "b", "ended"]);
  expect(ended).toHaveLength(1);
  const asked = fetchJob.mock.calls.length;
  await vi.advanceTimersByTimeAsync(5000);
  expect(fetchJob).toHaveBeenCalledTimes(asked);
});

it("delivers the socket's events at once, each once", async () => {
  const { got, ended, feed, emit } = setUp([say("a")]);
  feed.setConnected(true);
  feed.follow("j");
  await settle();
  emit(say("b"));
  emit(say("c"));
  expect(got).toEqual(["job", "a", "b", "c"]);
  emit(done);
  await settle();
  expect(ended).toHaveLength(1);
  expect(got.filter((text) => text === "ended")).toHaveLength(1);
});

it("heals a gap over HTTP, in order", async () => {
  const { log, got, feed, emit } = setUp([say("a")]);
  feed.setConnected(true);
  feed.follow("j");
  await settle();
  log.push(say("lost"));
  emit(say("c"));
  await settle();
  expect(got).toEqual(["job", "a", "lost", "c"]);
});

it("ignores repeats and other suites", async () => {
  const { log, got, feed, emit } = setUp([say("a")]);
  feed.follow("j");
  await settle();
  feed.receive({ job: "j", suite: "s", number: 0, event: log[0] ?? done });
  feed.receive({ job: "j", suite: "other", number: 1, event: say("x") });
  emit(say("b"));
  expect(got).toEqual(["job", "a", "b"]);
});

it("joins a job that another page started", async () => {
  const { got, feed, emit, log } = setUp([say("a"), say("b")]);
  feed.setConnected(true);
  emit(say("c"), "s", "theirs");
  await settle();
  expect(log).toHaveLength(3);
  expect(got).toEqual(["job", "a", "b", "c"]);
});

it("goes on after a failed look-up, and stops when the job is gone", async () => {
  const { got, problems, feed, fetchJob } = setUp([say("a")]);
  fetchJob.mockRejectedValueOnce(new Error("no answer"));
  feed.follow("j");
  await vi.advanceTimersByTimeAsync(100);
  expect(problems).toEqual([false]);
  expect(got).toEqual(["job", "a"]);
  fetchJob.mockRejectedValueOnce(Object.assign(new Error("no such job"), { status: 404 }));
  await vi.advanceTimersByTimeAsync(100);
  expect(problems).toEqual([false, true]);
  const asked = fetchJob.mock.calls.length;
  await vi.advanceTimersByTimeAsync(5000);
  expect(fetchJob).toHaveBeenCalledTimes(asked);
});
