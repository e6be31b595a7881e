/** Sizes as people write them, `ceildiv(n, 64) * 12`: what `printed` of runner_js writes is read again. */

import { checkedExpression, type Expression } from "../../../runner_js/src/program/expressions";

const SIGNS: Record<string, string> = { "+": "add", "-": "sub", "*": "mul" };
const TOKEN = /\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*(),]))/y;

/** Throws an Error with a sentence for what is none. */
export function expressionOf(text: string): Expression {
  const tokens = tokensOf(text);
  let at = 0;
  const take = (wanted?: string): string => {
    const token = tokens[at];
    if (token === undefined) throw new Error(`${wanted ?? "something"} is missing at the end`);
    if (wanted !== undefined && token !== wanted) throw new Error(`${wanted} is missing before ${token}`);
    at += 1;
    return token;
  };
  const operand = (): Expression => {
    const token = take();
    if (/^\d/.test(token)) return Number(token);
    if (token === "-") {
      const value = operand();
      return typeof value === "number" ? -value : ["sub", 0, value];
    }
    if (token === "(") {
      const inner = sum();
      take(")");
      return inner;
    }
    if (!/^\w/.test(token)) throw new Error(`a size is missing before ${token}`);
    if (tokens[at] !== "(") return token;
    take("(");
    const a = sum();
    take(",");
    const b = sum();
    take(")");
    return [token, a, b];
  };
  const chain = (next: () => Expression, signs: string): Expression => {
    let found = next();
    while (signs.includes(tokens[at] ?? "none")) found = [SIGNS[take()] ?? "", found, next()];
    return found;
  };
  const product = () => chain(operand, "*");
  const sum = (): Expression => chain(product, "+-");
  const found = sum();
  if (at < tokens.length) throw new Error(`${tokens[at]} is one too many`);
  return checkedExpression(found);
}

function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  const real = /(?<![\w.])\d+(\.\d*|\.?\d*e[-+]?\d+)/i.exec(text);
  if (real !== null) throw new Error(`${real[0]} is no whole number: a size is one`);
  const end = text.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const from = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (found === null) throw new Error(`${text.slice(from).trim()[0]} means nothing in a size`);
    tokens.push(found[1] ?? found[2] ?? found[3] ?? "");
  }
  return tokens;
}
