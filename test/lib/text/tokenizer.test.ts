/** Token ids are those of Hugging Face's tokenizers, which wrote the files beside this one (train.py). */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { ServingError } from '../../../lib/contract/errors.ts';
import { readTokenizer } from '../../../lib/text/tokenizer.ts';

interface Trained {
  readonly tokenizer: Readonly<Record<string, unknown>> & {
    readonly truncation: { readonly max_length: number } | null;
  };
  readonly ids: readonly (readonly number[])[];
  /** The ids and types of two texts, or the error. */
  readonly pairs: readonly (readonly [readonly number[], readonly number[]] | string)[];
}

const FOLDER = new URL('tokenizers/', import.meta.url);

function read(name: string): unknown {
  return JSON.parse(gunzipSync(readFileSync(new URL(name, FOLDER))).toString());
}

const { texts, pairs } = read('texts.json.gz') as {
  texts: readonly string[];
  pairs: readonly (readonly [string, string])[];
};

suite('token ids are those of the tokenizers library', () => {
  for (const file of readdirSync(FOLDER).filter((name) => name !== 'texts.json.gz')) {
    test(`${file.replace('.json.gz', '')} tokenizes every text and every pair alike`, async () => {
      const trained = read(file) as Trained;
      const most = trained.tokenizer.truncation?.max_length;
      const tokenizer = await readTokenizer(JSON.stringify(trained.tokenizer));
      const wrong: unknown[] = [];
      for (const [i, text] of texts.entries()) {
        const { ids } = tokenizer.encode(text, undefined, most);
        if (ids.join() !== trained.ids[i]?.join())
          wrong.push({
            text: text.slice(0, 80),
            ids: ids.slice(0, 40).join(),
            wanted: trained.ids[i]?.slice(0, 40).join(),
          });
      }
      for (const [i, [first, second]] of pairs.entries()) {
        const expected = trained.pairs[i];
        let got: unknown;
        try {
          const { ids, types } = tokenizer.encode(first, second, most);
          got = [ids, types];
        } catch (error) {
          assert.ok(error instanceof ServingError);
          got = 'an error';
        }
        const wanted = typeof expected === 'string' ? 'an error' : expected;
        if (JSON.stringify(got) !== JSON.stringify(wanted))
          wrong.push({
            first: first.slice(0, 60),
            second: second.slice(0, 60),
            got: JSON.stringify(got).slice(0, 200),
            wanted: JSON.stringify(wanted).slice(0, 200),
          });
      }
      assert.deepEqual(wrong, []);
    });
  }
});
