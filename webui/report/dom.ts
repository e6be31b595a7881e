/** Elements from words: everything becomes text or an attribute, nothing is ever parsed as HTML. */

export type Child = Node | string | number | null | undefined | false;

type Attributes = Record<string, string | number | boolean | null | undefined>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Name and value pairs; those without a value are left out. */
export function facts(pairs: readonly (readonly [string, Child])[], className: string): HTMLElement {
  const list = el("dl", { class: `row ${className}` });
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === false || value === "") continue;
    list.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  }
  return list;
}
