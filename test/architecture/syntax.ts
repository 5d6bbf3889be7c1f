/** Reads the imports of a file from its syntax tree, to compare them with what dependency-cruiser saw. */
import { parseFileSync } from '@swc/core';

export interface WrittenImport {
  /** Not known of an import() whose argument is computed. */
  readonly specifier: string | undefined;
  readonly dynamic: boolean;
}

type Tree = { readonly type?: string; readonly [key: string]: unknown };

const DECLARATIONS = new Set(['ImportDeclaration', 'ExportNamedDeclaration', 'ExportAllDeclaration']);

export function importsIn(path: string): WrittenImport[] {
  const found: WrittenImport[] = [];
  const visit = (tree: unknown): void => {
    if (Array.isArray(tree)) return tree.forEach(visit);
    if (typeof tree !== 'object' || tree === null) return;
    const node = tree as Tree;
    if (DECLARATIONS.has(node.type ?? '') && node['source']) {
      found.push({ specifier: literal(node['source']), dynamic: false });
    } else if (node.type === 'CallExpression' && (node['callee'] as Tree).type === 'Import') {
      const [argument] = node['arguments'] as { expression: Tree }[];
      found.push({ specifier: literal(argument?.expression), dynamic: true });
    }
    for (const key in node) if (key !== 'span') visit(node[key]);
  };
  visit(parseFileSync(path, { syntax: 'typescript', tsx: path.endsWith('x'), target: 'es2024' }).body);
  return found;
}

function literal(node: unknown): string | undefined {
  const { type, value } = (node ?? {}) as { type?: string; value?: string };
  return type === 'StringLiteral' ? value : undefined;
}
