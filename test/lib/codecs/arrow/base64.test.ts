import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeBase64 } from '../../../../lib/codecs/base64.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import fc from '../../../support/fast-check.ts';

/** The rule itself, slowly: digits of either alphabet, white space anywhere, whole padding or none. */
function isBase64(text: string): boolean {
  const bare = text.replace(/[ \t\n\v\f\r]/g, '');
  return /^([\w+/-]{4})*([\w+/-]{2}(==)?|[\w+/-]{3}=?)?$/.test(bare);
}

function refusal(text: string): ServingError {
  let thrown: unknown;
  try {
    decodeBase64(text);
  } catch (error) {
    thrown = error;
  }
  assert.ok(thrown instanceof ServingError, `expected a ServingError, got ${String(thrown)}`);
  assert.equal(thrown.code, 'bad_request');
  return thrown;
}

describe('decodeBase64', () => {
  it('gives back any bytes in either alphabet, padded or not', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const standard = Buffer.from(bytes).toString('base64');
        for (const text of [
          standard,
          standard.replace(/=+$/, ''),
          Buffer.from(bytes).toString('base64url'),
        ]) {
          assert.deepEqual(decodeBase64(text), bytes);
        }
      }),
    );
  });

  it('accepts white space anywhere', () => {
    for (const text of ['AQI=\n', '\tAQ\r\nI= ', 'A Q I =', 'A\fQ\vI', '\n\nAQI=\n\n']) {
      assert.deepEqual([...decodeBase64(text)], [1, 2], JSON.stringify(text));
    }
    const bytes = new Uint8Array(1000).fill(171);
    const lines = Buffer.from(bytes).toString('base64').replace(/.{76}/g, '$&\r\n');
    assert.deepEqual(decodeBase64(lines), bytes);
  });

  it('makes no bytes of an empty text', () => {
    assert.equal(decodeBase64('').length, 0);
    assert.equal(decodeBase64(' \n').length, 0);
  });

  it('accepts exactly what the rule accepts', () => {
    const characters = fc.constantFrom(
      ...'AZaz09+/-_= \n'.split(''),
      '!',
      '\0',
      '\u00a0',
      '\u0141',
      '\u{1f600}',
    );
    fc.assert(
      fc.property(fc.string({ unit: characters, maxLength: 12 }), (text) => {
        if (isBase64(text)) assert.ok(decodeBase64(text) instanceof Uint8Array);
        else refusal(text);
      }),
      { numRuns: 3_000 },
    );
  });

  it('names the position and the character of junk', () => {
    assert.match(refusal('AQ!D').message, /unexpected "!" at position 2 of 4/);
    assert.match(refusal('AQ\nID!\n').message, /unexpected "!" at position 5 of 7/);
    assert.match(
      refusal(`${'A'.repeat(5000)}\u0141AA`).message,
      /unexpected "\u0141" at position 5000 of 5003/,
    );
    assert.match(refusal('AA\u{1f600}').message, /unexpected "\u{1f600}" at position 2/u);
    assert.match(refusal('AAA\u00a0').message, /at position 3/);
  });

  it('refuses characters whose low byte is a base64 digit', () => {
    assert.equal(Buffer.from('\u0141AAA', 'base64').length, 3, 'Buffer takes it for an A');
    refusal('\u0141AAA');
  });

  it('refuses padding in the middle, too much or too little of it', () => {
    for (const text of ['AA==AAAA', 'AAA==', 'AA=', 'AAAA=', 'A===', '=', '====', '=AAA', 'AA=A']) {
      assert.match(refusal(text).message, /wrong padding at position \d/, text);
    }
  });

  it('refuses a text that ends within a byte', () => {
    assert.match(refusal('AAAAA').message, /cut off at position 5: 5 characters/);
    assert.match(refusal('A\n').message, /1 characters are not whole bytes/);
  });

  it('gives a Uint8Array whose slice() is a copy', () => {
    const bytes = decodeBase64('AQID');
    bytes.slice()[0] = 9;
    assert.equal(bytes[0], 1);
  });
});
