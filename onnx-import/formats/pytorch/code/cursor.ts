/** The place in the tokens of a file, which the parsers share. */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Token } from './tokens.ts';

const MAX_DEPTH = 300;

export class Cursor {
  readonly #tokens: readonly Token[];
  readonly #file: string;
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[], file: string) {
    this.#tokens = tokens;
    this.#file = file;
  }

  /** Runs a parser one level deeper. @throws bad_model when the code is nested too deep */
  nested<T>(parse: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw this.wrong(`is nested over ${MAX_DEPTH} times`);
    const made = parse();
    this.#depth -= 1;
    return made;
  }

  peek(ahead = 0): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)] as Token;
  }

  next(): Token {
    const token = this.peek();
    this.#at += 1;
    return token;
  }

  is(text: string): boolean {
    const { kind, text: own } = this.peek();
    return (kind === 'op' || kind === 'name') && own === text;
  }

  take(text: string): boolean {
    if (!this.is(text)) return false;
    this.#at += 1;
    return true;
  }

  expect(text: string): void {
    if (!this.take(text)) throw this.wrong(`expected "${text}"`);
  }

  kind(kind: Token['kind']): Token {
    if (this.peek().kind !== kind) throw this.wrong(`expected ${kind}`);
    return this.next();
  }

  wrong(what: string) {
    const { line, text, kind } = this.peek();
    return badModel(`${this.#file}:${line}: ${what}, found ${JSON.stringify(text || kind)}`);
  }
}
