/**
 * Builds a TfGraph from a graph, the inputs and outputs that its file names, and the user's options. An input may be
 * any tensor: what comes before it is never read, and every other input of the remaining graph needs a value.
 */
import { badModel, ServingError } from '../../../../lib/contract/errors.ts';
import { allocate, type DType } from '../../../../lib/contract/tensor.ts';
import type { Shape } from '../../../graph/value.ts';
import type { ConvertOptions } from '../../../source/convert-options.ts';
import { Problems } from '../../problems.ts';
import { splitTensor, type TfGraph, type TfInput, type TfShape, type TfType } from '../graph.ts';
import { Assembler } from './assemble.ts';
import type { Bundle } from './bundle/bundle.ts';
import { describeCandidates, guessOutputs, isPlaceholder } from './candidates.ts';
import { Changes } from './changes.ts';
import { shapeOfTensor, typeOfTensor } from './facts.ts';
import { type Assets, HashTables } from './hash-tables.ts';
import { Library } from './library.ts';
import { checkDistinct, findTensor, type NamedTensor, named, publicName } from './names.ts';
import { listNodes } from './nodes.ts';
import type { RawGraph, RawNode } from './raw.ts';
import { Scope } from './scope.ts';
import { countElements, DecodedSizeBudget } from './tensor.ts';
import { Variables } from './variables.ts';

const MAX_CONSTANT_ELEMENTS = 1 << 20;

interface ModelSource {
  readonly file: string;
  readonly raw: RawGraph;
  readonly options: ConvertOptions;
  /** Undefined when the file names none. */
  readonly inputs: readonly NamedTensor[] | undefined;
  readonly outputs: readonly NamedTensor[] | undefined;
  readonly bundle: Bundle | undefined;
  readonly restoreNode: string;
  /** Undefined for files that have no folder of assets. */
  readonly assets?: Assets;
  /** Explains why variables have no values when there is no bundle. */
  readonly advice: string;
}

/** @throws bad_model naming file and nodes. Notes for the user are added to `notes`. */
export function buildModel(source: ModelSource, notes: string[]): TfGraph {
  try {
    return new ModelBuilder(source, notes).build();
  } catch (error) {
    if (
      !(error instanceof ServingError) ||
      error.code !== 'bad_model' ||
      error.message.startsWith(source.file)
    ) {
      throw error;
    }
    throw badModel(`${source.file}: ${error.message}`, { cause: error });
  }
}

class ModelBuilder {
  private readonly source: ModelSource;
  private readonly notes: string[];
  private readonly library: Library;
  private readonly scope: Scope;
  private readonly budget = new DecodedSizeBudget();
  private readonly problems: Problems;

  constructor(source: ModelSource, notes: string[]) {
    this.source = source;
    this.notes = notes;
    this.library = new Library(source.raw);
    this.scope = new Scope(source.raw.nodes, this.library);
    this.problems = new Problems(source.file);
  }

  build(): TfGraph {
    const { scope, library, problems, budget, source, notes } = this;
    const { file, bundle, restoreNode, advice } = source;
    const outputs = this.outputs();
    const roots = outputs.map((output) => output.tensor);
    this.replaceByConstants(roots);
    const inputs = this.inputs(roots);
    for (const input of inputs) this.assertThere(input);
    const fed = new Map(inputs.map((input) => [scope.resolve(input.tensor), undefined] as const));
    if (fed.size < inputs.length) throw badModel('two inputs are the same tensor');
    this.refuseOpenPlaceholders(roots, new Set(fed.keys()));
    const variables = new Variables({ scope, bundle, restoreNode, advice, budget });
    const changes = new Changes({ scope, variables, problems, notes }, roots, new Set(fed.keys()));
    variables.prepare([...scope.reach(roots, { fed: new Set(fed.keys()) })]);
    const hashTables = new HashTables(scope, variables, source.assets);
    const assembler = new Assembler({ library, variables, hashTables, budget, problems });
    const nodes = assembler.nodes({ scope, roots, fed, stack: undefined });
    const graph: TfGraph = {
      file,
      nodes,
      inputs: inputs.map((input) => this.describeInput(input)),
      outputs: outputs.map(({ name, tensor }) => ({ name, tensor: scope.resolve(tensor) })),
      functions: assembler.functions,
    };
    changes.refuse(graph);
    problems.throwIfAny();
    const initial = variables.initial.slice(0, 5).join(', ');
    if (initial !== '') notes.push(`variables that are not saved have their initial value: ${initial}`);
    return graph;
  }

