/**
 * text.json, which an import writes beside a model with a tokenizer: what becomes of texts, and of the model's output.
 * Functions read it in place of the many files of Hugging Face.
 */
import { badModel } from '../contract/errors.ts';
import { TEXT_FILE } from '../contract/texts.ts';

/** In the order in which sentence-transformers puts several of them together. */
export const POOLINGS = ['cls', 'lasttoken', 'max', 'mean', 'mean_sqrt_len_tokens', 'weightedmean'] as const;
export type Pooling = (typeof POOLINGS)[number];

const ACTIVATIONS = ['softmax', 'sigmoid', 'none'] as const;
export type Activation = (typeof ACTIVATIONS)[number];

export interface TextSettings {
  /** Of this document. */
  readonly version: 1;
  /** What the model answers: numbers by class, or a vector for each text. */
  readonly kind: 'classes' | 'embedding';
  /** The model's own output that counts. */
  readonly output: string;
  /** Of classes. */
  readonly activation: Activation;
  /** How the vectors of tokens become one, several after one another; empty where the model gives one. */
  readonly pooling: readonly Pooling[];
  /** Whether vectors are scaled to length 1. */
  readonly normalize: boolean;
  /** Most tokens of a run's text, with the special ones. */
  readonly maxTokens: number;
  /** Whether texts become lower case before they are tokenized. */
  readonly lowercase: boolean;
  /** At most so many numbers of a vector. Absent: all. */
  readonly dimensions?: number;
  /** Texts that go in front of a text, by the names under which records ask for them. Absent: there are none. */
  readonly prompts?: Readonly<Record<string, string>>;
  /** The name of the prompt of a record that names none. Absent: it gets none. */
  readonly defaultPrompt?: string;
  /** Whether a second text may come with each text. */
  readonly pair: boolean;
  /** Null: the tokenizer has none, so only texts of equal length share a run. */
  readonly padding: {
    readonly id: number;
    readonly type: number;
    readonly side: 'right' | 'left';
    readonly multipleOf: number;
    /** At least so many tokens; null: as many as the longest text has. */
    readonly fixed: number | null;
  } | null;
}

export const MAX_TOKENS_PER_TEXT = 65_536;

/** @throws bad_model for what no import wrote */
export function parseTextSettings(text: string): TextSettings {
  let value: Partial<TextSettings> | null = null;
  try {
    value = JSON.parse(text) as Partial<TextSettings> | null;
  } catch {
    // As what is no object.
  }
  const { version, kind, output, activation, pooling, maxTokens, padding } = value ?? {};
  const isPadding = (one: unknown) =>
    one === null || (typeof one === 'object' && isWhole((one as { id?: unknown }).id));
  const isRight =
    version === 1 &&
    (kind === 'classes' || kind === 'embedding') &&
    typeof output === 'string' &&
    ACTIVATIONS.some((one) => one === activation) &&
    Array.isArray(pooling) &&
    pooling.every((one) => POOLINGS.includes(one)) &&
    isWhole(maxTokens) &&
    maxTokens <= MAX_TOKENS_PER_TEXT &&
    isPadding(padding);
  if (isRight) return value as TextSettings;
  throw badModel(`${TEXT_FILE}: it is not what an import of this release writes; import the model again`);
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
