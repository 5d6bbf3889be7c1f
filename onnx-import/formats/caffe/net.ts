/**
 * Reads the text of a net: the layers that run at inference, in order, and the declared inputs. A layer may appear
 * once per phase; its rules (`include`, `exclude`) decide which one runs.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { has, messageOf, messagesOf, numberOf, plainNumbersOf, textOf, textsOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import { readText } from '../../wire/text.ts';
import { NET_TEXT, v1TypeName } from './tables.ts';

const TEST_PHASE = 1;
/** Caffe's largest nets have some thousand layers. */
const MAX_LAYERS = 50_000;
const MAX_CONNECTIONS = 1_000_000;
const MAX_NAME = 1000;
const MAX_INPUTS = 1000;

export interface Layer {
  readonly name: string;
  readonly type: string;
  readonly bottoms: readonly string[];
  readonly tops: readonly string[];
  /** The names of shared parameters; '' for one that is not shared. */
  readonly shared: readonly string[];
  /** All other fields. */
  readonly message: Message;
}

interface DeclaredInput {
  readonly name: string;
  /** Undefined when the net does not give it. */
  readonly shape: readonly number[] | undefined;
}

export interface Net {
  readonly inputs: readonly DeclaredInput[];
  readonly layers: readonly Layer[];
  /** Fields that were skipped because no table has them. */
  readonly notes: readonly string[];
}

/** @throws bad_model naming the file and the line */
export function readNet(text: string, file: string): Net {
  const unknown = new Map<string, Set<string>>();
  const message = readText(text, NET_TEXT, {
    what: file,
    onUnknown: (name, line) => {
      const lines = unknown.get(name) ?? new Set();
      unknown.set(name, lines.add(String(line)));
    },
  });
  const [old, current] = [messagesOf(message, 'layers'), messagesOf(message, 'layer')];
  if (old.length > 0 && current.length > 0)
    throw badModel(`${file}: has both "layer" and "layers", expected one of them`);
  const layers = old.length > 0 ? old.map((layer) => oldLayer(layer, file)) : current.map(currentLayer);
  if (layers.length === 0) throw badModel(`${file}: has no layers`);
  if (layers.length > MAX_LAYERS)
    throw badModel(`${file}: ${layers.length} layers, the limit is ${MAX_LAYERS}`);
  const connections = layers.reduce((sum, { bottoms, tops }) => sum + bottoms.length + tops.length, 0);
  if (connections > MAX_CONNECTIONS)
    throw badModel(`${file}: ${connections} connections, the limit is ${MAX_CONNECTIONS}`);
  for (const { name, type, bottoms, tops } of layers) {
    if ([name, type, ...bottoms, ...tops].some((each) => each.length > MAX_NAME))
      throw badModel(`${file}: a name has more than ${MAX_NAME} characters (layer "${name.slice(0, 40)}")`);
    if ([...bottoms, ...tops].includes(''))
      throw badModel(`${file}: layer "${name}" has a top or bottom without a name`);
  }
  const state = stateOf(messageOf(message, 'state'));
  return {
    inputs: declaredInputs(message, file),
    layers: layers.filter((layer) => runs(layer, state, file)),
    notes: notesOf(unknown),
  };
}

const QUIET: ReadonlySet<string> = new Set(
  (
    'lr_mult decay_mult share_mode blobs_lr weight_decay loss_weight propagate_down force_backward debug_info engine ' +
    'weight_filler bias_filler filler std min max sparse variance_norm loss_param accuracy_param blob_share_mode ' +
    'dropout_param param_str diffusion backend rand_skip prefetch shuffle root_folder mean_file multibox_loss_param ' +
    'detection_evaluate_param annotated_data_param save_output_param resize_param sigmoid_param tanh_param ' +
    'hdf5_output_param contrastive_loss_param infogain_loss_param hinge_loss_param force_nd_im2col stable_prod_grad ' +
    'visualize visualize_threshold save_file need_backward'
  ).split(' '),
);

/** Fields that do not affect inference are skipped without a note. */
function notesOf(unknown: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  return [...unknown]
    .filter(([name]) => !QUIET.has(name))
    .slice(0, 20)
    .map(([name, lines]) => {
      const [first] = lines;
      return `unknown field "${name}" was skipped (line ${first}${lines.size > 1 ? ` and ${lines.size - 1} more` : ''})`;
    });
}

function currentLayer(message: Message): Layer {
  return {
    name: textOf(message, 'name'),
    type: textOf(message, 'type'),
    bottoms: textsOf(message, 'bottom'),
    tops: textsOf(message, 'top'),
    shared: messagesOf(message, 'param').map((param) => textOf(param, 'name')),
    message,
  };
}

function oldLayer(message: Message, file: string): Layer {
  if (has(message, 'layer'))
    throw badModel(
      `${file}: is of Caffe's first format ("layers { layer { ... } }"); bring it up to date with Caffe's upgrade_net_proto_text`,
    );
  const number = numberOf(message, 'type');
  return {
    name: textOf(message, 'name'),
    type: v1TypeName(number) ?? `type ${number}`,
    bottoms: textsOf(message, 'bottom'),
    tops: textsOf(message, 'top'),
    shared: textsOf(message, 'param'),
    message,
  };
}

interface State {
  readonly level: number;
  readonly stages: ReadonlySet<string>;
}

/** The phase is TEST for inference, whatever the file says. */
function stateOf(message: Message | undefined): State {
  return {
    level: message ? numberOf(message, 'level') : 0,
    stages: new Set(message ? textsOf(message, 'stage') : []),
  };
}

function runs(layer: Layer, state: State, file: string): boolean {
  const include = messagesOf(layer.message, 'include');
  const exclude = messagesOf(layer.message, 'exclude');
  if (include.length > 0 && exclude.length > 0)
    throw badModel(`${file}: layer "${layer.name}" has include and exclude rules, expected one kind`);
  if (include.length > 0) return include.some((rule) => meets(state, rule));
  return !exclude.some((rule) => meets(state, rule));
}

function meets(state: State, rule: Message): boolean {
  return (
    numberOf(rule, 'phase', TEST_PHASE) === TEST_PHASE &&
    state.level >= numberOf(rule, 'min_level', -Infinity) &&
    state.level <= numberOf(rule, 'max_level', Infinity) &&
    textsOf(rule, 'stage').every((stage) => state.stages.has(stage)) &&
    !textsOf(rule, 'not_stage').some((stage) => state.stages.has(stage))
  );
}

/** `input`, with `input_shape` or four `input_dim` each. */
function declaredInputs(message: Message, file: string): DeclaredInput[] {
  const names = textsOf(message, 'input');
  if (names.length > MAX_INPUTS || names.some((name) => name === '' || name.length > MAX_NAME))
    throw badModel(
      `${file}: ${names.length} inputs; at most ${MAX_INPUTS}, with names of 1 to ${MAX_NAME} characters`,
    );
  const shapes = messagesOf(message, 'input_shape').map((shape) => plainNumbersOf(shape, 'dim'));
  const dims = plainNumbersOf(message, 'input_dim');
  const wrong = (what: string) =>
    badModel(`${file}: ${names.length} inputs (${names.join(', ')}) and ${what}`);
  if (shapes.length > 0 && shapes.length !== names.length) throw wrong(`${shapes.length} input_shape`);
  if (shapes.length === 0 && dims.length > 0 && dims.length !== 4 * names.length)
    throw wrong(`${dims.length} input_dim, expected 4 for each`);
  return names.map((name, i) => ({
    name,
    shape: shapes[i] ?? (dims.length > 0 ? dims.slice(4 * i, 4 * i + 4) : undefined),
  }));
}
