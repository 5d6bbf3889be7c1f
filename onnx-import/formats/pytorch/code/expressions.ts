/** Parses expressions and assignment targets of the Python subset. */
import type { Argument, Expression, Target } from './ast.ts';
import type { Cursor } from './cursor.ts';

/** Binary operators, weakest first. */
const LEVELS: readonly (readonly string[])[] = [
  ['or'],
  ['and'],
  ['<', '>', '<=', '>=', '==', '!=', 'is', 'in', 'not'],
  ['|'],
  ['^'],
  ['&'],
  ['<<', '>>'],
  ['+', '-'],
  ['*', '/', '//', '%', '@'],
];

export class Expressions {
  readonly #cursor: Cursor;

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
  }

  target(end: string): Target {
    const parts = [end === 'in' ? this.#postfix() : this.expression()];
    let isTuple = false;
    while (this.#cursor.take(',')) {
      isTuple = true;
      if (!this.#cursor.is(end)) parts.push(end === 'in' ? this.#postfix() : this.expression());
    }
    return { parts, isTuple };
  }

  /** An expression, or several with commas between them. */
  tuple(): Expression {
    const first = this.expression();
    if (!this.#cursor.is(',')) return first;
    const items = [first];
    while (this.#cursor.take(','))
      if (!this.#cursor.is('=') && this.#cursor.peek().kind !== 'newline') items.push(this.expression());
    return { kind: 'tuple', items };
  }

  expression(): Expression {
    return this.#cursor.nested(() => {
      const value = this.#binary(0);
      if (!this.#cursor.take('if')) return value;
      const test = this.#binary(0);
      this.#cursor.expect('else');
      return { kind: 'choice', test, yes: value, no: this.expression() };
    });
  }

  #binary(level: number): Expression {
    const words = LEVELS[level];
    if (!words) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const { kind, text } = this.#cursor.peek();
      if ((kind !== 'op' && kind !== 'name') || !words.includes(text)) return left;
      this.#cursor.next();
      let op = text;
      if (text === 'not') {
        this.#cursor.expect('in');
        op = 'not in';
      } else if (text === 'is' && this.#cursor.take('not')) op = 'is not';
      left = { kind: 'operator', op, operands: [left, this.#binary(level + 1)] };
    }
  }

  #unary(): Expression {
    for (const op of ['-', '+', '~', 'not'])
      if (this.#cursor.take(op)) {
        const operand = this.#cursor.nested(() => (op === 'not' ? this.#binary(2) : this.#unary()));
        if (op === '-' && operand.kind === 'constant' && typeof operand.value === 'number')
          return { kind: 'constant', value: -operand.value };
        if (op === '-' && operand.kind === 'float') return { kind: 'float', value: -operand.value };
        return { kind: 'operator', op: `unary ${op}`, operands: [operand] };
      }
    const base = this.#postfix();
    return this.#cursor.take('**') ? { kind: 'operator', op: '**', operands: [base, this.#unary()] } : base;
  }

  #postfix(): Expression {
    let value = this.#atom();
    for (;;) {
      const { line } = this.#cursor.peek();
      if (this.#cursor.take('.'))
        value = { kind: 'attribute', of: value, name: this.#cursor.kind('name').text };
      else if (this.#cursor.take('(')) value = { kind: 'call', callee: value, args: this.#arguments(), line };
      else if (this.#cursor.take('[')) {
        const index = this.tuple();
        this.#cursor.expect(']');
        value = { kind: 'subscript', of: value, index };
      } else return value;
    }
  }

  #arguments(): Argument[] {
    const args: Argument[] = [];
    while (!this.#cursor.take(')')) {
      const isNamed =
        this.#cursor.peek().kind === 'name' &&
        this.#cursor.peek(1).text === '=' &&
        this.#cursor.peek(1).kind === 'op';
      const name = isNamed ? this.#cursor.next().text : undefined;
      if (isNamed) this.#cursor.expect('=');
      const value = this.expression();
      args.push(name === undefined ? { value } : { name, value });
      if (!this.#cursor.take(',') && !this.#cursor.is(')')) throw this.#cursor.wrong('expected ")"');
    }
    return args;
  }

  #list(end: string): { items: Expression[]; commas: number } {
    const items: Expression[] = [];
    let commas = 0;
    while (!this.#cursor.take(end)) {
      items.push(this.expression());
      if (this.#cursor.take(',')) commas += 1;
      else if (!this.#cursor.is(end)) throw this.#cursor.wrong(`expected "${end}"`);
    }
    return { items, commas };
  }

  #atom(): Expression {
    const { kind, text } = this.#cursor.peek();
    if (kind === 'int') return { kind: 'constant', value: Number(this.#cursor.next().text) };
    if (kind === 'float') return { kind: 'float', value: Number(this.#cursor.next().text) };
    if (kind === 'text') {
      let value = '';
      while (this.#cursor.peek().kind === 'text') value += this.#cursor.next().text;
      return { kind: 'constant', value };
    }
    if (kind === 'name') {
      this.#cursor.next();
      if (text === 'None') return { kind: 'constant', value: null };
      if (text === 'True' || text === 'False') return { kind: 'constant', value: text === 'True' };
      return { kind: 'name', name: text };
    }
    if (this.#cursor.take('(')) {
      const { items, commas } = this.#list(')');
      const [only] = items;
      return only && commas === 0 ? only : { kind: 'tuple', items };
    }
    if (this.#cursor.take('[')) return { kind: 'list', items: this.#list(']').items };
    if (this.#cursor.take('{')) {
      const items: (readonly [Expression, Expression])[] = [];
      while (!this.#cursor.take('}')) {
        const key = this.expression();
        this.#cursor.expect(':');
        items.push([key, this.expression()]);
        if (!this.#cursor.take(',') && !this.#cursor.is('}')) throw this.#cursor.wrong('expected "}"');
      }
      return { kind: 'dict', items };
    }
    throw this.#cursor.wrong('expected an expression');
  }
}
