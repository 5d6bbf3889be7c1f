/** A model of texts around a model of token ids: what it feeds, in which runs, and what it answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { NO_TEXT, tokensText } from '../../../lib/contract/texts.ts';
import type { TextModel } from '../../../lib/text/files.ts';
import { type TextOptions, textRunner } from '../../../lib/text/runner.ts';
import type { TextSettings } from '../../../lib/text/settings.ts';

/** A token for each letter: a is 1, b is 2. */
const tokenizer = {
  size: 27,
  templates: [],
  encode: (text: string, pair: string | undefined, most: number) => {
    const ids = Array.from(text + (pair ?? ''), (letter) => letter.charCodeAt(0) - 96).slice(0, most);
    return { ids, types: ids.map((_, i) => Number(i >= text.length)), wholeTokens: text.length };
  },
};

interface Opened {
  readonly settings?: Partial<TextSettings>;
  readonly inputs?: readonly string[];
  readonly options?: Partial<TextOptions>;
  readonly width?: number;
  readonly fixedRows?: number;
}

/** The model answers with the sum of the ids of a row, as each of its numbers. */
function open({ settings, inputs = ['input_ids'], options, width = 1, fixedRows }: Opened = {}) {
  const fed: Record<string, number[][]>[] = [];
  const model = {
    inputs: inputs.map((name) => ({ name, dtype: 'int64', shape: ['N', ''] })),
    outputs: [{ name: 'other' }, { name: 'y', dtype: 'float32', shape: ['N', width] }],
    fixedRows,
    separable: true,
    run: async (feeds: readonly Tensor[]) => {
      const rows = feeds.map(({ shape: [count = 0, length = 0], data }) =>
        Array.from({ length: count }, (_, row) =>
          Array.from(data.slice(row * length, (row + 1) * length) as BigInt64Array, Number),
        ),
      );
      fed.push(Object.fromEntries(inputs.map((name, i) => [name, rows[i] ?? []])));
      const sums = (rows[0] ?? []).map((ids) => ids.reduce((sum, id) => sum + id, 0));
      const data = Float32Array.from(sums.flatMap((sum) => Array<number>(width).fill(sum)));
      return [{ name: 'other' }, { name: 'y', dtype: 'float32', shape: [sums.length, width], data }];
    },
    close: async () => undefined,
  };
  const text = {
    tokenizer,
    settings: {
      output: 'y',
      pooling: [],
      kind: 'classes',
      activation: 'none',
      maxTokens: 8,
      padding: { id: 0, type: 0, side: 'right' },
      ...settings,
    },
  };
  const runner = textRunner(model as never, text as unknown as TextModel, {
    maxRows: 4,
    mayPad: true,
    ...options,
  });
  const ask = async (...columns: (readonly string[])[]) => {
    const feeds = columns.map((data): Tensor => ({ dtype: 'string', shape: [data.length], data }));
    const [answer] = await runner.run(feeds);
    return answer ?? assert.fail();
  };
  return { runner, ask, fed };
}

test('one score of a sigmoid is answered with its logit, and no other answer is', async () => {
  const { runner, ask } = open({ settings: { activation: 'sigmoid' } });
  assert.equal(runner.outputs[0]?.name, 'probabilities');
  const { data, logits, shape, tokens } = await ask(['a', 'bc']);
  assert.deepEqual(
    [shape, logits, tokens],
    [
      [2, 1],
      [1, 5],
      [1, 2],
    ],
  );
  assert.deepEqual(
    Array.from(data as Float32Array),
    [1, 5].map((x) => Math.fround(1 / (1 + Math.exp(-x)))),
  );
  for (const [settings, width] of [
    [{ activation: 'sigmoid' }, 2],
    [{ activation: 'softmax' }, 1],
    [{ activation: 'none' }, 1],
    [{ kind: 'embedding', activation: 'sigmoid' }, 1],
  ] as const) {
    const answer = await open({ settings, width }).ask(['a']);
    assert.equal(answer.logits, undefined, JSON.stringify(settings));
  }
});

