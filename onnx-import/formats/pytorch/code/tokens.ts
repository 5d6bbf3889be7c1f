/** Tokens of the Python subset that TorchScript archives hold. Indentation becomes `indent` and `dedent`. */
import { badModel } from '../../../../lib/contract/errors.ts';

export interface Token {
  readonly kind: 'name' | 'int' | 'float' | 'text' | 'op' | 'newline' | 'indent' | 'dedent' | 'end';
  readonly text: string;
  readonly line: number;
}

const MAX_TOKENS = 5_000_000;
const MAX_DEPTH = 200;

const BLANK = /[ \t]*(?:#[^\n]*)?\n/y;
const MARGIN = /[ \t]*/y;
const TOKEN =
  /(?<space>[ \t\f]+|#[^\n]*|\\\n)|(?<newline>\n)|(?<float>(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|(?<int>\d+)|(?<name>[A-Za-z_]\w*)|(?<text>"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*')|(?<op>->|\*\*|\/\/|==|!=|<=|>=|<<|>>|[-+*/%@&|^~<>()[\]{}.,:=;])/y;

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  a: '\u0007',
  b: '\b',
  f: '\f',
  v: '\v',
};

export function unquote(text: string): string {
  return text.slice(1, -1).replaceAll(/\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|[^])/g, (_, code: string) => {
    if (code.startsWith('x') && code.length === 3)
      return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
    if (code === '\n') return '';
    return ESCAPES[code] ?? code;
  });
}

/** What a line with this margin begins or ends. */
function steps(indents: number[], width: number): ('indent' | 'dedent')[] {
  const made: ('indent' | 'dedent')[] = [];
  if (width > (indents.at(-1) as number)) {
    indents.push(width);
    made.push('indent');
  }
  while (width < (indents.at(-1) as number)) {
    indents.pop();
    made.push('dedent');
  }
  return made;
}

/** @throws bad_model naming file and line for a character outside of the subset */
export function tokenize(source: string, file: string): Token[] {
  const tokens: Token[] = [];
  const indents = [0];
  let [line, depth, at] = [1, 0, 0];
  const push = (kind: Token['kind'], text: string) => {
    tokens.push({ kind, text, line });
    if (tokens.length > MAX_TOKENS) throw badModel(`${file}: over ${MAX_TOKENS} tokens`);
  };
  const indent = (width: number) => {
    for (const kind of steps(indents, width)) push(kind, '');
    if (indents.length > MAX_DEPTH) throw badModel(`${file}:${line}: is nested over ${MAX_DEPTH} times`);
  };
  let atStart = true;
  while (at < source.length) {
    if (atStart) {
      BLANK.lastIndex = at;
      if (BLANK.test(source)) {
        at = BLANK.lastIndex;
        line += 1;
        continue;
      }
      MARGIN.lastIndex = at;
      MARGIN.test(source);
      indent(MARGIN.lastIndex - at);
      at = MARGIN.lastIndex;
      atStart = false;
      continue;
    }
    TOKEN.lastIndex = at;
    const groups = TOKEN.exec(source)?.groups;
    if (!groups)
      throw badModel(`${file}:${line}: ${JSON.stringify(source.slice(at, at + 20))} is not understood`);
    at = TOKEN.lastIndex;
    const { space, newline, float, int, name, text, op } = groups;
    if (space?.startsWith('\\')) line += 1;
    if (newline !== undefined) {
      if (depth === 0) {
        push('newline', '');
        atStart = true;
      }
      line += 1;
    } else if (float !== undefined) push('float', float);
    else if (int !== undefined) push('int', int);
    else if (name !== undefined) push('name', name);
    else if (text !== undefined) push('text', unquote(text));
    else if (op !== undefined) {
      if ('([{'.includes(op)) depth += 1;
      if (')]}'.includes(op)) depth -= 1;
      push('op', op);
    }
  }
  if (!atStart) push('newline', '');
  indent(0);
  push('end', '');
  return tokens;
}
