/**
 * Formulas as texts, such as `x * Sigmoid(x)`, so that what an operator means is data that one can read. Beside `+ - * /`
 * and comparisons they have ONNX's operators by name (`Where(x > 0, x, y)`), their attributes (`Mod(x, y, fmod=1)`), and
 * names for what is used twice (`half = x * 0.5; half * half`). Numbers have the dtype of the first value.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import type { Maker } from '../graph/layout.ts';
import type { Attribute, Value } from '../graph/value.ts';

/** A number, a name, or an operator. */
type Term = number | string | Operation;

interface Operation {
  readonly op: string;
  readonly terms: readonly Term[];
  readonly attributes: readonly (readonly [name: string, value: number | string])[];
}

/** The last has no name: it is the result. */
type Formula = readonly (readonly [name: string | undefined, term: Term])[];

/** By how closely they bind. */
const OPERATORS: readonly Readonly<Record<string, string>>[] = [
  { '<': 'Less', '<=': 'LessOrEqual', '>': 'Greater', '>=': 'GreaterOrEqual', '==': 'Equal' },
  { '+': 'Add', '-': 'Sub' },
  { '*': 'Mul', '/': 'Div' },
];

const TOKEN = /\s*(\d+(?:\.\d+)?(?:e-?\d+)?|\w+|[<>=]=|[-+*/<>=(),;])/gy;

class Parser {
  readonly #text: string;
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = Array.from(text.matchAll(TOKEN), ([, token = '']) => token);
  }

  formula(): Formula {
    const lines: [string | undefined, Term][] = [];
    do {
      const isNamed = this.#tokens[this.#at + 1] === '=';
      const name = isNamed ? this.#next() : undefined;
      if (isNamed) this.#expect('=');
      lines.push([name, this.#term(0)]);
    } while (this.#take(';'));
    if (this.#at < this.#tokens.length || this.#tokens.join('') !== this.#text.replaceAll(/\s/g, ''))
      throw this.#error();
    return lines;
  }

  #term(level: number): Term {
    const operators = OPERATORS[level];
    if (!operators) return this.#factor();
    let left = this.#term(level + 1);
    for (;;) {
      const op = operators[this.#tokens[this.#at] ?? ''];
      if (op === undefined) return left;
      this.#at += 1;
      left = { op, terms: [left, this.#term(level + 1)], attributes: [] };
    }
  }

  #factor(): Term {
    if (this.#take('-')) {
      const term = this.#factor();
      return typeof term === 'number' ? -term : { op: 'Neg', terms: [term], attributes: [] };
    }
    if (this.#take('(')) {
      const term = this.#term(0);
      this.#expect(')');
      return term;
    }
    const token = this.#next();
    if (/^\d/.test(token)) return Number(token);
    if (!/^\w/.test(token)) throw this.#error();
    return this.#take('(') ? this.#operation(token) : token;
  }

  #operation(op: string): Operation {
    const [terms, attributes]: [Term[], [string, number | string][]] = [[], []];
    do {
      if (this.#tokens[this.#at + 1] === '=') {
        const name = this.#next();
        this.#expect('=');
        const value = this.#factor();
        if (typeof value === 'object') throw this.#error();
        attributes.push([name, value]);
      } else terms.push(this.#term(0));
    } while (this.#take(','));
    this.#expect(')');
    return { op, terms, attributes };
  }

  #take(token: string): boolean {
    const isNext = this.#tokens[this.#at] === token;
    if (isNext) this.#at += 1;
    return isNext;
  }

  #next(): string {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw this.#error();
    this.#at += 1;
    return token;
  }

  #expect(token: string): void {
    if (!this.#take(token)) throw this.#error();
  }

  #error(): ServingError {
    return new ServingError('internal', `not a formula at token ${this.#at}: ${this.#text}`);
  }
}

const PARSED = new Map<string, Formula>();

function parse(text: string): Formula {
  const known = PARSED.get(text) ?? new Parser(text).formula();
  PARSED.set(text, known);
  return known;
}

export type Operands = Readonly<Record<string, Value | number>>;

/**
 * Adds the operations of a formula.
 * @param given what its names stand for; the first is a value
 * @param parameterOf reads what is not given: a parameter of the source
 */
export function compute(
  node: Pick<Maker, 'g' | 'one'>,
  text: string,
  given: Operands,
  parameterOf: (name: string) => number = (name) => unknown(name, text),
): Value {
  const values = new Map(Object.entries(given));
  const named = (name: string): Value | number => {
    const value = values.get(name) ?? parameterOf(name);
    values.set(name, value);
    return value;
  };
  const dtype = Object.values(given).find((each) => typeof each !== 'number')?.dtype ?? 'float32';
  const valueOf = (term: Term): Value => {
    if (typeof term === 'number') return node.g.scalar(dtype, term);
    if (typeof term === 'string') {
      const value = named(term);
      return typeof value === 'number' ? node.g.scalar(dtype, value) : value;
    }
    const inputs = term.terms.map(valueOf);
    return node.one(term.op, inputs, Object.fromEntries(term.attributes.map(attributeOf)));
  };
  /** A name stands for a float, a number in the formula for an int. */
  const attributeOf = ([name, value]: readonly [string, number | string]): [string, Attribute] => {
    if (typeof value === 'number') return [name, value];
    const float = named(value);
    return typeof float === 'number' ? [name, { float }] : unknown(value, text);
  };
  let result: Value | undefined;
  for (const [name, term] of parse(text)) {
    result = valueOf(term);
    if (name !== undefined) values.set(name, result);
  }
  return result as Value;
}

function unknown(name: string, text: string): never {
  throw new ServingError('internal', `${name} is not known in ${text}`);
}

/** A table of rules, from the names of a source: `Sqrt`, or `Inv:Reciprocal` where ONNX has another name. */
export function namedRules<Rule>(names: string, rule: (op: string) => Rule): Readonly<Record<string, Rule>> {
  return Object.fromEntries(
    names.split(' ').map((each) => {
      const [name = '', op = name] = each.split(':');
      return [name, rule(op)];
    }),
  );
}

/** What several sources have under some name, as formulas of x and y. */
export const FORMULAS = {
  gelu: 'x * 0.5 * (Erf(x * 0.7071067811865476) + 1)',
  tanhGelu: 'x * 0.5 * (Tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1)',
  swish: 'x * Sigmoid(x)',
  mish: 'x * Tanh(Softplus(x))',
  logSigmoid: '-Softplus(-x)',
  tanhShrink: 'x - Tanh(x)',
  square: 'x * x',
  rsqrt: 'Reciprocal(Sqrt(x))',
  erfc: '1 - Erf(x)',
  isFinite: 'Not(Or(IsNaN(x), IsInf(x)))',
  squaredDifference: 'apart = x - y; apart * apart',
  /** The remainder has the sign of the divisor. For fractions only: of whole numbers Mod does it. */
  floorMod: 'x - Floor(x / y) * y',
  /** The sum loses the low digits of x; x / (sum - 1) corrects for that. */
  log1p: 'sum = x + 1; log = Log(sum); Where(x > 1, log, Where(sum == 1, x, log * (x / (sum - 1))))',
  /** Corrected in the same way. */
  expm1:
    'power = Exp(x); rest = power - 1; Where(Abs(x) > 1, rest, Where(power == 1, x, rest * (x / Log(power))))',
  /** Rounds half away from zero, for numbers that are not negative. */
  halfUp: 'Floor(x + 0.5)',
} as const;
