/**
 * POST /v1/embeddings, in the form of OpenAI's API: texts, or token ids that the caller has made, become vectors. It
 * serves models that an import made into models of texts and that answer with one vector for each.
 */

import { isObject, readJson } from '../codecs/instances.ts';
import { quoteName, quoteValue } from '../codecs/quote.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { isCount } from '../contract/present.ts';
import type { Inputs, NamedTensor, Outcome, Runner } from '../contract/values.ts';
import { floatText } from '../pipeline/answer/postprocess.ts';
import type { InvocationClock } from '../pipeline/deadline.ts';
import { answerRecords } from './answer-records.ts';
import { assertModel, type InferenceDeps } from './open-inference/run.ts';
import type { HttpRequest } from './request.ts';
import type { HttpResponse } from './response.ts';

interface Asked {
  readonly model: string;
  readonly records: readonly Inputs[];
  readonly isBase64: boolean;
  /** How many numbers a vector is to have; undefined: as many as the model gives. */
  readonly dimensions: number | undefined;
  /** The name of what goes in front of each text. */
  readonly prompt: string | undefined;
}

/** The input of models that have prompts. */
const PROMPT = 'prompt_name';
const MAX_TOKEN_ID = 2 ** 31 - 1;

/** @throws bad_request, bad_input, not_found for a model without embeddings, too_large */
export function answerEmbeddings(
  request: HttpRequest,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  return answerRecords(deps, clock, {
    read: () => readEmbeddings(request.body()),
    assertServes: (runner, asked) => asked.assertServes(runner),
    answer: (outcomes, asked) => asked.answer(outcomes),
  });
}

/**
 * The request that a body is, and its answer.
 * @param job refuses another model. Default: the caller looks for it
 * @throws bad_request, not_found, too_large
 */
export function readEmbeddings(body: Uint8Array | string, job?: string) {
  const asked = askedOf(body);
  const { model, records, dimensions, isBase64 } = asked;
  if (job !== undefined) assertModel(model, job);
  return {
    model,
    records,
    assertServes: (runner: Runner) => assertEmbeds(runner, model, asked),
    answer: (outcomes: readonly Outcome[]) =>
      answerText(
        model,
        outcomes.map((outcome) => shortened(outcome, dimensions)),
        isBase64,
      ),
  };
}

function askedOf(body: Uint8Array | string): Asked {
  const { parsed } = readJson(body);
  if (!isObject(parsed)) throw badRequest('expected {"input": "text", "model": "..."}');
  const { input, model, encoding_format: format = 'float', dimensions, prompt_name: prompt } = parsed;
  if (typeof model !== 'string') throw badRequest(`"model": expected a name, got ${quoteValue(model)}`);
  if (format !== 'float' && format !== 'base64') {
    throw badRequest(`"encoding_format": expected "float" or "base64", got ${quoteValue(format)}`);
  }
  if (dimensions !== undefined && !(isCount(dimensions) && dimensions > 0)) {
    throw badRequest(`"dimensions": expected a whole number from 1, got ${quoteValue(dimensions)}`);
  }
  if (prompt !== undefined && prompt !== null && typeof prompt !== 'string') {
    throw badRequest(`"prompt_name": expected a name, got ${quoteValue(prompt)}`);
  }
  const inputs = inputsOf(input);
  if (inputs.length > LIMITS.instances) throw overLimit('instances', `${inputs.length} inputs are`);
  return {
    model,
    records: inputs.map((one, index) => withPrompt(recordOf(one, index), prompt ?? undefined)),
    prompt: prompt ?? undefined,
    isBase64: format === 'base64',
    dimensions,
  };
}

/** One text, several, the tokens of one, or those of several. */
function inputsOf(input: unknown): readonly unknown[] {
  if (!Array.isArray(input)) return [input];
  const list: readonly unknown[] = input;
  if (list.length === 0) throw badRequest('"input": expected at least one text');
  return list.every((one) => typeof one === 'number') ? [list] : list;
}

