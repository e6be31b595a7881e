import { describe, expect, it } from "vitest";
import { compared } from "./elements";
import { floats } from "./fixture";
import { planeOf } from "./tensor";
import { linesBetween, type Workgroups, whereText, workgroupText } from "./workgroups";

type OfPlace = (row: number, column: number) => boolean;
const outputs = (shape: number[], wrong: OfPlace) => {
  const { rows, columns } = planeOf(shape);
  const at = (flat: number) => wrong(Math.floor(flat / columns) % rows, flat % columns);
  return compared(
    floats(shape, (flat) => (at(flat) ? 3 : 1)),
    floats(shape, () => 1),
    { absolute: 0.25, relative: 0 },
  );
};
const made = (grid: number[], count: number, of: (flat: number) => number): Workgroups => ({
  grid,
  numbers: Uint32Array.from({ length: count }, (_, flat) => of(flat)),
});

describe("where elements are wrong", () => {
  it("names the tile: the columns of one workgroup", () => {
    const found = outputs([1, 17, 384], (_, column) => column >= 96 && column < 128);
    const workgroups = made([1, 12, 1], 17 * 384, (flat) => Math.floor((flat % 384) / 32));
    expect(whereText(found, workgroups)).toBe(
      "Wrong elements are only in columns 96 to 127: workgroup y = 3.",
    );
    // Who computes what is not known.
    expect(whereText(found, null)).toBe("Wrong elements are only in columns 96 to 127.");
  });

  it("names workgroups of every grid: tiles of two axes, ranges, and stretches of a count", () => {
    const tiles = made([6, 10, 1], 40 * 48, (flat) => {
      const [row, column] = [Math.floor(flat / 48), flat % 48];
      return Math.floor(row / 4) * 6 + Math.floor(column / 8);
    });
    const text = (wrong: OfPlace, of = tiles) => whereText(outputs([40, 48], wrong), of);
    expect(text((row, column) => row >= 8 && row < 12 && column < 8)).toBe(
      "Wrong elements are only in columns 0 to 7 of rows 8 to 11: workgroup x = 0, y = 2.",
    );
    expect(text((row, column) => row >= 8 && row < 24 && column < 16)).toBe(
      "Wrong elements are only in columns 0 to 15 of rows 8 to 23: workgroups x = 0 to 1, y = 2 to 5.",
    );
    // Half of what a workgroup computes.
    expect(text((row) => row === 9)).toBe("Wrong elements are only in row 9: workgroups y = 2, in part.");
    // No rectangle of workgroups.
    expect(text((row, column) => row % 4 === 0 && column % 8 === 0 && row / 4 === column / 8)).toBe(
      "Wrong elements are only in every 8th column from 0 to 40 of every 4th row from 0 to 20: 6 of 60 workgroups, in part.",
    );
    const counting = made([30, 1, 1], 40 * 48, (flat) => Math.floor(flat / 64));
    const stretch = (row: number, column: number) => Math.floor((row * 48 + column) / 64) === 7;
    expect(text(stretch, counting)).toBe("Wrong elements are only in rows 9 to 10: workgroup x = 7.");
    expect(text((row, column) => (row + column) % 2 === 0, counting)).toBe(
      "There are wrong elements in every row and every column.",
    );
  });

  it("names none where one of the wrong elements is nobody's or several's", () => {
    for (const unknown of [0xffffffff, 0xfffffffe]) {
      const workgroups = made([4, 1, 1], 64, (flat) => (flat === 0 ? unknown : Math.floor(flat / 16)));
      const found = outputs([8, 8], (row) => row === 0);
      expect(whereText(found, workgroups)).toBe("Wrong elements are only in row 0.");
    }
  });

  it("says what is periodic, scattered, everywhere, nowhere", () => {
    const text = (wrong: OfPlace) => whereText(outputs([8, 16], wrong), null);
    expect(text((row, column) => column % 4 === 3 && row < 2)).toBe(
      "Wrong elements are only in every 4th column from 3 to 15 of rows 0 to 1.",
    );
    expect(text((_, column) => [1, 2, 7].includes(column))).toBe(
      "Wrong elements are only in columns 1, 2, 7.",
    );
    expect(text(() => true)).toBe("There are wrong elements in every row and every column.");
    expect(text(() => false)).toBe("No element is outside its bound in this run.");
  });

  it("names the same workgroup at the pointer", () => {
    const workgroups = made([6, 10, 2], 4, (flat) => [75, 0, 0xffffffff, 0xfffffffe][flat] ?? 0);
    expect(workgroupText(workgroups, 0)).toBe("workgroup x = 3, y = 2, z = 1");
    expect(workgroupText(workgroups, 2)).toContain("no workgroup");
    expect(workgroupText(workgroups, 3)).toContain("several workgroups");
    expect(workgroupText({ ...workgroups, grid: [1, 1, 1] }, 1)).toBe("the one workgroup");
  });
});

describe("lines between workgroups", () => {
  it("go round the elements of each, whatever their form", () => {
    const tiles = linesBetween(6, 8, 9, (row, column) => Math.floor(row / 3) * 2 + Math.floor(column / 4));
    expect(tiles).toEqual({
      horizontal: [{ row: 3, from: 0, to: 8 }],
      vertical: [{ column: 4, from: 0, to: 6 }],
    });
    // Stretches of 5 in rows of 8.
    const counted = linesBetween(2, 8, 9, (row, column) => Math.floor((row * 8 + column) / 5));
    expect(counted).toEqual({
      horizontal: [{ row: 1, from: 0, to: 8 }],
      vertical: [
        { column: 5, from: 0, to: 1 },
        { column: 2, from: 1, to: 2 },
        { column: 7, from: 1, to: 2 },
      ],
    });
  });

  it("are left out where they would cover what they divide", () => {
    const own = (row: number, column: number) => row * 100 + column;
    expect(linesBetween(100, 100, 2, own)).toBeNull();
    expect(linesBetween(100, 100, 6, own)).not.toBeNull();
    expect(linesBetween(100, 100, 1, (row) => Math.floor(row / 4))).not.toBeNull();
  });
});
