/** Counts type assertions, `x as T`: each is a statement about a type that the compiler takes unchecked. */
import { parseSync } from 'oxc-parser';

export interface Casts {
  /** Without `as const`, which asserts nothing. */
  readonly all: number;
  /** `as unknown as T`, which no type can contradict. */
  readonly throughUnknown: number;
}

interface Node {
  readonly type: string;
}

interface Assertion extends Node {
  readonly expression: Node;
  readonly typeAnnotation: { readonly type: string; readonly typeName?: { readonly name?: string } };
}

export function castsIn(path: string, text: string): Casts {
  let all = 0;
  let throughUnknown = 0;
  const visit = (value: unknown) => {
    if (typeof value !== 'object' || value === null) return;
    if (isAssertion(value) && value.typeAnnotation.typeName?.name !== 'const') {
      all += 1;
      const { expression } = value;
      if (isAssertion(expression) && expression.typeAnnotation.type === 'TSUnknownKeyword')
        throughUnknown += 1;
    }
    for (const child of Object.values(value)) visit(child);
  };
  visit(parseSync(path, text).program);
  return { all, throughUnknown };
}

function isAssertion(node: object): node is Assertion {
  return 'type' in node && (node.type === 'TSAsExpression' || node.type === 'TSTypeAssertion');
}
