/** What a folder of Hugging Face says of its model, put together into the settings that functions read (text.json). */

import { badModel } from '../../lib/contract/errors.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { MODEL_INPUTS } from '../../lib/text/runner.ts';
import type { Activation, TextSettings } from '../../lib/text/settings.ts';
import { MAX_TOKENS_PER_TEXT } from '../../lib/text/settings.ts';
import type { Tokenizer } from '../../lib/text/tokenizer.ts';
import { type Json, readConfig } from './folder.ts';
import type { ReadLayer, ReadPickle } from './layers.ts';
import { readModules } from './pooling.ts';
import { promptsOf, SENTENCES } from './prompts.ts';

export interface TextFacts {
  readonly settings: TextSettings;
  /** With the weights of the settings' layers. */
  readonly layers: readonly ReadLayer[];
  /** What was assumed, and what follows for callers. */
  readonly notes: readonly string[];
}

export interface TextOptions {
  /** Names of files whose advice is not followed. */
  readonly ignore: readonly string[];
  readonly readPickle: ReadPickle;
}

interface Source extends Pick<TextOptions, 'readPickle'> {
  readonly folder: string;
  readonly config: Json;
  readonly tokenizerConfig: Json;
  readonly tokenizer: Tokenizer;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

const IDS_INSTEAD = 'remove tokenizer.json to serve the model with token ids and its raw outputs';
const LAYER_NAMES = {
  dense: 'through a dense layer',
  layer_norm: 'through a layer normalization',
  normalize: 'scaled to length 1',
} as const;
const TOKEN_VECTORS = ['token_embeddings', 'last_hidden_state'];
/** Their positions begin behind that of the padding. */
const LATE_POSITIONS =
  /^(roberta|xlm-roberta|xlm-roberta-xl|camembert|mpnet|longformer|data2vec-text|xmod|luke|mluke|ibert)$/;

/** @throws bad_model for a model that is neither a classifier nor gives vectors, naming what it is */
export async function textFacts(
  folder: string,
  tokenizer: Tokenizer,
  { inputs, outputs }: Pick<Source, 'inputs' | 'outputs'>,
  { ignore, readPickle }: TextOptions,
): Promise<TextFacts> {
  const config = await readConfig(folder, 'config.json');
  const tokenizerConfig = await readConfig(folder, 'tokenizer_config.json');
  const source: Source = { folder, config, tokenizerConfig, tokenizer, inputs, outputs, readPickle };
  assertInputs(source);
  const answer = await answerOf(source);
  const { layers = [] } = answer;
  const sentence = await readConfig(folder, 'sentence_bert_config.json');
  const limit = limitOf(source, sentence);
  const pair = answer.kind === 'classes' && tokenizer.templates.pair !== undefined;
  const padding = await paddingOf(source);
  const prompts =
    answer.kind === 'embedding' && !ignore.includes(SENTENCES) ? await promptsOf(folder) : undefined;
  const settings: TextSettings = {
    version: 1,
    kind: answer.kind,
    output: answer.output,
    activation: answer.activation ?? 'none',
    pooling: answer.pooling ?? [],
    ...(layers.length > 0 && { layers: layers.map(({ layer }) => layer) }),
    normalize: answer.normalize ?? false,
    ...prompts?.settings,
    maxTokens: limit.maxTokens,
    lowercase: sentence['do_lower_case'] === true,
    pair,
    padding,
  };
  const many =
    padding === null ? ['the tokenizer has no padding, so only texts of equal length share a run'] : [];
  return { settings, layers, notes: [...answer.notes, ...(prompts?.notes ?? []), limit.note, ...many] };
}

/** @throws bad_model */
function assertInputs({ inputs, config }: Source): void {
  const architecture = architectureOf(config);
  for (const { name, dtype, shape } of inputs) {
    if (/^past_key_values|use_cache_branch|^decoder_/.test(name)) {
      throw badModel(`${architecture} generates text (input "${name}"), which is not served; ${IDS_INSTEAD}`);
    }
    if (!MODEL_INPUTS.includes(name)) {
      throw badModel(
        `a text does not say what the input "${name}" is to be; export the model without it, or ${IDS_INSTEAD}`,
      );
    }
    const isIds = (dtype === 'int64' || dtype === 'int32') && shape.length === 2;
    if (!isIds)
      throw badModel(
        `input "${name}": expected int64 or int32 [rows, tokens], found ${dtype} [${shape.join(',')}]`,
      );
  }
  if (!inputs.some(({ name }) => name === 'input_ids'))
    throw badModel(`the model has no input "input_ids"; ${IDS_INSTEAD}`);
  if (
    inputs.some(({ name }) => name === 'position_ids') &&
    LATE_POSITIONS.test(String(config['model_type']))
  ) {
    throw badModel(
      `${architecture}: its position_ids do not begin at 0; export the model without the input "position_ids"`,
    );
  }
}

function architectureOf({ architectures, model_type: type }: Json): string {
  const [first] = Array.isArray(architectures) ? (architectures as unknown[]) : [];
  return typeof first === 'string' ? first : typeof type === 'string' ? type : 'the model';
}

interface Answer
  extends Pick<TextSettings, 'kind' | 'output'>,
    Partial<Pick<TextSettings, 'activation' | 'pooling' | 'normalize'>> {
  readonly layers?: readonly ReadLayer[];
  readonly notes: readonly string[];
}

async function answerOf(source: Source): Promise<Answer> {
  const { outputs, config, folder } = source;
  const named = (name: string) => outputs.find((output) => output.name === name);
  const sentence = named('sentence_embedding');
  if (sentence) {
    assertFloats(sentence, 2);
    const { normalize } = await readModules(folder, true, source.readPickle);
    return {
      kind: 'embedding',
      output: sentence.name,
      normalize,
      notes: ['a text becomes the sentence_embedding that the model itself gives'],
    };
  }
  const logits = named('logits');
  if (
    logits?.shape.length === 2 &&
    !/For(QuestionAnswering|TokenClassification|CausalLM|MaskedLM)$/.test(architectureOf(config))
  ) {
    assertFloats(logits, 2);
    return { kind: 'classes', output: logits.name, ...activationOf(config, logits) };
  }
  const vectors = TOKEN_VECTORS.map(named).find((output) => output !== undefined);
  if (vectors && !logits) {
    assertFloats(vectors, 3);
    return { kind: 'embedding', output: vectors.name, ...(await poolingFor(source)) };
  }
  const found = outputs
    .map(({ name, shape }) => `${name} [${shape.join(',')}]`)
    .join(', ')
    .slice(0, 400);
  throw badModel(
    `${architectureOf(config)}: its outputs ${found} are neither scores of classes for each text (logits [rows, labels]) nor vectors (sentence_embedding, last_hidden_state); token classification, question answering and generation are not served from texts; ${IDS_INSTEAD}`,
  );
}

function assertFloats({ name, dtype, shape, batchAxis }: TensorSpec, rank: number): void {
  if (/^float(16|32|64)$/.test(dtype) && shape.length === rank && (batchAxis ?? 0) === 0) return;
  throw badModel(`output "${name}": expected floats of rank ${rank}, found ${dtype} [${shape.join(',')}]`);
}

async function poolingFor({
  folder,
  readPickle,
}: Source): Promise<Pick<Answer, 'pooling' | 'layers' | 'normalize' | 'notes'>> {
  const { pooling, layers, normalize } = await readModules(folder, false, readPickle);
  const steps = layers.map(({ layer }) => LAYER_NAMES[layer.kind]);
  const end = [...steps, ...(normalize ? ['scaled to length 1'] : [])].map((step) => `, ${step}`).join('');
  if (pooling)
    return {
      pooling,
      layers,
      normalize,
      notes: [`a text becomes the ${pooling.join(' and ')} of its tokens' vectors${end}`],
    };
  const assumed = `assumed: a text becomes the mean of its tokens' vectors${end}, because no 1_Pooling/config.json says otherwise; put that file of the model beside it, if its vectors are made in another way`;
  return { pooling: ['mean'], layers, normalize, notes: [assumed] };
}

/** As the pipeline of transformers, and as the CrossEncoder of sentence-transformers where the config has its word. */
function activationOf(
  config: Json,
  { name, shape }: TensorSpec,
): { activation: Activation; notes: string[] } {
  const { problem_type: problem, id2label } = config;
  const labels = typeof id2label === 'object' && id2label !== null ? Object.keys(id2label).length : undefined;
  const last = shape.at(-1);
  const count = typeof last === 'number' ? last : labels;
  if (labels !== undefined && count !== labels) {
    throw badModel(`config.json: id2label has ${labels} labels, and the output "${name}" ${count}`);
  }
  const own = (config['sentence_transformers'] ?? {}) as Json;
  const named = own['activation_fn'] ?? config['sbert_ce_default_activation_function'];
  if (typeof named === 'string') {
    const kind = named.split('.').at(-1);
    if (kind === 'Identity')
      return { activation: 'none', notes: ['config.json: its scores are left as they are'] };
    if (kind === 'Sigmoid') return { activation: 'sigmoid', notes: [] };
    throw badModel(
      `config.json: the activation ${JSON.stringify(named.slice(0, 80))} is not served; expected Identity or Sigmoid of torch`,
    );
  }
  switch (problem ?? null) {
    case 'regression':
      return {
        activation: 'none',
        notes: ['config.json: problem_type regression, so scores are left as they are'],
      };
    case 'multi_label_classification':
      return {
        activation: 'sigmoid',
        notes: ['each label has a probability of its own (sigmoid), as problem_type says'],
      };
    case 'single_label_classification':
    case null:
      break;
    default:
      throw badModel(`config.json: problem_type ${JSON.stringify(problem)} is not known`);
  }
  if (count === 1)
    return {
      activation: 'sigmoid',
      notes: [
        'assumed: the only score becomes a probability (sigmoid), because config.json has no problem_type',
      ],
    };
  return { activation: 'softmax', notes: [] };
}

function limitOf(
  { config, tokenizerConfig, tokenizer, inputs }: Source,
  sentence: Json,
): { maxTokens: number; note: string } {
  const isCount = (value: unknown): value is number =>
    Number.isSafeInteger(value) && (value as number) > 0 && (value as number) <= MAX_TOKENS_PER_TEXT;
  const positions = config['max_position_embeddings'];
  const late = LATE_POSITIONS.test(String(config['model_type']))
    ? Number(config['pad_token_id'] ?? 1) + 1
    : 0;
  const places = isCount(positions) && positions > late ? positions - late : undefined;
  const from: readonly (readonly [unknown, string])[] = [
    [sentence['max_seq_length'], 'sentence_bert_config.json'],
    [tokenizer.truncation.most, 'tokenizer.json'],
    [tokenizerConfig['model_max_length'], 'tokenizer_config.json'],
    [places, 'max_position_embeddings of config.json'],
  ];
  const fixed = inputs.map(({ shape }) => shape[1]).find((size) => typeof size === 'number');
  const [said, source] = from.find(([value]) => isCount(value)) ?? [512, 'no file, so assumed'];
  const maxTokens = Math.min(said as number, fixed ?? Infinity, places ?? Infinity);
  return { maxTokens, note: `texts are cut off after ${maxTokens} tokens (${source})` };
}

async function paddingOf({
  folder,
  config,
  tokenizerConfig,
  tokenizer,
  inputs,
}: Source): Promise<TextSettings['padding']> {
  const { padding } = tokenizer;
  if (padding) return { ...padding, fixed: padding.fixed ?? null };
  const map = await readConfig(folder, 'special_tokens_map.json');
  const named = tokenizerConfig['pad_token'] ?? map['pad_token'];
  const token = typeof named === 'object' && named !== null ? (named as Json)['content'] : named;
  const id = typeof token === 'string' ? tokenizer.idOf(token) : config['pad_token_id'];
  if (Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < tokenizer.size) {
    const side = tokenizerConfig['padding_side'] === 'left' ? 'left' : 'right';
    return {
      id: id as number,
      type: Number(tokenizerConfig['pad_token_type_id'] ?? 0),
      side,
      multipleOf: 1,
      fixed: null,
    };
  }
  if (inputs.some(({ shape }) => typeof shape[1] === 'number')) {
    throw badModel(
      'the model takes texts of one length only, and no file names the token that fills them up (pad_token)',
    );
  }
  return null;
}