test('texts of similar length share a run, and the answers keep the order of the texts', async () => {
  const lengths = [20, 1, 17, 2, 40, 16, 3];
  const { ask, fed } = open({ settings: { maxTokens: 100 } });
  const { data } = await ask(lengths.map((length) => 'a'.repeat(length)));
  assert.deepEqual(Array.from(data as Float32Array), lengths);
  const sizes = fed.map(({ input_ids: rows = [] }) => [rows.length, rows[0]?.length]);
  assert.deepEqual(sizes, [
    [4, 16],
    [2, 20],
    [1, 40],
  ]);
  // Where padding changes an answer, a run has one length.
  const apart = open({ options: { mayPad: false } });
  await apart.ask(['a', 'bb', 'c']);
  assert.deepEqual(
    apart.fed.map(({ input_ids: rows }) => rows),
    [[[1], [3]], [[2, 2]]],
  );
});

test('padding is on its side, of its id, masked and counted; a fixed batch repeats the last text', async () => {
  const inputs = ['input_ids', 'attention_mask', 'token_type_ids', 'position_ids'];
  const padding = { id: 9, type: 7, side: 'right' as const, multipleOf: 1, fixed: null };
  const right = open({ inputs, settings: { padding, pair: true }, fixedRows: 3 });
  await right.ask(['ab', 'c'], ['d', '']);
  // The shorter one is first.
  assert.deepEqual(right.fed[0]?.['input_ids'], [
    [3, 9, 9],
    [1, 2, 4],
    [1, 2, 4],
  ]);
  const row = right.fed[0]?.['input_ids']?.findIndex(([id]) => id === 3) ?? -1;
  assert.deepEqual(
    inputs.slice(1).map((name) => right.fed[0]?.[name]?.[row]),
    [
      [1, 0, 0],
      [0, 7, 7],
      [0, 1, 2],
    ],
  );
  const left = open({ inputs, settings: { padding: { ...padding, side: 'left' } } });
  await left.ask(['abc', 'd']);
  const place = left.fed[0]?.['input_ids']?.findIndex((ids) => ids.includes(4)) ?? -1;
  assert.deepEqual(
    inputs.map((name) => left.fed[0]?.[name]?.[place]),
    [
      [9, 9, 4],
      [0, 0, 1],
      [7, 7, 0],
      [0, 0, 0],
    ],
  );
});

test('a prompt goes before its text, by its name or by default, and another name is refused', async () => {
  const prompts = { query: 'zz', passage: '' };
  const { ask, fed } = open({ settings: { prompts, defaultPrompt: 'query', lowercase: true } });
  await ask(['A'], ['passage']);
  await ask(['A']);
  assert.deepEqual(
    fed.map(({ input_ids: rows }) => rows),
    [[[1]], [[26, 26, 1]]],
  );
  await assert.rejects(ask(['a'], ['toString']), {
    code: 'bad_input',
    message: /prompt_name "toString": the model's prompts are query, passage/,
  });
});

test('token ids go to the model as they are, where it may be asked so, and those of no token do not', async () => {
  const { ask, fed } = open({ options: { anyIds: true }, settings: { prompts: { a: 'b' } } });
  await ask([tokensText([26, 1])], [NO_TEXT]);
  assert.deepEqual(fed[0]?.['input_ids'], [[26, 1]]);
  for (const [ids, name, message] of [
    [[27], NO_TEXT, /token id 27: the tokenizer has 27 tokens/],
    [[-1, 1], NO_TEXT, /token id -1/],
    [Array<number>(9).fill(1), NO_TEXT, /9 token ids are over the 8 that the model takes/],
    [[1, 2], 'a', /prompt_name goes with a text, and not with token ids/],
  ] as const)
    await assert.rejects(ask([tokensText(ids)], [name]), { code: 'bad_input', message });
  await ask([tokensText(Array<number>(8).fill(1))], [NO_TEXT]);
});

test('a text without a token is refused, and one for which no time is left', async () => {
  const { ask, runner } = open();
  await assert.rejects(ask(['']), { code: 'bad_input', message: /^a text without any token/ });
  const feed: Tensor = { dtype: 'string', shape: [1], data: ['a'] };
  await assert.rejects(
    runner.run([feed], () => true),
    { code: 'timeout' },
  );
  const refused = { code: 'bad_model', message: /the model has no output "z"/ };
  assert.throws(() => open({ settings: { output: 'z' } }), refused);
  const other = open({ inputs: ['ids'] });
  await assert.rejects(other.ask(['a']), {
    code: 'bad_model',
    message: /input "ids" is not one of input_ids/,
  });
});
