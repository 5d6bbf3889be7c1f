/**
 * Follows the batch axis of each input through the graph, node by node (docs: onnx-import/graph/ops). A value that no
 * rule can follow is `ended`, and so is all that is computed from it; the proof holds when no output of the model is.
 */
import { operatorOf } from '../graph/ops/table.ts';
import { type Analysis, Call } from '../graph/rows/call.ts';
import type { Attribute, Graph, GraphNode } from '../graph/rows/node.ts';
import { dependsOnRows, type Names, type Size } from '../graph/rows/size.ts';
import { type Ended, fixedOf, ProofEnd, type Value } from '../graph/rows/value.ts';
import { functionKey, type LocalFunction, type Model } from './model.ts';

/** Node evaluations, those of loops' turns included. */
const MAX_STEPS = 300_000;
const MAX_DEPTH = 50;
/** Newer operator sets may give an operator another meaning. */
const MAX_OPSET = 26;
/** From here on the rules hold. Before, arithmetic broadcasts by an attribute; onnxruntime has few kernels for it. */
const MIN_OPSET = 7;
/** What was the same before. */
const OLDER = new Set(
  'Conv Flatten Identity LRN LeakyRelu MatMul MaxPool Relu Sigmoid Softmax Tanh Transpose'.split(' '),
);
/** Domains whose operators are deterministic and keep no state. */
const KNOWN_DOMAINS = new Set(['', 'ai.onnx.ml']);
/** Domains whose operators onnxruntime brings along: it runs its own in place of a function of the file. */
const RUNTIME_DOMAINS = /^(|ai\.onnx\..*|com\.microsoft.*|com\.ms\..*|org\.pytorch\..*)$/;
/** Their outputs depend on what their bodies see around them, not on their inputs alone. */
const WITH_BODIES = new Set(['If', 'Loop', 'Scan']);

/** Of rows they give what is the same for all. */
const READS_SHAPES = new Set(['Shape', 'Size', ...WITH_BODIES]);

/** Values by name; a body sees those around it. */
class Scope {
  readonly #values = new Map<string, Value>();
  readonly #outer: Scope | undefined;
  readonly opsets: ReadonlyMap<string, number>;
  readonly depth: number;

  constructor(opsets: ReadonlyMap<string, number>, outer?: Scope, depth = outer ? outer.depth + 1 : 0) {
    this.opsets = opsets;
    this.#outer = outer;
    this.depth = depth;
  }

  get(name: string): Value | undefined {
    return this.#values.get(name) ?? this.#outer?.get(name);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

/**
 * @param inputs by name: what each input of the model is
 * @returns the graph's outputs, in order
 */
export function analyse(model: Model, inputs: ReadonlyMap<string, Value>, n: Size, names: Names): Value[] {
  return new Analyser(model, n, names).run(inputs);
}

class Analyser implements Analysis {
  readonly n: Size;
  readonly names: Names;
  readonly #model: Model;
  #steps = 0;

  constructor(model: Model, n: Size, names: Names) {
    this.#model = model;
    this.n = n;
    this.names = names;
  }

  run(inputs: ReadonlyMap<string, Value>): Value[] {
    const scope = new Scope(this.#model.opsets);
    for (const [name, value] of inputs) scope.set(name, value);
    return this.#graph(this.#model.graph, scope);
  }

  runBody(graph: Graph, inputs: readonly Value[], call: Call): Value[] {
    const outer = call.scope as Scope;
    const scope = new Scope(outer.opsets, outer);
    for (const [i, { name }] of graph.inputs.entries()) scope.set(name, inputs[i] ?? fixedOf());
    return this.#graph(graph, scope);
  }

  #graph(graph: Graph, scope: Scope): Value[] {
    if (scope.depth > MAX_DEPTH) throw new ProofEnd('its bodies are nested too deep to follow', 'graph', '');
    for (const [name, value] of graph.weights) scope.set(name, value);
    for (const node of graph.nodes) this.#node(node, scope);
    return graph.outputs.map((name) => scope.get(name) ?? ended(`no node makes "${name}"`, 'graph', ''));
  }

  #node(node: GraphNode, scope: Scope): void {
    const values = this.#evaluate(node, scope);
    for (const [i, name] of node.outputs.entries()) {
      if (name === '') continue;
      scope.set(name, values[i] ?? ended(`no rule follows its output ${i + 1}`, node.operator, node.name));
    }
  }

  /** Never throws for the sake of a node. */
  #evaluate(node: GraphNode, scope: Scope): readonly Value[] {
    const { operator, domain, name } = node;
    const all = (value: Value) => node.outputs.map(() => value);
    this.#steps += 1;
    if (this.#steps > MAX_STEPS) return all(ended('the graph is too large to follow', operator, name));
    const inputs = node.inputs.map((input) =>
      input === ''
        ? undefined
        : (scope.get(input) ?? ended(`nothing makes its input "${input}"`, operator, name)),
    );
    const before = inputs.find((input) => input?.kind === 'ended');
    if (before) return all(before);
    try {
      const called = this.#model.functions.get(functionKey(domain, operator, node.overload));
      if (called) return this.#call(called, node, inputs, scope);
      return this.#apply(node, inputs, scope);
    } catch (error) {
      if (!(error instanceof ProofEnd)) throw error;
      return all({ kind: 'ended', end: error });
    }
  }

  #apply(node: GraphNode, inputs: readonly (Value | undefined)[], scope: Scope): readonly Value[] {
    const { operator, domain } = node;
    const opset = scope.opsets.get(domain) ?? (domain === '' ? 0 : 1);
    const key = domain === '' ? operator : `${domain}:${operator}`;
    const { rows: rule, shapes, isRandom } = operatorOf(key) ?? {};
    const call = new Call(node, inputs, opset, this, scope, shapes);
    // Without one onnxruntime takes its newest.
    const isKnown = opset > 0 && opset <= MAX_OPSET && (opset >= MIN_OPSET || OLDER.has(operator));
    if (domain === '' && !isKnown) call.end(`its operator set ${opset} is not known`);
    const isFixed = inputs.every((input) => input === undefined || input.kind === 'fixed');
    if (isRandom) call.end('it draws random numbers');
    const isPlain = isFixed && KNOWN_DOMAINS.has(domain) && !WITH_BODIES.has(operator);
    if (!rule) {
      if (!isPlain) call.end(`there is no rule for ${key} on rows`);
      return node.outputs.map(() => fixedOf());
    }
    try {
      const values = [rule(call)].flat();
      for (const value of values) assertInvariant(value, call);
      const isLost =
        values.some(({ kind }) => kind === 'fixed') &&
        inputs.some((input) => input?.kind === 'rows' || input?.kind === 'row numbers');
      if (call.unseen().some(({ kind }) => kind !== 'fixed') || (isLost && !READS_SHAPES.has(operator))) {
        call.end('its rule does not follow all of its inputs');
      }
      // What is made of fixed values alone is fixed, also where the rule does not know its shape.
      return isPlain ? node.outputs.map((_, i) => values[i] ?? fixedOf()) : values;
    } catch (error) {
      if (!(error instanceof ProofEnd) || !isPlain) throw error;
      return node.outputs.map(() => fixedOf());
    }
  }

