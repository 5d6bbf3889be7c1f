/**
 * Finds what a graph changes at every call. What the outputs depend on is refused, because the next request would get
 * another answer; the rest, such as the seed of an augmentation that is off, is left out.
 */
import type { Problems } from '../../problems.ts';
import type { TfGraph } from '../graph.ts';
import { firstCut } from '../predecessors.ts';
import { isHashTable } from './hash-tables.ts';
import { keepRangeChecks } from './range-checks.ts';
import type { RawNode } from './raw.ts';
import { isAssignment, type Scope } from './scope.ts';
import { isVariable, sharedKey, type Variables } from './variables.ts';

/** A node that changes variables or tables, and these. */
interface Change {
  readonly op: string;
  readonly name: string;
  readonly states: readonly string[];
}

interface Surroundings {
  readonly scope: Scope;
  readonly variables: Variables;
  readonly problems: Problems;
  readonly notes: string[];
}

export class Changes {
  private readonly around: Surroundings;
  private readonly changes: Change[] = [];

  /** Changes inside a condition are checked during conversion. */
  constructor(around: Surroundings, roots: readonly string[], fed: ReadonlySet<string>) {
    this.around = around;
    const { scope, variables, notes } = around;
    const reached = scope.reach(roots, { fed, control: true });
    const needed = scope.reach(roots, { fed });
    const shared = new Set([...needed].map((name) => sharedKey(scope.nodes.get(name) as RawNode)));
    const isNeeded = (node: RawNode | undefined): boolean =>
      node === undefined || !isState(node) || needed.has(node.name) || shared.has(sharedKey(node));
    this.refuseCheckedLookups(reached, needed);
    keepRangeChecks(scope, reached);
    const conditional = scope.behindSwitch(reached);
    const skipped: string[] = [];
    const unread: string[] = [];
    for (const name of reached) {
      const { op, inputs } = scope.nodes.get(name) as RawNode;
      if (!isAssignment(op)) continue;
      // An optimizer changes several variables, anything else its first input.
      const targets = /Apply/.test(op) ? inputs : inputs.slice(0, 1);
      const states = targets.map((target) => variables.origin(target));
      if (!needed.has(name) && states.length > 0 && !states.some(isNeeded)) unread.push(name);
      else if (conditional.has(name)) skipped.push(name);
      else this.changes.push({ op, name, states: states.flatMap((state) => state?.name ?? []) });
    }
    const note = (what: string, names: readonly string[]): void => {
      if (names.length > 0) notes.push(`${what} are left out: ${names.slice(0, 5).join(', ')}`);
    };
    note('assignments that only training runs', skipped);
    note('changes of variables that no output reads', unread);
  }

  /** Layers that augment images draw random numbers from a variable, unless the model is exported for inference. */
  refuse(graph: TfGraph): void {
    const names = this.changes.flatMap(({ states }) => states);
    const states = names.flatMap((name) => graph.nodes.get(name) ?? []);
    const isRandom = states.length > 0 && [...graph.nodes.values()].some(({ op }) => op.includes('Random'));
    const behind = isRandom ? firstCut(graph, states, () => true) : undefined;
    const cut =
      behind === undefined ? '' : `, or name another input tensor with --input; right behind it is ${behind}`;
    const advice = isRandom
      ? `. The outputs depend on random numbers that are drawn from it: an augmentation is on, as in training. Export the model with it off (training=False)${cut}`
      : '';
    for (const { op, name } of this.changes)
      this.around.problems.add(op, name, `changes a variable at every call, which is not supported${advice}`);
  }

  /** What TensorFlow refuses to look up must not get an answer here. */
  private refuseCheckedLookups(reached: ReadonlySet<string>, needed: ReadonlySet<string>): void {
    const { scope, problems } = this.around;
    const checks = [...reached].filter((name) => scope.nodes.get(name)?.op === 'Assert');
    const conditions = checks.flatMap((name) => scope.nodes.get(name)?.inputs.slice(0, 1) ?? []);
    for (const name of scope.reach(conditions)) {
      const { op } = scope.nodes.get(name) as RawNode;
      if (!needed.has(name) || !op.startsWith('LookupTableFind')) continue;
      problems.add(
        op,
        name,
        'fails for keys that are not in the table (num_oov_indices=0), which ONNX cannot; export the model with num_oov_indices=1, or name another input tensor with --input',
      );
    }
  }
}

/** What keeps its content from one call to the next. */
function isState(node: RawNode): boolean {
  return isVariable(node) || isHashTable(node);
}
