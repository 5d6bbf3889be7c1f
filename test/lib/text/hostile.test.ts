/** Hostile tokenizers and texts: each is refused by one clear error, in bounded time. */
import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { readTokenizerFile } from '../../../lib/text/files.ts';
import { parseTextSettings } from '../../../lib/text/settings.ts';
import { readTokenizer } from '../../../lib/text/tokenizer.ts';
import { temporary, trainedTokenizer } from '../../support/text-models.ts';

const WORDS = { type: 'WordPiece', unk_token: 'u', vocab: { u: 0, a: 1, '##a': 2 } };
const nested = (depth: number) => '{"type":"Sequence","normalizers":['.repeat(depth) + ']}'.repeat(depth);
const text = (parts: object) => JSON.stringify({ model: WORDS, ...parts });
const split = (Regex: string) =>
  text({ pre_tokenizer: { type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false } });

const REFUSED: Readonly<Record<string, readonly [file: string, message: RegExp]>> = {
  'no JSON': ['{', /tokenizer\.json: the file: not JSON/],
  'another type': ['[]', /the file: expected an object/],
  'no model': ['{}', /the file\.model: expected an object/],
  'an unknown model': [
    text({ model: { type: 'CharLevel', vocab: {} } }),
    /"CharLevel" is not served; export the model/,
  ],
  'deep parts': [`{"model": {}, "normalizer": ${nested(5_000)}}`, /more than 8 levels of parts/],
  'many parts': [
    text({
      normalizer: { type: 'Sequence', normalizers: Array.from({ length: 1_000 }, () => ({ type: 'NFC' })) },
    }),
    /1000 entries are over the limit of 64/,
  ],
  'an unknown normalizer': [text({ normalizer: { type: 'Custom' } }), /"Custom" is not served/],
  'an unknown pre-tokenizer': [
    text({ pre_tokenizer: { type: 'UnicodeScripts' } }),
    /"UnicodeScripts" is not served/,
  ],
  'an unknown post-processor': [text({ post_processor: { type: 'Custom' } }), /"Custom" is not served/],
  'ids that are not numbers': [
    text({ model: { ...WORDS, vocab: { u: 'x' } } }),
    /vocab: expected ids from 0/,
  ],
  'ids that are too large': [
    text({ model: { ...WORDS, vocab: { u: 1e9 } } }),
    /vocab: expected ids from 0 to/,
  ],
  'no vocabulary': [text({ model: { ...WORDS, vocab: [] } }), /vocab: expected \{token: id\}/],
  'a missing unknown token': [
    text({ model: { ...WORDS, unk_token: 'x' } }),
    /unk_token: it is not in the vocabulary/,
  ],
  'words without end': [
    text({ model: { ...WORDS, max_input_chars_per_word: 1e9 } }),
    /max_input_chars_per_word: the limit is/,
  ],
  'a merge of no tokens': [
    text({ model: { type: 'BPE', vocab: { a: 0 }, merges: ['a b'] } }),
    /merges\[0\]: expected two tokens of the vocabulary that make a third/,
  ],
  'random tokens': [
    text({ model: { type: 'BPE', vocab: { a: 0 }, merges: [], dropout: 0.1 } }),
    /dropout gives random tokens/,
  ],
  'a Unigram without scores': [
    text({ model: { type: 'Unigram', unk_id: 0, vocab: ['a'] } }),
    /vocab\[0\]: expected \[token, score\]/,
  ],
  'a Unigram without an unknown token': [
    text({ model: { type: 'Unigram', unk_id: null, vocab: [['a', 0]] } }),
    /unk_id: expected a whole number/,
  ],
  'a broken charsmap': [
    text({ normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } }),
    /precompiled_charsmap: it is cut off/,
  ],
  'an added token that is another one': [
    text({ added_tokens: [{ id: 5, content: 'a' }] }),
    /id: 5; the vocabulary says 1/,
  ],
  'a special token that is not there': [
    text({ post_processor: { type: 'BertProcessing', cls: ['x', 99], sep: ['a', 1] } }),
    /a special token is not in the vocabulary/,
  ],
  'padding without end': [
    text({ padding: { strategy: { Fixed: 1e9 }, pad_id: 0 } }),
    /a padding of more than 65536 tokens/,
  ],
  'a pattern that is not an expression': [split('(['), /is not served/],
  'a repeated repetition': [
    split('(a+)+$'),
    /repeats what matches in several ways, which may take exponential time/,
  ],
  'a repeated choice': [split('(a|aa){5,}$'), /repeats what matches in several ways/],
  'a repeated option': [split('(?:a?){50}b'), /repeats what matches in several ways/],
  'a reference to a group': [split('(a)\\1'), /refers to a group|is not served/],
  'a large count': [split('a{1,100000}'), /repeats more than 1000 times/],
  'a long pattern': [split('a'.repeat(5_000)), /of 5000 characters is over the limit of 4096/],
  'prepending to a first word that may not be the first': [
    text({
      normalizer: { type: 'Strip', strip_left: true, strip_right: true },
      pre_tokenizer: { type: 'Metaspace', replacement: '_', prepend_scheme: 'first', split: false },
    }),
    /behind a normalizer that removes characters is not served/,
  ],
};

