/** The cases of the W3C's own test of `traceparent` and `tracestate` (level 1), as far as they concern one reader. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTrace, traceHeaders } from '../../../lib/contract/trace.ts';

const ID = '12345678901234567890123456789012';
const SPAN = '1234567890123456';
const VALID = `00-${ID}-${SPAN}-01`;

test('a valid traceparent is read, also of a later version, and with space around it', () => {
  for (const traceparent of [
    VALID,
    ` ${VALID}`,
    `\t${VALID}`,
    `${VALID} `,
    `${VALID}\t`,
    `\t ${VALID} \t`,
    `cc-${ID}-${SPAN}-01`,
    `cc-${ID}-${SPAN}-01-what-the-future-will-be-like`,
  ])
    assert.deepEqual(readTrace({ traceparent }), { traceId: ID, spanId: SPAN, isSampled: true }, traceparent);
});

test('of the flags only the sampled one is read', () => {
  for (const [flags, isSampled] of [
    ['00', false],
    ['01', true],
    ['02', false],
    ['ff', true],
  ] as const)
    assert.equal(readTrace({ traceparent: `00-${ID}-${SPAN}-${flags}` })?.isSampled, isSampled);
});

test('a malformed traceparent is none', () => {
  for (const traceparent of [
    undefined,
    1,
    '',
    `${VALID},${VALID}`,
    `${VALID}.`,
    `${VALID}-what-the-future-will-be-like`,
    `cc-${ID}-${SPAN}-01.what-the-future-will-not-be-like`,
    `ff-${ID}-${SPAN}-01`,
    `.0-${ID}-${SPAN}-01`,
    `0.-${ID}-${SPAN}-01`,
    `000-${ID}-${SPAN}-01`,
    `0000-${ID}-${SPAN}-01`,
    `0-${ID}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-.${ID.slice(1)}-${SPAN}-01`,
    `00-${ID.slice(1)}.-${SPAN}-01`,
    `00-${ID}3-${SPAN}-01`,
    `00-${ID.slice(1)}-${SPAN}-01`,
    `00-${ID.replace('9', 'A')}-${SPAN}-01`,
    `00-${ID}-${'0'.repeat(16)}-01`,
    `00-${ID}-.${SPAN.slice(1)}-01`,
    `00-${ID}-${SPAN.slice(1)}.-01`,
    `00-${ID}-${SPAN}7-01`,
    `00-${ID}-${SPAN.slice(1)}-01`,
    `00-${ID}-${SPAN}-.0`,
    `00-${ID}-${SPAN}-0.`,
    `00-${ID}-${SPAN}-001`,
    `00-${ID}-${SPAN}-1`,
    `00-${ID}-${SPAN}`,
    `${VALID}\n`,
  ])
    assert.equal(readTrace({ traceparent, tracestate: 'foo=1' }), undefined, String(traceparent));
});

const stateOf = (tracestate: unknown) => {
  const trace = readTrace({ traceparent: VALID, tracestate });
  assert.equal(trace?.traceId, ID);
  return trace.state;
};

test('a valid tracestate is passed on, without the space between its members', () => {
  const most = Array.from({ length: 32 }, (_, i) => `bar${i}=${i}`).join();
  const key = '0123456789abcdefghijklmnopqrstuvwxyz_-*/';
  for (const [text, state = text] of [
    ['foo=1,bar=2'],
    ['foo=1 \t , \t bar=2, \t baz=3', 'foo=1,bar=2,baz=3'],
    ['foo=1,', 'foo=1'],
    ['foo=1,,bar=2', 'foo=1,bar=2'],
    [' foo=1', 'foo=1'],
    [`${'z'.repeat(256)}=1`],
    [`${'t'.repeat(241)}@${'v'.repeat(14)}=1`],
    [`a${key}=1`],
    [`${key}@a-z0-9_-*/=1`.replace('a-z0-9_-*/=', 'v0_-*/=')],
    ['foo= !"#$%&\'()*+-./:;<>?@[\\]^_`{|}~'],
    [`foo=${'v'.repeat(256)}`],
    [most],
  ] as const)
    assert.equal(stateOf(text), state);
  assert.equal(stateOf(''), undefined);
});

test('of a tracestate 2,048 characters are read, and 512 passed on', () => {
  const padded = (length: number) => `foo=1${' '.repeat(length - 11)},bar=2`;
  assert.equal(stateOf(padded(2_048)), 'foo=1,bar=2');
  assert.equal(stateOf(padded(2_049)), undefined);
  const long = (length: number) => `a=${'v'.repeat(254)},b=${'v'.repeat(length - 259)}`;
  assert.equal(long(512).length, 512);
  assert.equal(stateOf(long(512)), long(512));
  assert.equal(stateOf(long(513)), undefined);
});

test('a malformed or long tracestate is left out, and the trace stays', () => {
  for (const text of [
    1,
    'foo =1',
    'FOO=1',
    'foo.bar=1',
    'foo@=1,bar=2',
    '@foo=1,bar=2',
    'foo@@bar=1,bar=2',
    'foo@bar@baz=1,bar=2',
    'foo=bar=baz',
    'foo=,bar=3',
    'foo',
    'foo=1,foo=2',
    'foo=\u00e9',
    'foo=1\n',
    `${'z'.repeat(257)}=1`,
    `${'t'.repeat(242)}@v=1`,
    `t@${'v'.repeat(15)}=1`,
    `foo=${'v'.repeat(257)}`,
    Array.from({ length: 33 }, (_, i) => `bar${i}=${i}`).join(),
    [1, 2, 3].map((i) => `key${i}=${'v'.repeat(200)}`).join(),
    ' '.repeat(100_000),
  ])
    assert.equal(stateOf(text), undefined, String(text).slice(0, 80));
});

test('what was read is written as version 00', () => {
  const trace = readTrace({ traceparent: `cc-${ID}-${SPAN}-03-more`, tracestate: 'a=1, b=2' });
  assert.deepEqual(traceHeaders(trace), { traceparent: VALID, tracestate: 'a=1,b=2' });
  assert.deepEqual(traceHeaders(undefined), {});
});
