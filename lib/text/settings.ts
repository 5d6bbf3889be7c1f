/**
 * text.json, which an import writes beside a model with a tokenizer: how to treat texts and the model's output.
 * Functions read it instead of the many files of Hugging Face.
 */

import { badModel } from '../contract/errors.ts';
import { isCount } from '../contract/present.ts';
import { TEXT_FILE } from '../contract/texts.ts';
import type { Unknown } from '../contract/verification.ts';
import { isLayer, type Layer, MOST_LAYERS } from './layers.ts';

/** In the order in which sentence-transformers puts several of them together. */
export const POOLINGS = ['cls', 'lasttoken', 'max', 'mean', 'mean_sqrt_len_tokens', 'weightedmean'] as const;
export type Pooling = (typeof POOLINGS)[number];

const ACTIVATIONS = ['softmax', 'sigmoid', 'none'] as const;
export type Activation = (typeof ACTIVATIONS)[number];

export interface TextSettings {
  /** The version of this document's format. */
  readonly version: 1;
  /** The model's answer: numbers by class, or a vector for each text. */
  readonly kind: 'classes' | 'embedding';
  /** The model's own output that counts. */
  readonly output: string;
  /** How scores of classes are computed. */
  readonly activation: Activation;
  /** How the vectors of tokens become one, several after one another; empty where the model gives one. */
  readonly pooling: readonly Pooling[];
  /** The layers that the vector passes before it is scaled, in this order. Absent: none. */
  readonly layers?: readonly Layer[];
  /** True if vectors are scaled to length 1. */
  readonly normalize: boolean;
  /** Most tokens of a run's text, with the special ones. */
  readonly maxTokens: number;
  /** True if texts become lower case before they are tokenized. */
  readonly lowercase: boolean;
  /** At most so many numbers of a vector. Absent: all. */
  readonly dimensions?: number;
  /** Texts that go in front of a text, by the names under which records ask for them. Absent: there are none. */
  readonly prompts?: Readonly<Record<string, string>>;
  /** The name of the prompt of a record that names none. Absent: it gets none. */
  readonly defaultPrompt?: string;
  /** True if a second text may come with each text. */
  readonly pair: boolean;
  /** Null: the tokenizer cannot pad, so only texts of equal length share a run. */
  readonly padding: {
    readonly id: number;
    readonly type: number;
    readonly side: 'right' | 'left';
    readonly multipleOf: number;
    /** The least number of tokens; null: the length of the longest text. */
    readonly fixed: number | null;
  } | null;
}

export const MAX_TOKENS_PER_TEXT = 65_536;

/** @throws bad_model for what no import wrote */
export function parseTextSettings(text: string): TextSettings {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Same result as for a value that is not an object.
  }
  if (isTextSettings(value)) return value;
  throw badModel(`${TEXT_FILE}: it is not what an import of this release writes; import the model again`);
}

function isTextSettings(value: unknown): value is TextSettings {
  const read: Unknown<TextSettings> = Object(value);
  const { version, kind, output, activation, pooling, layers = [], maxTokens, padding } = read;
  const isPadding = padding === null || (typeof padding === 'object' && isCount(Object(padding).id));
  return (
    version === 1 &&
    (kind === 'classes' || kind === 'embedding') &&
    typeof output === 'string' &&
    ACTIVATIONS.some((one) => one === activation) &&
    Array.isArray(pooling) &&
    pooling.every((one) => POOLINGS.includes(one)) &&
    Array.isArray(layers) &&
    layers.length <= MOST_LAYERS &&
    layers.every(isLayer) &&
    isCount(maxTokens) &&
    maxTokens <= MAX_TOKENS_PER_TEXT &&
    isPadding
  );
}
