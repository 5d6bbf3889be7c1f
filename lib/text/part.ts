/** Reads a part of tokenizer.json. Errors name its place in the file, and every list has a limit. */

import { isObject } from '../codecs/instances.ts';
import { badModel, type ServingError } from '../contract/errors.ts';
import { isCount } from '../contract/present.ts';

export const TOKENIZER_FILE = 'tokenizer.json';

/** Levels of parts within parts. */
const MAX_DEPTH = 8;
/** Parts of one sequence. */
const MAX_PARTS = 64;

export function refused(place: string, why: string): ServingError {
  return badModel(`${TOKENIZER_FILE}: ${place}: ${why}`);
}

/** @param whole what the file is, where it has another name */
export function objectOf(value: unknown, place: string): Readonly<Record<string, unknown>> {
  if (isObject(value)) return value;
  throw refused(place, 'expected an object');
}

export class Part {
  readonly place: string;
  readonly #depth: number;
  readonly #value: Readonly<Record<string, unknown>>;

  constructor(value: unknown, place: string, depth = 0) {
    if (depth > MAX_DEPTH) throw refused(place, `more than ${MAX_DEPTH} levels of parts`);
    this.#value = objectOf(value, place);
    this.place = place;
    this.#depth = depth;
  }

  get type(): string {
    return this.text('type');
  }

  raw(name: string): unknown {
    return this.#value[name];
  }

  text(name: string, fallback?: string): string {
    return this.#read(name, 'string', fallback) as string;
  }

  bool(name: string, fallback?: boolean): boolean {
    return this.#read(name, 'boolean', fallback) as boolean;
  }

  /** A whole number from 0. */
  count(name: string, fallback?: number): number {
    const value = this.#value[name] ?? fallback;
    if (isCount(value)) return value;
    throw this.refused(`${name}: expected a whole number`);
  }

  oneOf<T extends string>(name: string, choices: readonly T[], fallback?: T): T {
    const value = this.text(name, fallback);
    const found = choices.find((choice) => choice === value);
    if (found !== undefined) return found;
    throw this.refused(`${name}: expected one of ${choices.join(', ')}`);
  }

  list(name: string, most: number): readonly unknown[] {
    const value = this.#value[name];
    if (!Array.isArray(value)) throw this.refused(`${name}: expected a list`);
    if (value.length > most)
      throw this.refused(`${name}: ${value.length} entries are over the limit of ${most}`);
    return value;
  }

  /** The parts of a sequence. */
  parts(name: string): Part[] {
    return this.list(name, MAX_PARTS).map((value, i) => this.#inner(value, `${name}[${i}]`));
  }

  part(name: string): Part {
    return this.#inner(this.#value[name], name);
  }

  /** Undefined for null. */
  optional(name: string): Part | undefined {
    return (this.#value[name] ?? null) === null ? undefined : this.part(name);
  }

  refused(why: string): ServingError {
    return refused(this.place, why);
  }

  /** The error of a part that is not served as Hugging Face's tokenizers would. */
  unknown(): ServingError {
    return this.refused(
      `${JSON.stringify(this.type).slice(0, 60)} is not served; export the model with a tokenizer without it, or remove ${TOKENIZER_FILE} to send token ids`,
    );
  }

  #inner(value: unknown, name: string): Part {
    return new Part(value, `${this.place}.${name}`, this.#depth + 1);
  }

  #read(name: string, type: 'string' | 'boolean', fallback: unknown): unknown {
    const value = this.#value[name] ?? fallback;
    if (typeof value === type) return value;
    throw this.refused(`${name}: expected a ${type === 'string' ? 'text' : 'boolean'}`);
  }
}