suite('a tokenizer.json that cannot be served exactly is refused', () => {
  for (const [name, [file, message]] of Object.entries(REFUSED)) {
    test(name, async () => {
      await assert.rejects(readTokenizer(file), (error: unknown) => {
        assert.ok(error instanceof ServingError && error.code === 'bad_model', String(error));
        assert.match(error.message, message);
        assert.ok(error.message.length < 1_000);
        return true;
      });
    });
  }

  test('a file over its limit is not read', async (t) => {
    const path = join(temporary(t), 'tokenizer.json');
    writeFileSync(path, '{');
    truncateSync(path, LIMITS.tokenizerBytes + 1);
    await assert.rejects(readTokenizerFile(path), /over the limit of \d+ \(tokenizerBytes\)/);
  });

  test('a text.json of another form is refused', () => {
    for (const other of [
      '',
      '{}',
      '[]',
      'null',
      '{"version": 2}',
      '{"version":1,"kind":"classes","output":"x","activation":"softmax","pooling":["other"]}',
    ])
      assert.throws(
        () => parseTextSettings(other),
        /text\.json: it is not what an import of this release writes/,
      );
  });
});

suite('texts have a limit', () => {
  test('a text of megabytes is refused before it is tokenized, by every kind of model', async () => {
    for (const name of ['bert-uncased', 'gpt2', 'llama3', 'llama2', 'unigram', 'charsmap']) {
      const tokenizer = await readTokenizer(JSON.stringify(trainedTokenizer(name)));
      assert.throws(() => tokenizer.encode('a'.repeat(5_000_000)), {
        code: 'too_large',
        message: /textCharacters/,
      });
    }
  });

  test('a text of the largest size is tokenized, for any characters', async () => {
    for (const name of ['bert-uncased', 'gpt2', 'llama3', 'llama2', 'unigram']) {
      const tokenizer = await readTokenizer(JSON.stringify(trainedTokenizer(name)));
      for (const part of [' ', '世', "'s"]) {
        const long = part.repeat(LIMITS.textCharacters / part.length);
        const { ids } = tokenizer.encode(long, undefined, 32);
        assert.ok(ids.length <= 32);
      }
    }
  });

  test('what grows over the limit when it is normalized is refused', async () => {
    const replace = { type: 'Replace', pattern: { String: 'a' }, content: 'a'.repeat(100) };
    const tokenizer = await readTokenizer(text({ normalizer: replace }));
    assert.throws(() => tokenizer.encode('a'.repeat(100_000)), { code: 'too_large' });
  });
});
