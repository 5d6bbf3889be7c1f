/** Which changes of a version would give clients wrong results unnoticed, and which would not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { breaksOf } from '../../../release/diff/breaks.ts';
import type { Face, Port } from '../../../release/diff/face.ts';

const port = (name: string, shape: Port['shape'], more: Partial<Port> = {}): Port => ({
  name,
  dtype: 'float32',
  shape,
  isText: false,
  optional: false,
  ...more,
});

const FACE: Face = {
  inputs: [port('image', ['N', 3, 8, 8]), port('age', ['N', 1])],
  outputs: [port('scores', ['N', 3]), port('box', ['N', 4])],
  names: { columns: { age: ['years'] }, labels: { scores: ['ant', 'bee', 'cat'] } },
  image: { scale: 1 / 255, channels: 'rgb' },
  text: {},
  sharesRuns: true,
};
const [image, age] = FACE.inputs as [Port, Port];
const [scores, box] = FACE.outputs as [Port, Port];

const BREAKS: readonly (readonly [
  what: string,
  after: Partial<Face>,
  names: readonly string[],
  text: RegExp,
])[] = [
  ['an input that is gone', { inputs: [image] }, ['input:age'], /input "age" is gone/],
  [
    'an input that is new',
    { inputs: [image, age, port('sex', ['N'])] },
    ['input:sex'],
    /"sex" is new, and records have none/,
  ],
  [
    'another dtype of an input',
    { inputs: [image, { ...age, dtype: 'int64' }] },
    ['input:age'],
    /is int64 \[N, 1\], and was float32 \[N, 1\]/,
  ],
  [
    'another size of an input',
    { inputs: [port('image', ['N', 3, 16, 16]), age] },
    ['input:image'],
    /\[N, 3, 16, 16\], and was/,
  ],
  [
    'a free size that becomes fixed',
    { inputs: [port('image', [1, 3, 8, 8]), age] },
    ['input:image'],
    /\[1, 3, 8, 8\]/,
  ],
  [
    'another rank of an input',
    { inputs: [image, port('age', ['N'])] },
    ['input:age'],
    /float32 \[N\], and was/,
  ],
  [
    'inputs in another order',
    { inputs: [age, image] },
    ['inputs'],
    /another order: age, image, and had image, age/,
  ],
  ['an output that is gone', { outputs: [scores] }, ['output:box'], /output "box" is gone/],
  [
    'another number of classes',
    { outputs: [port('scores', ['N', 4]), box] },
    ['output:scores'],
    /\[N, 4\], and was float32 \[N, 3\]/,
  ],
  ['outputs in another order', { outputs: [box, scores] }, ['outputs'], /another order: box, scores/],
  ['another dtype of an output', { outputs: [scores, { ...box, dtype: 'int64' }] }, ['output:box'], /int64/],
  [
    'labels in another order',
    { names: { ...FACE.names, labels: { scores: ['ant', 'cat', 'bee'] } } },
    ['labels:scores'],
    /"bee" was number 1 and is number 2; 2 of 3 changed/,
  ],
  [
    'a label that is another',
    { names: { ...FACE.names, labels: { scores: ['ant', 'bee', 'dog'] } } },
    ['labels:scores'],
    /"cat" was number 2 and is gone; 1 of 3 changed/,
  ],
  [
    'labels that are gone',
    { names: { ...FACE.names, labels: {} } },
    ['labels:scores'],
    /has no labels any more/,
  ],
  [
    'columns that are others',
    { names: { ...FACE.names, columns: { age: ['months'] } } },
    ['columns:age'],
    /"years" was number 0 and is gone/,
  ],
  [
    'pictures of 0 to 255 instead of 0 to 1',
    { image: { channels: 'rgb' } },
    ['image'],
    /scale 0\.00392\S* -> unset/,
  ],
  [
    'channels in another order',
    { image: { ...FACE.image, channels: 'bgr' } },
    ['image'],
    /channels "rgb" -> "bgr"/,
  ],
  ['another pooling of texts', { text: { pooling: 'cls' } }, ['text'], /pooling unset -> "cls"/],
];
for (const [what, after, names, text] of BREAKS) {
  test(`${what} breaks clients`, () => {
    const breaks = breaksOf(FACE, { ...FACE, ...after });
    assert.deepEqual(
      breaks.map(({ name }) => name),
      names,
    );
    assert.match(breaks[0]?.text ?? '', text);
  });
}

const FINE: readonly (readonly [what: string, before: Partial<Face>, after: Partial<Face>])[] = [
  ['the same version', {}, {}],
  ['a fixed size that becomes free', { inputs: [port('image', [1, 3, 8, 8]), age] }, {}],
  ['an input that may be left out', {}, { inputs: [image, age, port('mask', ['N'], { optional: true })] }],
  ['an output that is new', {}, { outputs: [scores, box, port('mask', ['N', 8, 8])] }],
  ['labels where there were none', { names: { columns: {}, labels: {} } }, {}],
  ['another verdict about batches', {}, { sharesRuns: false }],
];
for (const [what, before, after] of FINE) {
  test(`${what} breaks nothing`, () => {
    assert.deepEqual(breaksOf({ ...FACE, ...before }, { ...FACE, ...after }), []);
  });
}
