/** Instances whose numbers, texts, shapes or names the model does not take. */
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import type { InstanceCase, Text } from '../cases.ts';
import type { ModelName } from '../models.ts';
import { instanceCases } from '../rows.ts';

type Integer = readonly [model: ModelName, min: string, max: string, below: string, above: string];

/** 64 bits are beyond what JSON numbers hold: there the 2^53 rule answers first. */
const INTEGERS: readonly Integer[] = [
  ['int8', '-128', '127', '-129', '128'],
  ['int16', '-32768', '32767', '-32769', '32768'],
  ['int32', '-2147483648', '2147483647', '-2147483649', '2147483648'],
  ['uint8', '0', '255', '-1', '256'],
  ['uint16', '0', '65535', '-1', '65536'],
  ['uint32', '0', '4294967295', '-1', '4294967296'],
];

function integers([model, min, max, below, above]: Integer): InstanceCase[] {
  const range = `^input "x": expected ${min} to ${max} \\(${model}\\), got `;
  return [
    [`${model}: one below`, model, `{"x":[${below},0]}`, 'bad_input', new RegExp(`${range}${below}$`)],
    [`${model}: one above`, model, `{"x":[0,${above}]}`, 'bad_input', new RegExp(`${range}${above}$`)],
    [
      `${model}: a fraction`,
      model,
      '{"x":[1.5,0]}',
      'bad_input',
      new RegExp(`expected a whole number \\(${model}\\), got 1\\.5$`),
    ],
    [
      `${model}: 1e309`,
      model,
      '{"x":[1e309,0]}',
      'bad_input',
      new RegExp(`out of the range of ${model}: Infinity$`),
    ],
    ...['NaN', 'Infinity', '-Infinity'].map(
      (word): InstanceCase => [
        `${model}: ${word}`,
        model,
        `{"x":[${word},0]}`,
        'bad_input',
        new RegExp(`expected a whole number .*, got ${word}$`),
      ],
    ),
    [`${model}: a text`, model, '{"x":["1",0]}', 'bad_input', /expected a number, got "1"$/],
  ];
}

const NUMBERS: readonly InstanceCase[] = [
  ...instanceCases('values.jsonl', 'numbers'),
  ...INTEGERS.flatMap(integers),
  [
    'float32: an integer of 400 digits',
    'pair',
    () => `{"x":[${'9'.repeat(400)},0]}`,
    'bad_input',
    /out of the range of float32: Infinity/,
  ],
  [
    'float32: objects a hundred thousand deep',
    'pair',
    () => `{"x":[1,${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}]}`,
    'bad_input',
    /expected a number, got an object/,
  ],
  [
    'float32: a text of a megabyte',
    'pair',
    () => `{"x":[1,"${'a'.repeat(1e6)}"]}`,
    'bad_input',
    /expected a number, got "a{80}\.\.\."/,
  ],
];

const TEXTS: readonly InstanceCase[] = instanceCases('values.jsonl', 'texts');

const shape = (
  name: string,
  model: ModelName,
  instance: Text,
  message: RegExp,
  code: ErrorCode = 'bad_input',
): InstanceCase => [name, model, instance, code, message];

const SHAPES: readonly InstanceCase[] = [
  ...instanceCases('values.jsonl', 'shapes'),
  shape(
    'an object of 1,000 keys',
    'pair',
    () => `{"x":{${Array.from({ length: 1000 }, (_, i) => `"k${i}":0`).join()}}}`,
    /"k7" and 992 more\]/,
  ),
  shape(
    '17 dimensions',
    'pair',
    () => `{"x":${'['.repeat(17)}1${']'.repeat(17)}}`,
    /arrays are nested deeper than 16 \(tensorRank\)/,
    'too_large',
  ),
  shape(
    'a million dimensions',
    'pair',
    () => `{"x":${'['.repeat(1e6)}${']'.repeat(1e6)}}`,
    /nested deeper than 16/,
    'too_large',
  ),
  shape(
    'fifty thousand dimensions in the second element',
    'pair',
    () => `{"x":[1,${'['.repeat(5e4)}${']'.repeat(5e4)}]}`,
    /got an array where the first element is none/,
  ),
  shape(
    'a million dimensions in the second element',
    'pair',
    () => `{"x":[1,${'['.repeat(1e6)}${']'.repeat(1e6)}]}`,
    /nested deeper than 16/,
    'too_large',
  ),
  shape(
    'fifty thousand dimensions',
    'pair',
    () => `{"x":${'['.repeat(5e4)}${']'.repeat(5e4)}}`,
    /arrays are nested deeper than 16 \(tensorRank\)/,
    'too_large',
  ),
  shape('a million numbers for two', 'pair', () => `{"x":[${'0,'.repeat(1e6)}0]}`, /got shape \[1000001\]/),
];

const NAMES: readonly InstanceCase[] = [
  ...instanceCases('values.jsonl', 'names'),
  [
    'a hundred unknown inputs',
    'two',
    () => `{${Array.from({ length: 100 }, (_, i) => `"s${i}":0`).join()}}`,
    'bad_input',
    /"s7" and 92 more; the model expects/,
  ],
  [
    'names of 256 characters',
    'two',
    () => `{"a":[1,2],"${'n'.repeat(256)}":[3]}`,
    'bad_input',
    /unknown input "n{80}\.\.\."/,
  ],
];

/** Of a body that says `bindByPosition`, and of clients that never did. */
export const POSITIONS: readonly InstanceCase[] = instanceCases('values.jsonl', 'positions');

/** Right for us, and wrong for the model. */
const RUNS: readonly InstanceCase[] = instanceCases('values.jsonl', 'runs');

export const VALUES: readonly InstanceCase[] = [...NUMBERS, ...TEXTS, ...SHAPES, ...NAMES, ...RUNS];
