/** Finds places in TypeScript by its syntax tree. */
import { parseSync } from 'oxc-parser';
import { otherNumber, type Place } from './place.ts';
import { childrenOf, type TreeNode } from './tree.ts';

interface Node extends TreeNode {
  readonly start: number;
  readonly end: number;
}

const COMPARED: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '==': '!=',
  '!=': '==',
};

const OPERATORS: Readonly<Record<string, string>> = {
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&': '|',
  '|': '&',
  '<<': '>>',
  '>>': '<<',
  '>>>': '<<',
  '&&': '||',
  '||': '&&',
  '??': '&&',
  '+=': '-=',
  '-=': '+=',
  '*=': '/=',
};

/** Their arguments mean the same in any order. */
const SYMMETRIC = /^Math\.(max|min|hypot)$/;
/** Only types, which are gone when the code runs. */
const WITHOUT_EFFECT = /^TS(?!As|NonNull|Satisfies|Instantiation)/;

/**
 * @returns in the order of the text
 * @throws unless it is TypeScript
 */
export function placesInTypeScript(path: string, text: string): Place[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const places: Place[] = [];
  const visit = (node: Node, parent: Node) => {
    if (WITHOUT_EFFECT.test(node.type)) return;
    places.push(...placesAt(node, parent, text));
    for (const child of childrenOf(node)) visit(child, node);
  };
  const root = program as unknown as Node;
  visit(root, root);
  return places.sort((a, b) => a.start - b.start || a.end - b.end);
}

function placesAt(node: Node, parent: Node, text: string): Place[] {
  const source = (part: Node) => text.slice(part.start, part.end);
  const at = ({ start, end }: Node, bug: string, kind: Place['kind']): Place => ({
    start,
    end,
    bug,
    kind,
  });
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression':
    case 'AssignmentExpression':
      return operatorPlaces(node, text);
    case 'IfStatement':
    case 'ConditionalExpression':
    case 'WhileStatement': {
      const test = node['test'] as Node;
      // A loop that never ends is excluded: a test would find it only by its time limit.
      const never = at(test, 'false', 'condition');
      if (node.type === 'WhileStatement') return [never];
      return [at(test, `!(${source(test)})`, 'condition'), never];
    }
    case 'UnaryExpression':
      return node['operator'] === '!' ? [at(node, source(node['argument'] as Node), 'condition')] : [];
    case 'ObjectExpression':
      return withoutProperty(node, text);
    case 'Literal':
      return literalPlaces(node, parent, text);
    case 'AwaitExpression':
      // The promise that an async function returns is waited for by its caller.
      if (parent.type === 'ReturnStatement') return [];
      return [at(node, `(${source(node['argument'] as Node)})`, 'await')];
    case 'ExpressionStatement': {
      const expression = node['expression'] as Node;
      const done = expression.type === 'AwaitExpression' ? (expression['argument'] as Node) : expression;
      const callee = done['callee'] as Node | undefined;
      if (!/^(Call|Assignment)Expression$/.test(done.type) || callee?.type === 'Super') return [];
      return [at(node, '{}', 'call')];
    }
    case 'CallExpression':
    case 'NewExpression': {
      const given = node['arguments'] as readonly Node[];
      if (SYMMETRIC.test(source(node['callee'] as Node))) {
        return given.map((one) => at(node, `(${source(one)})`, 'operator'));
      }
      return given.slice(1).flatMap((second, index) => {
        const first = given[index] as Node;
        const [a, b] = [source(first), source(second)];
        if (a === b || first.type === 'SpreadElement' || second.type === 'SpreadElement') return [];
        const between = text.slice(first.end, second.start);
        return [{ start: first.start, end: second.end, bug: `${b}${between}${a}`, kind: 'swap' as const }];
      });
    }
    default:
      return [];
  }
}

function operatorPlaces(node: Node, text: string): Place[] {
  const operator = node['operator'] as string;
  const [left, right] = [node['left'] as Node, node['right'] as Node];
  const between = text.slice(left.end, right.start);
  const start = left.end + between.indexOf(operator);
  const change = (bug: string, kind: Place['kind']): Place[] => [
    { start, end: start + operator.length, bug, kind },
  ];
  const compared = COMPARED[operator];
  if (compared !== undefined) return change(compared, 'compare');
  const other = OPERATORS[operator];
  // Texts have no difference.
  if (other === undefined || (operator.startsWith('+') && (isText(left) || isText(right)))) return [];
  const bracket = (side: Node) => `(${text.slice(side.start, side.end)})`;
  const whole = (bug: string): Place => ({ start: node.start, end: node.end, bug, kind: 'operator' });
  const alone = node.type === 'AssignmentExpression' ? [] : [whole(bracket(left)), whole(bracket(right))];
  // `a && b || c` and `??` beside `&&` need brackets.
  const isLogical = node.type === 'LogicalExpression';
  return isLogical
    ? [whole(`(${bracket(left)} ${other} ${bracket(right)})`), ...alone]
    : [...change(other, 'operator'), ...alone];
}

/** The text inside an object is skipped. */
function withoutProperty(node: Node, text: string): Place[] {
  return (node['properties'] as readonly Node[]).map(({ start, end }) => {
    const comma = /^\s*,/.exec(text.slice(end))?.[0].length ?? 0;
    return { start, end: end + comma, bug: '', kind: 'call' };
  });
}

function isText({ type, value, left, right }: Node): boolean {
  if (type === 'TemplateLiteral') return true;
  if (type === 'BinaryExpression') return isText(left as Node) || isText(right as Node);
  return type === 'Literal' && typeof value === 'string';
}

function literalPlaces(node: Node, parent: Node, text: string): Place[] {
  const { value, start, end } = node;
  const change = (bug: string): Place[] => [{ start, end, bug, kind: 'constant' }];
  if (typeof value === 'boolean') return change(String(!value));
  // A key, and the number of a member, name something: another name is another bug.
  if (parent['key'] === node && parent['computed'] !== true) return [];
  if (typeof value === 'bigint') return change(`${value + 1n}n`);
  if (typeof value !== 'number' || !Number.isFinite(value)) return [];
  return /^[\d_.]+$/.test(text.slice(start, end)) ? change(otherNumber(value)) : change(String(value + 1));
}
