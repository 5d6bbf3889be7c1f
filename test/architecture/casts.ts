/** Counts type assertions, `x as T`: each is a statement about a type that the compiler takes unchecked. */
import { parseSync, Visitor } from 'oxc-parser';

export interface Casts {
  /** Without `as const`, which asserts nothing. */
  readonly all: number;
  /** `as unknown as T`, which no type can contradict. */
  readonly throughUnknown: number;
}

export function castsIn(path: string, text: string): Casts {
  let all = 0;
  let throughUnknown = 0;
  const visitor = new Visitor({
    TSAsExpression({ expression, typeAnnotation: { start, end } }) {
      if (text.slice(start, end) === 'const') return;
      all += 1;
      const isDouble = expression.type === 'TSAsExpression';
      if (isDouble && expression.typeAnnotation.type === 'TSUnknownKeyword') throughUnknown += 1;
    },
  });
  if (mayHaveSome(text)) visitor.visit(parseSync(path, text).program);
  return { all, throughUnknown };
}

/** Most files have none, and are not parsed for the word in a comment. */
function mayHaveSome(text: string): boolean {
  return text
    .split('\n')
    .some((line) => /\bas(?! const\b)\b/.test(line) && !/^\s*(?:\*|\/[*/]|import )/.test(line));
}
