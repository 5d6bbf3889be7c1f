/** Small models of texts as Hugging Face lays them out, and the tokenizers that were trained for tests. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

const MODELS = fileURLToPath(new URL('../fixtures/text-models/', import.meta.url));
const TOKENIZERS = fileURLToPath(new URL('../lib/text/tokenizers/', import.meta.url));

export type Tokenizer = Readonly<Record<string, unknown>>;

/** A temporary folder, which is removed after the test. */
export function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'text-model-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** One of test/lib/text/tokenizers. */
export function trainedTokenizer(name: string): Tokenizer {
  const text = gunzipSync(readFileSync(join(TOKENIZERS, `${name}.json.gz`))).toString();
  return (JSON.parse(text) as { tokenizer: Tokenizer }).tokenizer;
}

/** A copy of a model of test/fixtures/text-models, with its tokenizer. */
export function textModelFolder(t: TestContext, name: 'encoder' | 'classifier'): string {
  const folder = join(temporary(t), name);
  cpSync(join(MODELS, name), folder, { recursive: true });
  const tokenizer = trainedTokenizer(name === 'encoder' ? 'bert-uncased' : 'roberta');
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  return folder;
}

export interface Expected {
  readonly text: string;
  readonly pair?: string | null;
  /** How many the tokenizer makes of it. */
  readonly tokens: number;
  readonly embedding?: readonly number[];
  readonly probabilities?: readonly number[];
}

/** The answer of the numpy model of make.py. */
export function expectedAnswers(name: 'encoder' | 'classifier'): readonly Expected[] {
  return JSON.parse(readFileSync(join(MODELS, name, 'expected.json'), 'utf8')) as Expected[];
}