function withPrompt(record: Inputs, prompt: string | undefined): Inputs {
  return prompt === undefined ? record : new Map([...record, [PROMPT, { kind: 'json', value: prompt }]]);
}

function recordOf(input: unknown, index: number): Inputs {
  if (typeof input === 'string') return new Map([['text', { kind: 'json', value: input }]]);
  const isId = (id: unknown) => isCount(id) && id <= MAX_TOKEN_ID;
  if (Array.isArray(input) && input.length > 0 && input.every(isId)) {
    const data = Int32Array.from(input);
    return new Map([['text', { kind: 'tensor', tensor: { dtype: 'int32', shape: [data.length], data } }]]);
  }
  throw badRequest(`"input" ${index}: expected a text or a list of token ids, got ${quoteValue(input)}`);
}

function assertEmbeds(
  { inputs = [], outputs = [] }: Runner,
  model: string,
  { dimensions, prompt }: Asked,
): void {
  const [output] = outputs;
  if (!inputs[0]?.isText || output?.name !== 'embedding') {
    throw new ServingError(
      'not_found',
      `the model of ${quoteName(model)} gives no embeddings of texts; POST /predict asks it`,
    );
  }
  if (prompt !== undefined && !inputs.some(({ name }) => name === PROMPT))
    throw badRequest(`"${PROMPT}": the model has no prompts`);
  const width = output.shape.at(-1);
  if (dimensions === undefined || typeof width !== 'number' || dimensions <= width) return;
  throw badRequest(`"dimensions": ${dimensions}; the model's vectors have ${width}`);
}

/** With the first numbers of its vector. One of length 1 has it afterwards, too, as OpenAI's have. */
function shortened(outcome: Outcome, dimensions: number | undefined): Outcome {
  if (!outcome.ok || dimensions === undefined) return outcome;
  const outputs = outcome.outputs.map((output): NamedTensor => {
    const whole = output.data;
    // A model of embeddings has no other.
    if (!(whole instanceof Float32Array)) return output;
    const data = whole.slice(0, dimensions);
    const isUnit = Math.abs(lengthOf(whole) - 1) < 1e-3;
    const length = isUnit ? Math.max(lengthOf(data), 1e-12) : 1;
    return {
      ...output,
      dtype: 'float32',
      shape: [...output.shape.slice(0, -1), data.length],
      data: data.map((value) => value / length),
    };
  });
  return { ...outcome, outputs };
}

function lengthOf(vector: Float32Array): number {
  return Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
}

function answerText(model: string, outcomes: readonly Outcome[], isBase64: boolean): string {
  const vectors = outcomes.flatMap((outcome) => (outcome.ok ? outcome.outputs.slice(0, 1) : []));
  const least = vectors.reduce((sum, { data }) => sum + data.length * (isBase64 ? 5 : 2), 0);
  if (least > LIMITS.httpBodyBytes)
    throw overLimit('httpBodyBytes', `the answer has ${least} bytes and more, which are`);
  const tokens = vectors.reduce(
    (sum, vector) => sum + (vector.tokens ?? []).reduce((all, count) => all + count, 0),
    0,
  );
  const data = vectors.map(
    (vector, index) => `{"object":"embedding","index":${index},"embedding":${vectorText(vector, isBase64)}}`,
  );
  const usage = JSON.stringify({ prompt_tokens: tokens, total_tokens: tokens });
  const text = `{"object":"list","data":[${data.join(',')}],"model":${JSON.stringify(model)},"usage":${usage}}`;
  if (text.length > LIMITS.httpBodyBytes)
    throw overLimit('httpBodyBytes', `the answer has ${text.length} bytes, which are`);
  return text;
}

/** Base64 of float32, little-endian. */
function vectorText({ data }: NamedTensor, isBase64: boolean): string {
  const values = data as Float32Array;
  if (!isBase64) return `[${Array.from(values, (value) => floatText(value, true)).join(',')}]`;
  return `"${Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64')}"`;
}
