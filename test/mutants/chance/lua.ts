/** Finds places in Lua by its syntax tree. */
import { parse } from 'luaparse';
import { otherNumber, type Place } from './place.ts';
import { childrenOf, type TreeNode } from './tree.ts';

interface Node extends TreeNode {
  readonly range: readonly [number, number];
}

const OPERATORS: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '==': '~=',
  '~=': '==',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  and: 'or',
  or: 'and',
};
const ARITHMETIC = /^([-+*/]|and|or)$/;
/** Their arguments mean the same in any order. */
const SYMMETRIC = /^math\.(max|min)$/;

/**
 * @returns in the order of the text
 * @throws unless it is Lua 5.1
 */
export function placesInLua(text: string): Place[] {
  const places: Place[] = [];
  const source = ({ range }: Node) => text.slice(...range);
  const add = ([start, end]: readonly [number, number], bug: string, kind: Place['kind']) =>
    places.push({ start, end, bug, kind });
  const visit = (node: Node) => {
    if (node.type === 'BinaryExpression' || node.type === 'LogicalExpression') {
      const operator = node['operator'] as string;
      const start = text.indexOf(operator, (node['left'] as Node).range[1]);
      const bug = OPERATORS[operator];
      const kind = ARITHMETIC.test(operator) ? 'operator' : 'compare';
      if (bug !== undefined) add([start, start + operator.length], bug, kind);
    } else if (node.type === 'IfClause' || node.type === 'ElseifClause') {
      const condition = node['condition'] as Node;
      add(condition.range, `not (${source(condition)})`, 'condition');
      add(condition.range, 'false', 'condition');
    } else if (node.type === 'UnaryExpression' && node['operator'] === 'not') {
      add(node.range, `(${source(node['argument'] as Node)})`, 'condition');
    } else if (node.type === 'NumericLiteral') {
      add(node.range, otherNumber(node['value'] as number), 'constant');
    } else if (node.type === 'BooleanLiteral') {
      add(node.range, String(!node['value']), 'constant');
    } else if (node.type === 'CallStatement') {
      add(node.range, 'do end', 'call');
    } else if (node.type === 'CallExpression') {
      const given = node['arguments'] as readonly Node[];
      const isSymmetric = SYMMETRIC.test(source(node['base'] as Node));
      for (const one of isSymmetric ? given : []) add(node.range, `(${source(one)})`, 'operator');
      for (const [index, second] of isSymmetric ? [] : given.slice(1).entries()) {
        const first = given[index] as Node;
        if (source(first) === source(second)) continue;
        const between = text.slice(first.range[1], second.range[0]);
        add([first.range[0], second.range[1]], `${source(second)}${between}${source(first)}`, 'swap');
      }
    }
    for (const child of childrenOf(node)) visit(child);
  };
  visit(parse(text, { ranges: true, luaVersion: '5.1' }) as unknown as Node);
  return places.sort((a, b) => a.start - b.start || a.end - b.end);
}
