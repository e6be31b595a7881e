import type { Progress, Reply } from "../protocol/messages";

type Unnumbered<T> = Omit<T, "call" | "number">;

/** Of what cannot be sent in one message, this much is told. */
const MAX_CHARACTERS = 12_000_000;

/**
 * The messages of one call, numbered. All are kept until the server is known to have them: after a broken connection
 * those it lacks are sent again.
 */
export class Outbox {
  private readonly messages: { event: "progress" | "reply"; message: Progress | Reply }[] = [];
  ended = false;

  constructor(
    private readonly call: string,
    private readonly emit: (event: "progress" | "reply", message: Progress | Reply) => void,
  ) {}

  progress(progress: Progress["progress"]): void {
    this.put("progress", { call: this.call, number: this.messages.length, progress });
  }

  reply(reply: Unnumbered<Reply>): void {
    this.ended = true;
    let message: Reply = { call: this.call, number: this.messages.length, ...reply };
    if (JSON.stringify(message).length > MAX_CHARACTERS) {
      const error = { kind: "protocol" as const, message: "the reply is too large for one message" };
      message = { call: this.call, number: message.number, ok: false, error };
    }
    this.put("reply", message);
  }

  /** Sends again what is missing: the server has this many. */
  resend(received: number): void {
    for (const { event, message } of this.messages.slice(received)) this.emit(event, message);
  }

  private put(event: "progress" | "reply", message: Progress | Reply): void {
    this.messages.push({ event, message });
    this.emit(event, message);
  }
}