  /** The body of a function of the file in place of the node; it sees nothing around it. */
  #call(
    [called, ...others]: readonly LocalFunction[],
    node: GraphNode,
    inputs: readonly (Value | undefined)[],
    scope: Scope,
  ): readonly Value[] {
    const end = (reason: string): never => {
      throw new ProofEnd(reason, node.operator, node.name);
    };
    if (scope.depth > MAX_DEPTH) end('functions are nested too deep to follow');
    if (!called || others.length > 0) return end('the file has two functions of its name');
    if (RUNTIME_DOMAINS.test(node.domain)) end('a function of the file has the name of a standard operator');
    // onnxruntime runs the body by the operator sets of the model.
    const isOther = ([domain, version]: readonly [string, number]) =>
      RUNTIME_DOMAINS.test(domain) && version !== scope.opsets.get(domain);
    if ([...called.opsets].some(isOther)) end('its function is of another operator set than the model');
    const inner = new Scope(scope.opsets, undefined, scope.depth + 1);
    for (const [i, name] of called.inputs.entries()) {
      const value = inputs[i];
      if (value) inner.set(name, value);
    }
    const attributes = new Map([...called.defaults, ...node.attributes]);
    // An optional input that the call leaves out is left out in the body too.
    const missing = new Set(called.inputs.filter((_, i) => inputs[i] === undefined));
    for (const item of called.nodes) this.#node(withArguments(item, attributes, missing), inner);
    return called.outputs.map(
      (name) => inner.get(name) ?? ended(`its body does not make "${name}"`, node.operator, node.name),
    );
  }
}

function withArguments(
  node: GraphNode,
  values: ReadonlyMap<string, Attribute>,
  missing: ReadonlySet<string>,
): GraphNode {
  const attributes = new Map<string, Attribute>();
  for (const [name, attribute] of node.attributes) {
    const value = attribute.reference === '' ? attribute : values.get(attribute.reference);
    if (value) attributes.set(name, withGraph(value, values, missing));
  }
  return { ...node, inputs: node.inputs.map((name) => (missing.has(name) ? '' : name)), attributes };
}

/** Bodies within a function take its attributes too. */
function withGraph(
  attribute: Attribute,
  values: ReadonlyMap<string, Attribute>,
  missing: ReadonlySet<string>,
): Attribute {
  const { graph } = attribute;
  if (!graph) return attribute;
  return {
    ...attribute,
    graph: { ...graph, nodes: graph.nodes.map((node) => withArguments(node, values, missing)) },
  };
}

/** No size but that of the batch axis depends on N, and that one only as its place says. */
function assertInvariant(value: Value, call: Call): void {
  if (value.kind === 'ended' || value.kind === 'counts') return;
  const others = value.kind === 'fixed' ? (value.shape ?? []) : value.shape.toSpliced(value.axis, 1);
  const own = value.kind === 'fixed' ? [] : [value.outer, value.inner];
  if ([...others, ...own].some(dependsOnRows)) {
    call.end('a size of its result, other than the batch axis, depends on how many rows share the run');
  }
}

function ended(reason: string, operator: string, node: string): Ended {
  return { kind: 'ended', end: new ProofEnd(reason, operator, node) };
}
