import { describePair } from "../program/bytes";
import type { ErrorReport } from "../protocol/messages";
import { DeviceFailure } from "./errors";
import { captureErrors } from "./scopes";
import { paddedBytes, sizeClass } from "./sizes";

/** Bytes of buffers that wait to be used again. */
const IDLE_BYTES = 256 << 20;

/** GPU memory of one size class; `id` is never used twice, so that caches cannot mistake it. */
interface Slot {
  readonly id: number;
  readonly gpu: GPUBuffer;
  /** Of making it, until the answer is there. */
  error: Promise<ErrorReport | null> | null;
  /** It could not be made. */
  bad: boolean;
}

/** A piece of GPU memory for one purpose at a time. */
export interface Buffer {
  readonly slot: Slot;
  readonly gpu: GPUBuffer;
  /** What is bound and copied: whole words, not the size class that may lie behind. */
  readonly bytes: number;
  /** Of making it, where that is not known to have gone well. */
  readonly error: Promise<ErrorReport | null> | null;
}

export interface BufferStatistics {
  live: number;
  liveBytes: number;
  idle: number;
  idleBytes: number;
}

/**
 * Storage buffers by size class: making one takes the GPU process a while, and the same sizes come again and again.
 * A freed buffer may be in use again at once: the queue keeps the order. What is written by the queue itself
 * (`writeBuffer`) must come after all that was recorded has been submitted (`Commands.submit`).
 */
export class Buffers {
  private readonly idle = new Map<number, Slot[]>();
  private idleBytes = 0;
  private live = 0;
  private liveBytes = 0;
  private next = 0;

  constructor(private readonly device: GPUDevice) {}

  /** With any content. Throws a DeviceFailure of kind "out-of-memory" for more than the device allows. */
  allocate(bytes: number): Buffer {
    const size = paddedBytes(bytes);
    const most = this.device.limits.maxBufferSize;
    if (size > most) throw new DeviceFailure({ kind: "out-of-memory", message: tooLarge(size, most) });
    const room = sizeClass(size, most);
    const known = this.idle.get(room)?.pop();
    if (known) this.idleBytes -= room;
    const slot = known ?? this.make(room);
    this.live++;
    this.liveBytes += room;
    return { slot, gpu: slot.gpu, bytes: size, error: slot.error };
  }

  free({ slot }: Buffer): void {
    const room = slot.gpu.size;
    this.live--;
    this.liveBytes -= room;
    if (slot.bad) {
      slot.gpu.destroy();
      return;
    }
    const slots = this.idle.get(room);
    if (slots) slots.push(slot);
    else this.idle.set(room, [slot]);
    this.idleBytes += room;
  }

  /** Gives back memory beyond what is worth keeping. Call when nothing recorded waits to be submitted. */
  trim(most = IDLE_BYTES): void {
    if (this.idleBytes <= most) return;
    for (const [room, slots] of [...this.idle].sort(([a], [b]) => b - a)) {
      while (this.idleBytes > most) {
        const slot = slots.pop();
        if (!slot) break;
        slot.gpu.destroy();
        this.idleBytes -= room;
      }
    }
  }

  get statistics(): BufferStatistics {
    const idle = [...this.idle.values()].reduce((sum, slots) => sum + slots.length, 0);
    return { live: this.live, liveBytes: this.liveBytes, idle, idleBytes: this.idleBytes };
  }

  private make(room: number): Slot {
    const captured = captureErrors(this.device);
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const gpu = this.device.createBuffer({ size: room, usage });
    const error = captured();
    const slot: Slot = { id: this.next++, gpu, error, bad: false };
    void error.then((found) => {
      slot.error = null;
      if (found) this.condemn(slot, room);
    });
    return slot;
  }

  /** One that could not be made is no good to anybody. */
  private condemn(slot: Slot, room: number): void {
    slot.bad = true;
    const slots = this.idle.get(room) ?? [];
    const place = slots.indexOf(slot);
    if (place < 0) return;
    slots.splice(place, 1);
    this.idleBytes -= room;
    slot.gpu.destroy();
  }
}

/** One sentence's end. */
export function tooLarge(bytes: number, most: number): string {
  const [wanted, allowed] = describePair(bytes, most);
  return `needs a buffer of ${wanted}, this device allows maxBufferSize ${allowed}`;
}

/** Buffers of one call together, in times of the largest that the device allows: it does not tell how much memory it has. */
const MOST_OF_A_CALL = 4;

/** What is wrong with buffers of these sizes all at once, as one sentence's end; null where nothing is. */
export function tooMuch(sizes: readonly number[], most: number): string | null {
  const [wanted, allowed] = [sizes.reduce((sum, bytes) => sum + bytes, 0), MOST_OF_A_CALL * most];
  if (wanted <= allowed) return null;
  const [needs, has] = describePair(wanted, allowed);
  return `needs buffers of ${needs} at once, more than the ${has} (${MOST_OF_A_CALL} times maxBufferSize) of one call`;
}
