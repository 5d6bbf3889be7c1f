/** Bodies that are no JSON, or JSON of another kind. Made for the model `pair`, which takes `{"x": [a, b]}`. */
import type { BodyCase } from '../cases.ts';
import { bodyCases } from '../rows.ts';

const GOOD = '{"instances":[{"x":[1,2]}]}';
const NOT_JSON = /^the body is not JSON: .+/;
const NOT_UTF8 = /^the body is not valid UTF-8$/;
const EMPTY = /^the body is empty; expected \{"instances":\[\{/;
const bytes = (...values: (number | string)[]) =>
  Buffer.concat(values.map((value) => (typeof value === 'string' ? Buffer.from(value) : Buffer.of(value))));
const withText = (...text: number[]) => bytes('{"instances":[{"x":["', ...text, '"]}]}');

export const SYNTAX: readonly BodyCase[] = [
  ...bodyCases('syntax.jsonl', 'syntax'),
  ['nothing, as bytes', bytes(), 'bad_request', EMPTY],
  ['a byte order mark alone, as bytes', bytes(0xef, 0xbb, 0xbf), 'bad_request', EMPTY],
  ['UTF-16 little-endian', () => Buffer.from(`\ufeff${GOOD}`, 'utf16le'), 'bad_request', NOT_UTF8],
  ['UTF-16 big-endian', () => Buffer.from(`\ufeff${GOOD}`, 'utf16le').swap16(), 'bad_request', NOT_UTF8],
  ['UTF-16 without a mark', () => Buffer.from(GOOD, 'utf16le'), 'bad_request', NOT_JSON],
  ['a byte that UTF-8 never has', withText(0xff), 'bad_request', NOT_UTF8],
  ['an overlong slash', withText(0xc0, 0xaf), 'bad_request', NOT_UTF8],
  ['a character cut in two', withText(0xe2, 0x82), 'bad_request', NOT_UTF8],
  ['a lone continuation byte', withText(0x80), 'bad_request', NOT_UTF8],
  ['a surrogate in UTF-8', withText(0xed, 0xa0, 0x80), 'bad_request', NOT_UTF8],
  ['a code point beyond Unicode', withText(0xf4, 0x90, 0x80, 0x80), 'bad_request', NOT_UTF8],
  ['latin1', withText(0xe9), 'bad_request', NOT_UTF8],
  ['gzip that says nothing of it', bytes(0x1f, 0x8b, 8, 0, 0, 0, 0, 0), 'bad_request', NOT_UTF8],
  ['a pickle', bytes(0x80, 4, 0x95), 'bad_request', NOT_UTF8],
  ['base64 of the body', () => Buffer.from(GOOD).toString('base64'), 'bad_request', NOT_JSON],
  [
    'brackets that open six million times',
    () => '['.repeat(6_000_000),
    'too_large',
    /^the body is nested deeper than 16 dimensions \(tensorRank\) ever are$/,
  ],
  ['brackets that open fifty thousand times', () => '['.repeat(50_000), 'bad_request', NOT_JSON],
  ['quotes without end', () => `{"instances":[{"x":"${'a'.repeat(6_000_000)}`, 'bad_request', NOT_JSON],
];

/** Every beginning of a good body: each is cut in another place of the grammar. */
export const CUTS: readonly string[] = Array.from({ length: GOOD.length }, (_, end) => GOOD.slice(0, end));

export const STRUCTURE: readonly BodyCase[] = [
  ...bodyCases('syntax.jsonl', 'structure'),
  [
    '1,001 rows by column',
    () => `{"inputs":{"x":[${'[1,2],'.repeat(1000)}[1,2]]}}`,
    'too_large',
    /^1001 rows are over the limit of 1000 a request/,
  ],
  [
    'a hundred thousand keys',
    () => `{${Array.from({ length: 1e5 }, (_, i) => `"k${i}":0`).join()}}`,
    'bad_request',
    /"k7" and 99992 more\]\)/,
  ],
  ['a key of five million characters', () => `{"${'k'.repeat(5e6)}":0}`, 'bad_request', /k\.\.\."\]\)/],
  [
    'objects a million deep',
    () => `${'{"a":'.repeat(1e6)}1${'}'.repeat(1e6)}`,
    'too_large',
    /^the body is nested deeper than 16/,
  ],
  [
    'objects fifty thousand deep',
    () => `${'{"a":'.repeat(5e4)}1${'}'.repeat(5e4)}`,
    'bad_request',
    /\["a"\]\)/,
  ],
  [
    'arrays a million deep',
    () => '['.repeat(1e6) + ']'.repeat(1e6),
    'too_large',
    /^the body is nested deeper than 16/,
  ],
  ['arrays fifty thousand deep', () => '['.repeat(5e4) + ']'.repeat(5e4), 'bad_request', /\(got an array\)/],
  [
    'brackets in quotes, and then a million',
    () => `["\\"]}",${'['.repeat(2e6)}`,
    'too_large',
    /nested deeper than 16/,
  ],
  [
    '1,001 instances',
    () => `{"instances":[${'{"x":[1,2]},'.repeat(1000)}{"x":[1,2]}]}`,
    'too_large',
    /^1001 instances are over the limit of 1000 a request/,
  ],
  ['a million instances', () => `{"instances":[${'0,'.repeat(1e6)}0]}`, 'too_large', /^1000001 instances/],
  [
    '257 inputs',
    () => `{"instances":[{${Array.from({ length: 257 }, (_, i) => `"i${i}":0`).join()}}]}`,
    'too_large',
    /^instances\[0\]: 257 inputs are over the limit of 256/,
  ],
  [
    'an input name of 257 characters',
    () => `{"instances":[{"${'n'.repeat(257)}":0}]}`,
    'too_large',
    /^instances\[0\]: the name "n{80}\.\.\." has 257 characters, over the limit of 256 \(inputNameLength\)/,
  ],
  [
    'an input name of five million characters',
    () => `{"instances":[{"${'n'.repeat(5e6)}":0}]}`,
    'too_large',
    /has 5000000 characters/,
  ],
];

/** Instances that are values, which only the model can refuse. */
export const BARE: readonly BodyCase[] = [...bodyCases('syntax.jsonl', 'bare')];
