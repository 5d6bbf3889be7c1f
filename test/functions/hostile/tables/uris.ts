/** Uris that are refused, and odd ones that are not; and what else only POST /predictions looks at. */
import type { BodyCase } from '../cases.ts';
import { GOOD } from '../models.ts';

export type BadUri = readonly [name: string, uri: unknown, message: RegExp];

export const URIS: readonly BadUri[] = [
  ['empty', '', /^uri: expected a text of 1 to 1024 bytes, got an empty text/],
  ['null', null, /^uri: expected a text of 1 to 1024 bytes, got null/],
  ['a number', 7, /got number/],
  ['true', true, /got boolean/],
  ['an array', ['u'], /got object/],
  ['an object', { uri: 'u' }, /got object/],
  ['of 1,025 bytes', 'u'.repeat(1025), /^uri: 1025 bytes are over the limit of 1024/],
  ['of 513 characters of two bytes', 'ü'.repeat(513), /^uri: 1026 bytes are over the limit/],
  ['of 257 emoji', '😀'.repeat(257), /^uri: 1028 bytes are over the limit/],
  ['of a megabyte', 'u'.repeat(1e6), /^uri: 1000000 bytes are over the limit/],
  ['with CR and LF', 'a\r\nX-Injected: 1', /^uri: control characters and lone surrogates are not allowed/],
  ['with a line feed at its end', 'a\n', /control characters/],
  ['with a tab', 'a\tb', /control characters/],
  ['with a NUL', 'a\0b', /control characters/],
  ['with an escape sequence', '\x1b[2J', /control characters/],
  ['with DEL', 'a\x7fb', /control characters/],
  ['with the upper half of a pair', 'a\ud83d', /lone surrogates/],
  ['with the lower half of a pair', '\ude00a', /lone surrogates/],
];

/** Unusual but valid uris: each has its own result. */
export const ODD_URIS: readonly string[] = [
  'a:b',
  '*',
  'cat-*',
  '[a-z]',
  '?',
  '../../etc/passwd',
  '/absolute',
  'a b',
  '%2e%2e%2f',
  '%00',
  '__proto__',
  'constructor',
  'ünï/cödé',
  '猫',
  '😀',
  'e\u0301',
  '\u00e9',
  '\u202ereversed',
  '\ufeffmarked',
  "'; DROP TABLE results; --",
  '<script>alert(1)</script>',
  '{"uri":"u"}',
  'cluster-serving_other:u',
  'u'.repeat(1024),
];

export const ENDPOINT_CASES: readonly BodyCase[] = [
  [
    'uris: one for two',
    () => `{"uris":["u"],"instances":[${GOOD.pair},${GOOD.pair}]}`,
    'bad_request',
    /^uris: expected one per instance \(2\), got 1/,
  ],
  ['uris: two for one', () => `{"uris":["u","v"],"instances":[${GOOD.pair}]}`, 'bad_request', /\(1\), got 2/],
  ['uris: a text', () => `{"uris":"u","instances":[${GOOD.pair}]}`, 'bad_request', /\(1\), got no array/],
  [
    'uris: null',
    () => `{"uris":null,"uri":"u","instances":[${GOOD.pair},${GOOD.pair}]}`,
    'bad_request',
    /\(2\), got 1/,
  ],
  [
    'uri: one for two',
    () => `{"uri":"u","instances":[${GOOD.pair},${GOOD.pair}]}`,
    'bad_request',
    /\(2\), got 1/,
  ],
  [
    'uris: the same twice',
    () => `{"uris":["u","v","u"],"instances":[${Array(3).fill(GOOD.pair).join()}]}`,
    'bad_request',
    /^uris: expected a different one per instance, got "u" twice/,
  ],
  ['a record without a uri', () => '{"data":"AAAA"}', 'bad_request', /^uri: .* got nothing/],
  [
    'an instance 100,000 deep',
    () => `{"instances":[{"x":${'['.repeat(1e5)}${']'.repeat(1e5)}}]}`,
    'too_large',
    /^arrays are nested deeper than 16 \(tensorRank\)/,
  ],
  [
    'an instance of objects 100,000 deep',
    () => `{"instances":[{"x":${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}}]}`,
    'too_large',
    /nested deeper than 16/,
  ],
];
