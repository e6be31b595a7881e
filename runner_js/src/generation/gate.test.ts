import { expect, it } from "vitest";
import { Gate } from "./gate";

it("lets work go side by side, and waits for all of it before what is done alone, and that for each other", async () => {
  const gate = new Gate();
  const told: string[] = [];
  const work = (name: string) => async () => {
    told.push(`${name} begins`);
    for (let i = 0; i < 5; i++) await null;
    told.push(`${name} ends`);
    if (name === "c") throw new Error(name);
    return name;
  };
  const a = gate.beside(work("a"));
  const b = gate.beside(work("b"));
  const c = gate.alone(work("c"));
  const others = [gate.beside(work("d")), gate.alone(work("e")), gate.alone(work("f"))];
  await expect(c).rejects.toThrow("c");
  expect(await Promise.all([a, b, ...others])).toEqual(["a", "b", "d", "e", "f"]);
  expect(told.slice(0, 6)).toEqual(["a begins", "b begins", "a ends", "b ends", "c begins", "c ends"]);
  for (const alone of ["c", "e", "f"])
    expect(told.indexOf(`${alone} ends`)).toBe(told.indexOf(`${alone} begins`) + 1);
});
