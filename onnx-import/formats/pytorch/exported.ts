/**
 * Programs of torch.export (`.pt2`): the graph lies in the archive as JSON, the weights as raw bytes. Each node is a call of an
 * operator of aten, so the operators of TorchScript run it. Its shapes are those that it was exported for: nothing else was checked
 * when it was made, and its branches are gone.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Archive } from '../../files/zip.ts';
import { BATCH } from '../../graph/batch.ts';
import type { Dim } from '../../graph/value.ts';
import type { Problems } from '../problems.ts';
import { DTYPES } from './aten/schema.ts';
import { arrange } from './exported/arrange.ts';
import { type Json, list, object, optional, parseJson, text } from './exported/json.ts';
import { Program } from './exported/program.ts';
import { ProgramWeights, typeOf } from './exported/weights.ts';
import { storedRef } from './files/objects.ts';
import type { Parameter } from './inputs.ts';
import type { Context } from './run/context.ts';
import { Float, type Py, refuse } from './run/values.ts';
import type { Runnable } from './script.ts';

/** The release of the schema whose arguments say whether they are given by name. */
const SCHEMA = 8;
const ADVICE =
  'load it in a newer PyTorch with torch.export.load, then torch.onnx.export(program, f="model.onnx", dynamo=True)';

interface Slot {
  readonly name: string;
  /** A tensor of the file, a number, or an input. */
  readonly stored?: () => Tensor;
  readonly fixed?: Py;
}

/** @throws bad_model for programs of another schema, and of what has a state */
export function readProgram(archive: Archive, name: string): Runnable {
  const models = archive.names.filter((entry) => /^models\/[^/]+\.json$/.test(entry));
  const [entry] = models;
  if (entry === undefined)
    throw badModel(`${name}: is a program of torch.export of PyTorch 2.7 or older; ${ADVICE}`);
  if (models.length > 1)
    throw badModel(`${name}: holds ${models.length} programs; save one with torch.export.save`);
  const file = `${name}: ${entry}`;
  const root = object(parseJson(archive.read(entry), file), file);
  const { major } = object(root['schema_version'], `${file}: schema_version`);
  if (major !== SCHEMA)
    throw badModel(
      `${file}: schema ${String(major)} of torch.export is not known, only ${SCHEMA}; ${ADVICE}`,
    );
  const module = object(root['graph_module'], 'graph_module');
  const graph = object(module['graph'], 'graph');
  const signature = object(module['signature'], 'signature');
  const names = new Symbols();
  const weights = new ProgramWeights(archive, name, entry.slice('models/'.length, -'.json'.length));
  const slots = list(signature['input_specs'], 'input_specs').map((spec) =>
    slotOf(object(spec, 'input'), weights),
  );
  assertOutputs(list(signature['output_specs'], 'output_specs'), name);
  const free = slots.filter((slot) => slot.stored === undefined && slot.fixed === undefined);
  const values = object(graph['tensor_values'], 'tensor_values');
  return {
    parameters: free.map((slot) => parameterOf(slot.name, object(values[slot.name], slot.name), names)),
    run: (c, problems, args) => {
      const given = free.map((slot, i) => [slot.name, args[i] ?? null] as const);
      return runGraph(c, problems, { graph, module, inputs: [...given, ...fixedOf(c, slots)] });
    },
  };
}

function runGraph(
  c: Context,
  problems: Problems,
  { graph, module, inputs }: { graph: Json; module: Json; inputs: readonly (readonly [string, Py])[] },
): { result: () => Py; position: () => string } {
  const program = new Program(c, problems);
  return {
    result: () => arrange(module, program.run(graph, new Map(inputs))),
    position: () => program.position,
  };
}

function fixedOf(c: Context, slots: readonly Slot[]): (readonly [string, Py])[] {
  return slots.flatMap(({ name, stored, fixed }): (readonly [string, Py])[] => {
    if (stored) return [[name, storedRef(c, stored, name)]];
    return fixed === undefined ? [] : [[name, fixed]];
  });
}

/** An input of the graph: a parameter, buffer or constant of the module, a number, or what the caller gives. */
function slotOf(spec: Json, weights: ProgramWeights): Slot {
  const [kind = '', said] = Object.entries(spec)[0] ?? [];
  const of = object(said, kind);
  if (kind === 'user_input') {
    const given = object(of['arg'], 'user_input');
    const tensor = optional(given['as_tensor']);
    if (tensor) return { name: text(tensor['name'], 'name of an input') };
    return { name: '', fixed: null };
  }
  if (kind === 'constant_input')
    return { name: text(of['name'], 'name'), fixed: constantOf(object(of['value'], 'value')) };
  const target = of['parameter_name'] ?? of['buffer_name'] ?? of['tensor_constant_name'];
  if (target === undefined) return refuse(`an input of the kind ${kind} is not supported`);
  const stored = weights.reader(text(target, kind));
  return { name: text(object(of['arg'], kind)['name'], 'name of an input'), stored };
}

/** A number that was fixed when the program was made. */
function constantOf(value: Json): Py {
  const [kind, content] = Object.entries(value)[0] ?? [];
  if (kind === 'as_float') return new Float(Number(content));
  if (kind === 'as_none') return null;
  return typeof content === 'number' || typeof content === 'boolean' || typeof content === 'string'
    ? content
    : null;
}

/** @throws bad_model for a program that keeps a state or writes to its inputs */
function assertOutputs(specs: readonly unknown[], name: string): void {
  for (const spec of specs) {
    const [kind = ''] = Object.keys(object(spec, 'output'));
    if (kind !== 'user_output')
      throw badModel(
        `${name}: the program keeps a state from one call to the next (${kind}), which cannot be served; if it is in training mode, call model.eval() before torch.export.export`,
      );
  }
}

/** The free sizes of the program, by the names that its inputs get: N for that of the rows. */
class Symbols {
  readonly #names = new Map<string, string>();

  dim(size: Json, axis: number): Dim {
    const fixed = size['as_int'];
    if (typeof fixed === 'number') return fixed;
    const expression = text(object(size['as_expr'], 'size')['expr_str'], 'size');
    const [, symbol] = /^Symbol\('(\w+)'[^()]*\)$/.exec(expression) ?? /^(\w+)$/.exec(expression) ?? [];
    if (symbol === undefined) return refuse(`a size of an input is ${expression}, which is not supported`);
    const isTaken = [...this.#names.values()].includes(BATCH);
    const known = this.#names.get(symbol) ?? (axis === 0 && !isTaken ? BATCH : symbol);
    this.#names.set(symbol, known);
    return known;
  }
}

function parameterOf(name: string, meta: Json, symbols: Symbols): Parameter {
  const shape = list(meta['sizes'], name).map((size, axis) => symbols.dim(object(size, name), axis));
  const dtype = DTYPES[typeOf(meta['dtype'])];
  if (!dtype) return refuse(`input "${name}" has a type that is not supported`);
  return { name, type: 'Tensor', hasDefault: false, spec: { name, shape, dtype, isOfFile: true } };
}
