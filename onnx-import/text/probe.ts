/**
 * Runs made-up texts alone and padded in a run with longer ones, and compares what the model answers. A model without an
 * attention mask, or one that does not obey it, answers padded texts differently.
 */
import { dirname } from 'node:path';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { tokensText } from '../../lib/contract/texts.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import type { Optimization } from '../../lib/contract/verification.ts';
import { tensorRunner } from '../../lib/inference/runner.ts';
import { openSession } from '../../lib/inference/session.ts';
import { readTextModel } from '../../lib/text/files.ts';
import { textRunner } from '../../lib/text/runner.ts';
import { fill } from '../../lib/text/template.ts';
import { differenceOf, tolerancesOf } from '../batching/alone.ts';
import { randomNumbers } from '../samples/inputs.ts';
import { messageOf } from '../samples/reference.ts';
import { rowAt } from '../samples/rows.ts';

export interface PaddingRequest {
  readonly file: string;
  readonly optimization: Optimization;
}

export interface PaddingReport {
  readonly padding: 'agrees' | 'differs';
  /** Undefined where they agree. */
  readonly paddingReason?: string;
}

/** Tokens of the texts, without the special ones: those of a line share a run. */
const LENGTHS = [
  [1, 2, 3, 5, 8, 11, 13],
  [20, 23, 27, 31, 36],
];
const ROUNDS = 3;
/** Sums have one order, whatever the machine. */
const THREADS = 1;

export async function probePadding({ file, optimization }: PaddingRequest): Promise<PaddingReport> {
  const session = await openSession(file, { threads: THREADS, optimization });
  try {
    const model = await tensorRunner(session, { image: {}, batching: 'always' });
    const text = await readTextModel(dirname(file));
    const { settings, tokenizer } = text;
    if (settings.padding === null)
      return { padding: 'differs', paddingReason: 'the tokenizer has no padding' };
    const [alone, together] = [false, true].map((mayPad) =>
      textRunner(model, text, { maxRows: 32, mayPad, anyIds: true }),
    );
    const run = async (runner: typeof alone, texts: readonly string[]): Promise<Tensor> => {
      const feeds: Tensor[] = [{ dtype: 'string', shape: [texts.length], data: texts }];
      return (await runner?.run(feeds))?.[0] as NamedTensor;
    };
    // Some tokenizers have more tokens than the model knows.
    for (const size of [tokenizer.size, Math.ceil(tokenizer.size / 2), 2]) {
      try {
        for (let round = 0; round < ROUNDS; round++) {
          for (const lengths of LENGTHS) {
            const texts = lengths.map((length, i) => {
              const random = randomNumbers(1_000 * round + length + i);
              const ids = Array.from({ length }, () => Math.floor(random() * size));
              return tokensText(
                fill(tokenizer.templates, ids, undefined, undefined).ids.slice(0, settings.maxTokens),
              );
            });
            const answers: Tensor[] = [];
            for (const one of texts) answers.push(rowAt(await run(alone, [one]), 0, 0));
            const padded = await run(together, texts);
            for (const [i, answer] of answers.entries()) {
              const difference = differenceOf(rowAt(padded, 0, i), answer, () => tolerancesOf(answers));
              if (difference !== undefined)
                return { padding: 'differs', paddingReason: `a padded made-up text gives ${difference}` };
            }
          }
        }
        return { padding: 'agrees' };
      } catch (error) {
        if (size === 2)
          return { padding: 'differs', paddingReason: `made-up texts do not run (${messageOf(error)})` };
      }
    }
    return { padding: 'differs' };
  } finally {
    await session.close();
  }
}
