/**
 * Sizes that are not known during conversion, as polynomials of the inputs' free sizes: 64*N, N*M+1. A tensor's free
 * dimension is named by its polynomial, so equal sizes have equal names through the whole graph. A size that is no
 * polynomial (a rounded quotient) is an atom of its own. All free sizes are taken to be at least 1.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import type { Dim, Value } from '../../../graph/value.ts';

const MAX_TERMS = 64;

export type Int = number | Expr;

/** A polynomial: factors by the product's sorted atoms. */
export class Expr {
  readonly terms: ReadonlyMap<string, Term>;
  readonly name: string;
  constructor(terms: ReadonlyMap<string, Term>) {
    this.terms = terms;
    this.name = nameOf(terms);
  }
}

interface Term {
  readonly factor: number;
  readonly atoms: readonly string[];
}

function nameOf(terms: ReadonlyMap<string, Term>): string {
  const parts = [...terms.values()]
    .sort((a, b) => b.atoms.length - a.atoms.length || (a.atoms.join('*') < b.atoms.join('*') ? -1 : 1))
    .map(({ factor, atoms }) => {
      const names = atoms.join('*');
      if (names === '') return String(factor);
      return factor === 1 ? names : factor === -1 ? `-${names}` : `${factor}*${names}`;
    });
  return parts.join('+').replaceAll('+-', '-');
}

function termsOf(value: Int): ReadonlyMap<string, Term> {
  if (typeof value !== 'number') return value.terms;
  return new Map(value === 0 ? [] : [['', { factor: value, atoms: [] }]]);
}

function made(terms: Map<string, Term>): Int {
  for (const [key, { factor }] of terms) if (factor === 0) terms.delete(key);
  if (terms.size === 0) return 0;
  const only = terms.get('');
  if (only && terms.size === 1) return only.factor;
  if (terms.size > MAX_TERMS) throw badModel(`a size has over ${MAX_TERMS} terms`);
  return new Expr(terms);
}

export function add(a: Int, b: Int): Int {
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  const terms = new Map(termsOf(a));
  for (const [key, term] of termsOf(b))
    terms.set(key, { factor: term.factor + (terms.get(key)?.factor ?? 0), atoms: term.atoms });
  return made(terms);
}

export function multiply(a: Int, b: Int): Int {
  if (typeof a === 'number' && typeof b === 'number') return a * b;
  const terms = new Map<string, Term>();
  for (const one of termsOf(a).values())
    for (const other of termsOf(b).values()) {
      const atoms = [...one.atoms, ...other.atoms].sort();
      const key = atoms.join('*');
      terms.set(key, { factor: one.factor * other.factor + (terms.get(key)?.factor ?? 0), atoms });
    }
  return made(terms);
}

export function subtract(a: Int, b: Int): Int {
  return add(a, multiply(b, -1));
}

export function product(sizes: readonly Int[]): Int {
  return sizes.reduce<Int>(multiply, 1);
}

/** The exact quotient, if there is one. */
function quotient(a: Int, b: Int): Int | undefined {
  const [divisor, ...more] = termsOf(b).values();
  if (!divisor || more.length > 0) return undefined;
  const terms = new Map<string, Term>();
  for (const { factor, atoms } of termsOf(a).values()) {
    const left = [...atoms];
    for (const atom of divisor.atoms) {
      const at = left.indexOf(atom);
      if (at < 0) return undefined;
      left.splice(at, 1);
    }
    if (factor % divisor.factor !== 0) return undefined;
    terms.set(left.join('*'), { factor: factor / divisor.factor, atoms: left });
  }
  return made(terms);
}

/** Where an atom's number comes from while the model runs. */
type Source =
  | { readonly value: Value; readonly axis: number }
  | { readonly op: 'floor' | 'max' | 'min'; readonly a: Int; readonly b: Int };

/** A size the model's control flow or shapes need, which follows a free size of the inputs. */
export class SizeBound extends Error {}

export class Sizes {
  readonly #known = new Map<string, Int>();
  readonly #sources = new Map<string, Source>();
  /** One map for each graph that is being built, outermost first. */
  readonly #made: Map<string, Value>[] = [new Map()];

  /** The size that a dimension's name means; `value` is a tensor that has it. */
  of(dim: Dim, value?: Value, axis = 0): Int {
    if (typeof dim === 'number') return dim;
    const known = this.#known.get(dim);
    if (known !== undefined) return known;
    if (!value) throw badModel(`the size ${dim} is not known`);
    return this.#atom(dim, { value, axis });
  }

