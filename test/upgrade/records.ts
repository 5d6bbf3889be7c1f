/** Records that the upgrade tests send. */
import type { InputValue } from '../../sdk/index.ts';

export type RecordInputs = Readonly<Record<string, InputValue>>;

const X = { data: Float32Array.from({ length: 12 }, (_, i) => i / 2), shape: [3, 2, 2] };

/** One of each kind of input. Those of `x` are for the job `line`. */
export const RECORDS = {
  dense: { x: X },
  integers: { x: { data: Int32Array.from({ length: 12 }, (_, i) => i - 6), shape: [3, 2, 2] } },
  doubles: { x: { data: Float64Array.from({ length: 12 }, (_, i) => i / 3), shape: [3, 2, 2] } },
  /** The wrong shape for the model. */
  nested: {
    x: [
      [1, 2],
      [3, 4],
    ],
  },
  sparse: {
    x: {
      indices: [
        [0, 0, 1],
        [2, 1, 0],
      ],
      values: [5, 7.5],
      shape: [3, 2, 2],
    },
  },
  /** Clients send the bytes of an image unchanged: these are only the first ones of a PNG. */
  image: { x: { bytes: Uint8Array.from([137, 80, 78, 71]) } },
  strings: { s: ['grüße', 'a|b'] },
} satisfies Record<string, RecordInputs>;

/** A payload that no stored record has. */
export const OTHER: RecordInputs = { x: { ...X, data: new Float32Array(12).fill(9) } };

/** Uris whose messages are archived in S3. */
export const DEAD_URIS = [
  'dead',
  'dead zoo',
  'dead pointer',
  'dead pointer to nothing',
  'dead bad shape',
  'dead and used again',
  'dead and cancelled',
  'dead and answered',
];