  private outputs(): readonly NamedTensor[] {
    const { options, outputs, raw, file } = this.source;
    if (options.outputNames === undefined) {
      return (
        outputs ??
        guessOutputs(raw.nodes, raw.outputs, file).map((tensor) => ({ name: publicName(tensor), tensor }))
      );
    }
    const found = options.outputNames.map((name) => this.find(name, outputs ?? [], 'output'));
    if (found.length === 0) throw badModel('at least one output must be named');
    checkDistinct(found, 'outputs');
    return found;
  }

  /** The inputs that the user names, else those of the file, else the placeholders that the outputs need. */
  private inputs(roots: readonly string[]): readonly NamedTensor[] {
    const { options, inputs } = this.source;
    const constants = new Set(
      Object.keys(options.constants ?? {}).map((name) => this.find(name, inputs ?? [], 'input').tensor),
    );
    const open = (list: readonly NamedTensor[]): NamedTensor[] =>
      list.filter(({ tensor }) => !constants.has(tensor));
    if (options.inputNames !== undefined) {
      const found = open(options.inputNames.map((name) => this.find(name, inputs ?? [], 'input')));
      checkDistinct(found, 'inputs');
      return found;
    }
    const cuts = Object.keys(options.inputShapes ?? {})
      .map((name) => this.find(name, inputs ?? [], 'input'))
      .filter(({ tensor }) => inputs?.some((one) => one.tensor === tensor) !== true);
    const usual =
      this.withoutTwins(inputs) ??
      this.placeholders(roots, new Set(cuts.map(({ tensor }) => this.scope.resolve(tensor))));
    if (cuts.length === 0) return open(usual);
    const fed = new Set(cuts.map(({ tensor }) => this.scope.resolve(tensor)));
    const needed = this.scope.reach(roots, { fed });
    const others = usual.filter(({ tensor }) => {
      const resolved = this.scope.resolve(tensor);
      return !fed.has(resolved) && needed.has(splitTensor(resolved).node);
    });
    return open([...cuts, ...others]);
  }

  /** A signature may give one tensor several names. TensorFlow accepts any of them, but only one per request. */
  private withoutTwins(inputs: readonly NamedTensor[] | undefined): readonly NamedTensor[] | undefined {
    const first = new Map<string, string>();
    return inputs?.filter(({ name, tensor }) => {
      const twin = first.get(tensor);
      if (twin === undefined) first.set(tensor, name);
      else this.notes.push(`input ${name} is the same tensor as ${twin} and was left out`);
      return twin === undefined;
    });
  }

  private placeholders(roots: readonly string[], fed: ReadonlySet<string>): readonly NamedTensor[] {
    const reached = this.scope.reach(roots, { fed });
    const nodes = [...this.scope.nodes.values()].filter(({ name }) => reached.has(name));
    const open = nodes.filter(({ op }) => isPlaceholder(op));
    const optional = nodes.filter(({ op }) => op === 'PlaceholderWithDefault');
    const [only] = optional;
    if (open.length > 0 || fed.size > 0 || only === undefined) return open.map(({ name }) => named(name));
    if (optional.length > 1) {
      throw badModel(`all inputs have a default; name those to keep with --input: ${listNodes(optional)}`);
    }
    this.notes.push(`${only.name} has a default and was taken as input, the only one there is`);
    return [named(only.name)];
  }

  /** @throws bad_model listing the possible names */
  private find(name: string, known: readonly NamedTensor[], what: string): NamedTensor {
    const { raw, outputs } = this.source;
    const find = (): NamedTensor | undefined => findTensor(name, known, this.scope, raw.outputs);
    let found = find();
    if (found === undefined && outputs !== undefined) {
      // The tensor may be inside a function, which `reach` inlines.
      this.scope.reach(outputs.map((output) => output.tensor));
      found = find();
    }
    if (found !== undefined) return found;
    const own = known.length === 0 ? '' : ` The file names ${known.map((one) => one.name).join(', ')}.`;
    throw badModel(
      `the ${what} "${name}" is not a tensor of the graph.${own}\n${describeCandidates(this.scope.nodes)}`,
    );
  }

