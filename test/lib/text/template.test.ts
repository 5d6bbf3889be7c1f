/** The tokens that a model reads around a text: special ones, and types that tell two texts apart. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Part } from '../../../lib/text/part.ts';
import { assertOwnIds, fill, type Truncation, templatesOf } from '../../../lib/text/template.ts';

const templates = (value: object | undefined) =>
  templatesOf(value === undefined ? undefined : new Part(value, 'post_processor'));

const token = (id: string, type: number) => ({ SpecialToken: { id, type_id: type } });
const text = (id: 'A' | 'B', type: number) => ({ Sequence: { id, type_id: type } });
const special_tokens = { '[CLS]': { ids: [1] }, '[SEP]': { ids: [2, 3] } };
const OWN = {
  type: 'TemplateProcessing',
  single: [token('[CLS]', 4), text('A', 5), token('[SEP]', 6)],
  pair: [text('B', 7), token('[SEP]', 0), text('A', 8)],
  special_tokens,
};
const BERT = { type: 'BertProcessing', cls: ['[CLS]', 1], sep: ['[SEP]', 2] };
const ROBERTA = { type: 'RobertaProcessing', cls: ['<s>', 1], sep: ['</s>', 2] };
const BYTES = { type: 'ByteLevel' };

test('one text and two have the tokens and types that their processor gives them', () => {
  const plain = [
    [
      [10, 11],
      [0, 0],
    ],
    [
      [10, 11, 20],
      [0, 0, 1],
    ],
  ];
  const bert = [
    [
      [1, 10, 11, 2],
      [0, 0, 0, 0],
    ],
    [
      [1, 10, 11, 2, 20, 2],
      [0, 0, 0, 0, 1, 1],
    ],
  ];
  for (const [what, part, expected] of [
    ['none', undefined, plain],
    ['bytes', BYTES, plain],
    ['BERT', BERT, bert],
    ['BERT among others', { type: 'Sequence', processors: [BYTES, BERT, BYTES] }, bert],
    ['others alone', { type: 'Sequence', processors: [BYTES] }, plain],
    [
      'RoBERTa',
      ROBERTA,
      [
        [
          [1, 10, 11, 2],
          [0, 0, 0, 0],
        ],
        [
          [1, 10, 11, 2, 2, 20, 2],
          [0, 0, 0, 0, 0, 0, 0],
        ],
      ],
    ],
    [
      'its own',
      OWN,
      [
        [
          [1, 10, 11, 2, 3],
          [4, 5, 5, 6, 6],
        ],
        [
          [20, 2, 3, 10, 11],
          [7, 0, 0, 8, 8],
        ],
      ],
    ],
  ] as const) {
    const own = templates(part);
    const found = [fill(own, [10, 11], undefined, undefined), fill(own, [10, 11], [20], undefined)];
    assert.deepEqual(
      found.map(({ ids, types }) => [ids, types]),
      expected,
      what,
    );
  }
});

test('a template that has no place for two texts refuses the second', () => {
  for (const pair of [null, [text('A', 0)], [text('B', 0)]]) {
    const own = templates({ ...OWN, pair });
    assert.throws(() => fill(own, [10], [20], undefined), {
      code: 'bad_input',
      message: /no template for two/,
    });
  }
});

test('a processor that is not served is refused with its place', () => {
  for (const [part, message] of [
    [{ ...OWN, single: [text('A', 0), text('A', 0)] }, /single: expected the text once/],
    [{ ...OWN, single: [text('A', 0), text('B', 0)] }, /single: expected the text once/],
    [{ ...OWN, single: [token('[SEP]', 0)] }, /single: expected the text once/],
    [{ ...OWN, single: [text('A', 0), token('no', 0)] }, /"no" is not among special_tokens/],
    [
      { ...OWN, special_tokens: { '[CLS]': { ids: [-1] }, '[SEP]': { ids: [2] } } },
      /ids: expected whole numbers/,
    ],
    [{ ...BERT, cls: ['[CLS]', 1.5] }, /cls: expected \[token, id\]/],
    [{ ...ROBERTA, sep: ['</s>', -1] }, /sep: expected \[token, id\]/],
    [{ type: 'Sequence', processors: [BERT, ROBERTA] }, /several templates in a row/],
  ] as const) {
    assert.throws(() => templates(part), { code: 'bad_model', message });
  }
});

test('what is too long is cut off at the side and from the text that the file says', () => {
  const [first, second] = [
    [10, 11, 12, 13],
    [20, 21],
  ];
  const bert = templates(BERT);
  const cut = (truncation: Partial<Truncation>, other?: readonly number[]) =>
    fill(bert, first, other, {
      most: 8,
      direction: 'Right',
      strategy: 'LongestFirst',
      ...truncation,
    }).ids.join();
  for (const [truncation, other, expected] of [
    [{ most: 6 }, undefined, '1,10,11,12,13,2'],
    [{ most: 5 }, undefined, '1,10,11,12,2'],
    [{ most: 5, direction: 'Left' }, undefined, '1,11,12,13,2'],
    [{ most: 2 }, undefined, '1,2'],
    [{ most: 9 }, second, '1,10,11,12,13,2,20,21,2'],
    [{ most: 8 }, second, '1,10,11,12,2,20,21,2'],
    [{ most: 6 }, second, '1,10,11,2,20,2'],
    [{ most: 6, direction: 'Left' }, second, '1,12,13,2,21,2'],
    [{ most: 7, strategy: 'OnlyFirst' }, second, '1,10,11,2,20,21,2'],
    [{ most: 8, strategy: 'OnlySecond' }, second, '1,10,11,12,13,2,20,2'],
  ] as const) {
    assert.equal(cut(truncation, other), expected, JSON.stringify(truncation));
  }
  for (const [strategy, name, most] of [
    ['OnlySecond', 'second', 7],
    ['OnlyFirst', 'first', 5],
  ] as const) {
    const message = new RegExp(`^9 tokens are over the ${most} of the model, .* only the ${name} text`);
    assert.throws(() => cut({ most, strategy }, second), { code: 'bad_input', message });
  }
});

test('ids are of this tokenizer where they begin and end with its special tokens', () => {
  for (const [part, ids, isOwn] of [
    [OWN, [1, 10, 2, 3], true],
    [OWN, [1, 2, 3], true],
    [OWN, [1, 3], false],
    [OWN, [10, 2, 3], false],
    [OWN, [1, 10, 2], false],
    [OWN, [1, 10, 3, 2], false],
    [BERT, [1, 2], true],
    [undefined, [10], false],
  ] as const) {
    const check = () => assertOwnIds(templates(part), ids);
    if (isOwn) check();
    else assert.throws(check, { code: 'bad_input' }, ids.join());
  }
  assert.throws(() => assertOwnIds(templates(OWN), [10]), { message: /it makes \[1, …, 2, 3\]/ });
  assert.throws(() => assertOwnIds(templates(undefined), [10]), { message: /adds no special tokens/ });
});
