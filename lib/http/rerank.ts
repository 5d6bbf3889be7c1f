/**
 * POST /rerank, in the forms of text-embeddings-inference and of Cohere: texts in the order in which they answer a query.
 * It serves cross-encoders: models of texts that take a second text and answer with one score.
 */
import { isObject, readJson } from '../codecs/instances.ts';
import { quoteName, quoteValue } from '../codecs/quote.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { isCount } from '../contract/present.ts';
import type { Inputs, Outcome, Runner, Value } from '../contract/values.ts';
import { floatText } from '../pipeline/answer/postprocess.ts';
import type { InvocationClock } from '../pipeline/deadline.ts';
import { answerRecords } from './answer-records.ts';
import { type InferenceDeps, jobOf } from './open-inference/run.ts';
import type { HttpRequest } from './request.ts';
import type { HttpResponse } from './response.ts';

interface Asked {
  /** The name that the body has; undefined for that of the request. */
  readonly model: string | undefined;
  /** The query with each of the texts. */
  readonly records: readonly Inputs[];
  readonly texts: readonly string[];
  readonly isCohere: boolean;
  /** True: scores are the model's own numbers. */
  readonly isRaw: boolean;
  readonly withTexts: boolean;
  /** False: a text that is longer than the model takes is an error. */
  readonly cutsOff: boolean;
  /** The most results; undefined: all. */
  readonly most: number | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/** @throws bad_request, bad_input, not_found for a model that is not a cross-encoder, too_large */
export function answerRerank(
  request: HttpRequest,
  deps: InferenceDeps,
  clock: InvocationClock | undefined,
): Promise<HttpResponse> {
  return answerRecords(deps, clock, {
    read: () => askedOf(request),
    assertServes: (runner, { model }) => assertScoresPairs(runner, model ?? jobOf(deps)),
    answer: (outcomes, asked) => {
      if (!asked.cutsOff) assertWhole(outcomes);
      return answerText(asked, outcomes.map(rawScoreOf));
    },
  });
}

function askedOf(request: HttpRequest): Asked {
  const { parsed } = readJson(request.body());
  if (!isObject(parsed)) throw badRequest('expected {"query": "a text", "texts": ["another", ...]}');
  const { query, texts, documents, model, top_n: most } = parsed;
  if (typeof query !== 'string') throw badRequest(`"query": expected a text, got ${quoteValue(query)}`);
  if ((texts === undefined) === (documents === undefined))
    throw badRequest('expected either "texts" or "documents"');
  if (model !== undefined && typeof model !== 'string')
    throw badRequest(`"model": expected a name, got ${quoteValue(model)}`);
  if (most !== undefined && !(isCount(most) && most > 0))
    throw badRequest(`"top_n": expected a whole number from 1, got ${quoteValue(most)}`);
  assertDirection(parsed);
  const isCohere = documents !== undefined;
  const list = isCohere ? textsOf('documents', documents) : textsOf('texts', texts);
  if (list.length > LIMITS.instances) throw overLimit('instances', `${list.length} texts are`);
  // The model reads the query once for each text.
  const characters = query.length * list.length;
  if (characters > LIMITS.httpBodyBytes)
    throw overLimit(
      'httpBodyBytes',
      `the query, once for each text, has ${characters} characters, which are`,
    );
  return {
    model,
    records: list.map((text) => new Map([inputOf('text', query), inputOf('text_pair', text)])),
    texts: list,
    isCohere,
    isRaw: !isCohere && flagOf(parsed, 'raw_scores'),
    withTexts: flagOf(parsed, isCohere ? 'return_documents' : 'return_text'),
    cutsOff: flagOf(parsed, 'truncate', true),
    most,
  };
}

function inputOf(name: string, value: string): [string, Value] {
  return [name, { kind: 'json', value }];
}

function flagOf(fields: Fields, name: string, fallback = false): boolean {
  const value = fields[name] ?? fallback;
  if (typeof value === 'boolean') return value;
  throw badRequest(`"${name}": expected true or false, got ${quoteValue(value)}`);
}

/** On which side long texts are cut off is the tokenizer's, so another wish would be answered with a wrong score. */
function assertDirection({ truncation_direction: direction }: Fields): void {
  if (direction === undefined || direction === null) return;
  if (typeof direction === 'string' && /^right$/i.test(direction)) return;
  throw badRequest(`"truncation_direction": expected "right", got ${quoteValue(direction)}`);
}

/** Cohere's documents may be objects. */
function textsOf(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0)
    throw badRequest(`"${name}": expected a list of at least one text, got ${quoteValue(value)}`);
  return value.map((one: unknown, index) => {
    const text = name === 'documents' && isObject(one) ? one['text'] : one;
    if (typeof text === 'string') return text;
    throw badRequest(`"${name}" ${index}: expected a text, got ${quoteValue(one)}`);
  });
}

function assertScoresPairs({ inputs = [], outputs = [] }: Runner, job: string): void {
  const [output] = outputs;
  const takesPairs = inputs[0]?.isText && inputs.some(({ name }) => name === 'text_pair');
  if (takesPairs && output?.shape.at(-1) === 1) return;
  throw new ServingError(
    'not_found',
    `the model of ${quoteName(job)} is not a cross-encoder: it does not give one score for two texts; POST /predict asks it`,
  );
}

/** In the words of text-embeddings-inference. @throws too_large */
function assertWhole(outcomes: readonly Outcome[]): void {
  for (const [index, outcome] of outcomes.entries()) {
    const output = outcome.ok ? outcome.outputs[0] : undefined;
    const [read = 0, whole = read] = [output?.tokens?.[0], output?.wholeTokens?.[0]];
    if (whole > read)
      throw new ServingError(
        'too_large',
        `text ${index} and the query: \`inputs\` must have less than ${read} tokens. Given: ${whole}; shorten them, or send "truncate": true`,
      );
  }
}

/** Before a sigmoid: two scores that float32 rounds to 1 still differ there. */
function rawScoreOf(outcome: Outcome): number {
  // One bad text has failed the request.
  const output = outcome.ok ? outcome.outputs[0] : undefined;
  return Number(output?.logits?.[0] ?? output?.data[0]);
}

function answerText({ isCohere, isRaw, withTexts, texts, most }: Asked, raw: readonly number[]): string {
  const scores = raw.map((own, index) => ({ own, index, rank: Number.isNaN(own) ? -Infinity : own }));
  // Two infinities have no difference.
  scores.sort((a, b) => (a.rank === b.rank ? 0 : b.rank - a.rank));
  const results = scores.slice(0, most).map(({ own, index }) => {
    const score = floatText(Math.fround(isRaw ? own : 1 / (1 + Math.exp(-own))), true);
    const text = JSON.stringify(texts[index]);
    if (!isCohere) return `{"index":${index},"score":${score}${withTexts ? `,"text":${text}` : ''}}`;
    const document = withTexts ? `,"document":{"text":${text}}` : '';
    return `{"index":${index},"relevance_score":${score}${document}}`;
  });
  const answer = isCohere ? `{"results":[${results.join(',')}]}` : `[${results.join(',')}]`;
  if (answer.length > LIMITS.httpBodyBytes)
    throw overLimit('httpBodyBytes', `the answer has ${answer.length} characters, which are`);
  return answer;
}