  /** A file may name tensors that it does not contain. */
  private assertThere({ name, tensor }: NamedTensor): void {
    if (this.scope.nodes.has(splitTensor(this.scope.resolve(tensor)).node)) return;
    throw badModel(
      `the input "${name}" is "${tensor}", which is not in the file\n${describeCandidates(this.scope.nodes)}`,
    );
  }

  private replaceByConstants(roots: readonly string[]): void {
    const { options, inputs } = this.source;
    for (const [name, value] of Object.entries(options.constants ?? {})) {
      const input = this.find(name, inputs ?? [], 'input');
      const tensor = this.scope.resolve(input.tensor);
      const dtype = this.typeOf(input, tensor);
      const shape = this.shapeOf(input, tensor) ?? [];
      const node = this.constantNode(`${splitTensor(tensor).node}/constant`, dtype, shape, value);
      this.scope.nodes.set(node.name, node);
      this.scope.replace(tensor, `${node.name}:0`);
      this.notes.push(`input ${name} is always ${value}`);
    }
    if (roots.length === 0) throw badModel('the model has no outputs');
  }

  private constantNode(name: string, dtype: DType, given: readonly number[], value: number): RawNode {
    if (dtype === 'string') throw badModel(`${name}: a text cannot be replaced by the number ${value}`);
    const shape = given.map((dim) => (dim === -1 ? 1 : dim));
    const count = countElements(shape);
    if (count > MAX_CONSTANT_ELEMENTS) {
      throw badModel(`${name}: ${count} elements are too many to replace by one number`);
    }
    const data = allocate(dtype, count);
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) data.fill(BigInt(Math.trunc(value)));
    else data.fill(dtype === 'bool' ? Number(value !== 0) : value);
    const made = {
      dtype: { kind: 'type', value: dtype },
      value: { kind: 'tensor', value: { dtype, shape, data } },
    } as const;
    return {
      name: this.scope.unusedName(name),
      op: 'Const',
      inputs: [],
      controlInputs: [],
      attributes: new Map(),
      made,
    };
  }

  private refuseOpenPlaceholders(roots: readonly string[], fed: ReadonlySet<string>): void {
    const reached = [...this.scope.reach(roots, { fed })].map(
      (name) => this.scope.nodes.get(name) as RawNode,
    );
    const open = reached.filter((node) => isPlaceholder(node.op));
    if (open.length === 0) return;
    throw badModel(
      `the outputs also need ${listNodes(open)}. Name them with --input, or give each a number with --constant, as keep_prob=1`,
    );
  }

  private describeInput(input: NamedTensor): TfInput {
    const tensor = this.scope.resolve(input.tensor);
    const given = Object.entries(this.source.options.inputShapes ?? {});
    const [, chosen] =
      given.find(([name]) => name === input.name || named(name).tensor === input.tensor) ?? [];
    if (chosen?.some((dim) => typeof dim === 'number' && !(Number.isSafeInteger(dim) && dim > 0)))
      throw badModel(
        `input "${input.name}": the shape [${chosen.join(',')}] of --input has a size that is none; sizes are 1 or more, free ones a name, as ${input.name}:N,784`,
      );
    const shape = chosen ?? nameSizes(input.name, this.shapeOf(input, tensor));
    return { name: input.name, tensor, dtype: this.typeOf(input, tensor), shape };
  }

  private typeOf(input: NamedTensor, tensor: string): DType {
    const { node, port } = splitTensor(tensor);
    const raw = this.scope.nodes.get(node);
    const type: TfType | undefined = input.dtype ?? (raw === undefined ? undefined : typeOfTensor(raw, port));
    if (typeof type === 'string') return type;
    const why = type === undefined ? 'is of an unknown type' : `is of type ${type.unsupported}`;
    throw badModel(`input "${input.name}" (${raw?.op ?? 'no node'}) ${why}`);
  }

  private shapeOf(input: NamedTensor, tensor: string): TfShape {
    const { node, port } = splitTensor(tensor);
    const raw = this.scope.nodes.get(node);
    return (
      input.shape ?? (raw === undefined ? undefined : shapeOfTensor(raw, port, this.source.raw.producer))
    );
  }
}

function nameSizes(name: string, shape: TfShape): Shape | undefined {
  return shape?.map((dim, axis) => (dim !== -1 ? dim : axis === 0 ? 'N' : `${name}_d${axis}`));
}