  #atom(name: string, source: Source): Int {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const atom = new Expr(new Map([[name, { factor: 1, atoms: [name] }]]));
    this.#known.set(name, atom);
    this.#sources.set(name, source);
    return atom;
  }

  dim(size: Int): Dim {
    if (typeof size === 'number') return size;
    this.#known.set(size.name, size);
    return size.name;
  }

  /** Rounds toward negative infinity, as Python does. */
  divide(a: Int, b: Int): Int {
    if (b === 0) throw badModel('divides a size by zero');
    if (typeof a === 'number' && typeof b === 'number') return Math.floor(a / b);
    return quotient(a, b) ?? this.#atom(`floor(${textOf(a)}/${textOf(b)})`, { op: 'floor', a, b });
  }

  remainder(a: Int, b: Int): Int {
    if (typeof a === 'number' && typeof b === 'number' && b !== 0) return a - Math.floor(a / b) * b;
    return subtract(a, multiply(this.divide(a, b), b));
  }

  extreme(op: 'max' | 'min', a: Int, b: Int): Int {
    const sign = this.sign(subtract(a, b));
    if (sign !== undefined) return sign > 0 === (op === 'max') ? a : b;
    return this.#atom(`${op}(${textOf(a)},${textOf(b)})`, { op, a, b });
  }

  /** -1, 0 or 1; undefined when it follows the free sizes. */
  sign(value: Int): -1 | 0 | 1 | undefined {
    if (typeof value === 'number') return Math.sign(value) as -1 | 0 | 1;
    for (const sign of [1, -1] as const) {
      let least = 0;
      let isBounded = true;
      for (const { factor, atoms } of value.terms.values()) {
        const signed = sign * factor;
        if (signed < 0 && atoms.length > 0) isBounded = false;
        const isZero = atoms.some((atom) => atom.startsWith('floor(') || atom.startsWith('min('));
        least += isZero && atoms.length > 0 ? 0 : signed;
      }
      if (isBounded && least > 0) return sign;
    }
    return undefined;
  }

  /** @throws SizeBound when the answer follows the free sizes */
  compare(a: Int, b: Int): -1 | 0 | 1 {
    const sign = this.sign(subtract(a, b));
    if (sign === undefined) throw new SizeBound(`the model compares ${textOf(a)} with ${textOf(b)}`);
    return sign;
  }

  equal(a: Int, b: Int): boolean {
    return this.compare(a, b) === 0;
  }

  /** Starts the graph of a branch, whose values end with it. */
  enter(): void {
    this.#made.push(new Map());
  }

  leave(): void {
    this.#made.pop();
  }

  /** The size as a value of rank 0, computed by the graph. */
  value(g: GraphBuilder, size: Int): Value {
    if (typeof size === 'number') return g.scalar('int64', size);
    const same = this.#made.find((values) => values.has(size.name))?.get(size.name);
    if (same) return same;
    const parts = [...size.terms.values()].map(({ factor, atoms }) => {
      const factors = atoms.map((atom) => this.#atomValue(g, atom));
      const own = factor === 1 && factors.length > 0 ? factors : [...factors, g.scalar('int64', factor)];
      return own.reduce((a, b) => g.one('Mul', [a, b]));
    });
    const sum = parts.reduce((a, b) => g.one('Add', [a, b]));
    const named = { ...sum, elements: [this.dim(size)] };
    this.#made.at(-1)?.set(size.name, named);
    return named;
  }

  #atomValue(g: GraphBuilder, atom: string): Value {
    const source = this.#sources.get(atom);
    if (!source) throw badModel(`the size ${atom} is not known`);
    if ('value' in source) {
      const { value, axis } = source;
      const shape = g.one('Shape', [value], { start: axis, end: axis + 1 }, 'size');
      return g.one('Squeeze', [shape], {}, 'size');
    }
    const [a, b] = [this.value(g, source.a), this.value(g, source.b)];
    if (source.op === 'max') return g.one('Max', [a, b]);
    if (source.op === 'min') return g.one('Min', [a, b]);
    // ONNX truncates; Mod has the sign of the divisor.
    return g.one('Div', [g.one('Sub', [a, g.one('Mod', [a, b])]), b]);
  }

  /** Sizes as a list of int64, for Reshape and the like. */
  list(g: GraphBuilder, sizes: readonly Int[]): Value {
    if (sizes.every((size) => typeof size === 'number')) return g.ints(sizes);
    const parts = sizes.map((size) =>
      typeof size === 'number'
        ? g.ints([size])
        : { ...g.one('Unsqueeze', [this.value(g, size), g.ints([0])]), elements: [this.dim(size)] },
    );
    const all = parts.length === 1 ? (parts[0] as Value) : g.one('Concat', parts, { axis: 0 });
    return { ...all, elements: sizes.map((size) => this.dim(size)) };
  }
}

export function textOf(size: Int): string {
  return typeof size === 'number' ? String(size) : size.terms.size > 1 ? `(${size.name})` : size.name;
}
