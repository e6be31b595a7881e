import type { PageEvent } from "./event";
import { EventProcessor } from "./processor";

/** What an agent's task is to events. */
export interface TriggeredTask {
  readonly name: string;
  readonly configuration: { readonly triggers: readonly (readonly string[])[] };
  start(event: unknown): Promise<unknown>;
}

/** What an agent is to events; `Agent` of @tapml/agent is one. */
export interface TaskHolder {
  readonly tasks: ReadonlyMap<string, TriggeredTask>;
  on(kind: "installed" | "removed", listener: (task: TriggeredTask) => void): () => void;
}

/**
 * A processor whose events start the agent's tasks, those that it holds now and that it pulls later: by the triggers
 * of their configurations, with `{event, events}`: the event that completed one, and the stay on its page until then. A
 * task that several of its triggers start at one event runs once.
 */
export function startByEvents(agent: TaskHolder): EventProcessor {
  const tasks = new Map<string, TriggeredTask>();
  const processor = new EventProcessor((names, event) => {
    const started = new Set(names.map((name) => tasks.get(name)));
    const events = eventsOfVisit(processor, event);
    for (const task of started) void task?.start({ event, events });
  });
  const remove = ({ name }: TriggeredTask) => {
    for (const [trigger, task] of [...tasks]) {
      if (task.name !== name) continue;
      processor.triggers.remove(trigger);
      tasks.delete(trigger);
    }
  };
  const add = (task: TriggeredTask) => {
    remove(task); // a newer version of it
    for (const [at, sequence] of task.configuration.triggers.entries()) {
      processor.triggers.add(`${task.name} ${at}`, sequence);
      tasks.set(`${task.name} ${at}`, task);
    }
  };
  for (const task of agent.tasks.values()) add(task);
  agent.on("installed", add);
  agent.on("removed", remove);
  return processor;
}

function eventsOfVisit(processor: EventProcessor, event: PageEvent): readonly PageEvent[] {
  return processor.sequences.pages().findLast(({ events }) => events.includes(event))?.events ?? [];
}
