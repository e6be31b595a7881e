/** Who uses a model's states, one behind the other, and who computes lost ones anew while nobody else does. */
import { Gate } from "./gate";

/** By model, the work that is done with its states: who fills them does so without another between. */
const TURNS = new WeakMap<object, Promise<unknown>>();
/** All writers': their states may be in each other's way. */
export const GATE = new Gate();

/** What is done with the states of a model, behind what others do with them. */
export function turnOf<T>(model: object, work: () => Promise<T>): Promise<T> {
  const before = TURNS.get(model);
  const turn = (async () => {
    await before?.catch(() => {});
    return work();
  })();
  TURNS.set(model, turn);
  return turn;
}
