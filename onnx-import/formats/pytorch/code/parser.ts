/** Parses the Python subset of TorchScript archives. Nothing is evaluated. */
import type {
  ClassDefinition,
  Expression,
  FunctionDefinition,
  Parameter,
  SourceFile,
  Statement,
} from './ast.ts';
import { Cursor } from './cursor.ts';
import { Expressions } from './expressions.ts';
import { tokenize } from './tokens.ts';

/** @throws bad_model naming file and line */
export function parseSource(source: string, file: string): SourceFile {
  return new Parser(new Cursor(tokenize(source, file), file)).file();
}

class Parser {
  readonly #cursor: Cursor;
  readonly #expressions: Expressions;

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
    this.#expressions = new Expressions(cursor);
  }

  file(): SourceFile {
    const functions = new Map<string, FunctionDefinition>();
    const classes = new Map<string, ClassDefinition>();
    while (this.#cursor.peek().kind !== 'end') {
      if (this.#cursor.peek().kind === 'newline') this.#cursor.next();
      else if (this.#cursor.is('class')) {
        const made = this.#class();
        classes.set(made.name, made);
      } else if (this.#cursor.is('def')) {
        const made = this.#function();
        functions.set(made.name, made);
      } else this.#statement();
    }
    return { functions, classes };
  }

  #class(): ClassDefinition {
    this.#cursor.expect('class');
    const name = this.#cursor.kind('name').text;
    let base = '';
    if (this.#cursor.take('('))
      while (!this.#cursor.take(')')) {
        if (this.#cursor.peek().kind === 'end') throw this.#cursor.wrong('expected ")"');
        base += this.#cursor.next().text;
      }
    this.#cursor.expect(':');
    this.#cursor.kind('newline');
    this.#cursor.kind('indent');
    const methods = new Map<string, FunctionDefinition>();
    const constants = new Map<string, Expression>();
    const fields: string[] = [];
    while (this.#cursor.peek().kind !== 'dedent') {
      if (this.#cursor.peek().kind === 'end') throw this.#cursor.wrong('expected the end of a class');
      if (this.#cursor.is('def')) {
        const made = this.#function();
        methods.set(made.name, made);
        continue;
      }
      if (this.#cursor.peek().kind === 'name' && this.#cursor.peek(1).text === ':')
        fields.push(this.#cursor.peek().text);
      const statement = this.#statement();
      const target = statement.kind === 'assign' ? statement.targets[0]?.parts[0] : undefined;
      if (target?.kind === 'name' && statement.kind === 'assign') constants.set(target.name, statement.value);
    }
    this.#cursor.next();
    return { name, base, methods, constants, fields };
  }

  #function(): FunctionDefinition {
    const { line } = this.#cursor.peek();
    this.#cursor.expect('def');
    const name = this.#cursor.kind('name').text;
    this.#cursor.expect('(');
    const parameters: Parameter[] = [];
    while (!this.#cursor.take(')')) {
      const parameter = this.#cursor.kind('name').text;
      const type = this.#cursor.take(':') ? this.#type() : 'Tensor';
      const fallback = this.#cursor.take('=') ? this.#expressions.expression() : undefined;
      parameters.push({ name: parameter, type, ...(fallback ? { fallback } : {}) });
      if (!this.#cursor.take(',') && !this.#cursor.is(')')) throw this.#cursor.wrong('expected ")"');
    }
    if (this.#cursor.take('->')) this.#type();
    this.#cursor.expect(':');
    return { name, parameters, body: this.#block(), line };
  }

  /** An annotation, as text up to what follows it. */
  #type(): string {
    let [text, depth] = ['', 0];
    for (;;) {
      const token = this.#cursor.peek();
      if (token.kind === 'newline' || token.kind === 'end') break;
      if (depth === 0 && token.kind === 'op' && [',', ')', '=', ':'].includes(token.text)) break;
      if (token.kind === 'op' && '[('.includes(token.text)) depth += 1;
      if (token.kind === 'op' && '])'.includes(token.text)) depth -= 1;
      text += token.text;
      this.#cursor.next();
    }
    return text;
  }

  #block(): Statement[] {
    this.#cursor.kind('newline');
    this.#cursor.kind('indent');
    const statements: Statement[] = [];
    while (this.#cursor.peek().kind !== 'dedent') {
      if (this.#cursor.peek().kind === 'end') throw this.#cursor.wrong('expected the end of a block');
      statements.push(this.#statement());
    }
    this.#cursor.next();
    return statements;
  }

  #statement(): Statement {
    return this.#cursor.nested(() => this.#bare());
  }

  #bare(): Statement {
    const { line } = this.#cursor.peek();
    if (this.#cursor.take('if')) return this.#if(line);
    if (this.#cursor.take('while')) {
      const test = this.#expressions.expression();
      this.#cursor.expect(':');
      return { kind: 'while', test, body: this.#block(), line };
    }
    if (this.#cursor.take('for')) {
      const target = this.#expressions.target('in');
      this.#cursor.expect('in');
      const items = this.#expressions.expression();
      this.#cursor.expect(':');
      return { kind: 'for', target, items, body: this.#block(), line };
    }
    if (this.#cursor.take('with')) {
      const context = this.#expressions.expression();
      this.#cursor.expect(':');
      return { kind: 'with', context, body: this.#block(), line };
    }
    const statement = this.#simple(line);
    this.#cursor.kind('newline');
    return statement;
  }

  #if(line: number): Statement {
    const test = this.#expressions.expression();
    this.#cursor.expect(':');
    const yes = this.#block();
    const at = this.#cursor.peek().line;
    if (this.#cursor.take('elif')) return { kind: 'if', test, yes, no: [this.#if(at)], line };
    if (!this.#cursor.take('else')) return { kind: 'if', test, yes, no: [], line };
    this.#cursor.expect(':');
    return { kind: 'if', test, yes, no: this.#block(), line };
  }

  #simple(line: number): Statement {
    if (this.#cursor.take('pass')) return { kind: 'pass', line };
    if (this.#cursor.take('return')) {
      const value = this.#cursor.peek().kind === 'newline' ? undefined : this.#expressions.tuple();
      return { kind: 'return', value, line };
    }
    for (const word of [
      'import',
      'from',
      'break',
      'continue',
      'del',
      'global',
      'try',
      'raise',
      'lambda',
      'yield',
    ])
      if (this.#cursor.is(word)) throw this.#cursor.wrong(`"${word}" is no part of TorchScript`);
    const first = this.#expressions.target('=');
    if (this.#cursor.take(':')) {
      this.#type();
      if (!this.#cursor.is('=')) return { kind: 'pass', line };
    }
    if (!this.#cursor.is('=')) {
      const [value] = first.parts;
      if (!value || first.isTuple) throw this.#cursor.wrong('expected "="');
      return { kind: 'expression', value, line };
    }
    const targets = [first];
    let value: Expression | undefined;
    while (this.#cursor.take('=')) {
      value = this.#expressions.tuple();
      if (this.#cursor.is('=')) targets.push({ parts: [value], isTuple: false });
    }
    return { kind: 'assign', targets, value: value as Expression, line };
  }
}
