import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { assertJobName } from '../../../lib/contract/names.ts';
import { elementCount, viewBytes } from '../../../lib/contract/tensor.ts';

const MiB = 1_048_576;

test('every limit is the documented one: those of AWS cannot be raised, the others are a promise', () => {
  assert.deepEqual(LIMITS, {
    // Limits of SQS, Lambda and API Gateway.
    messageBytes: MiB,
    sendEntries: 10,
    httpBodyBytes: 6 * MiB,
    // Ours.
    payloadBytes: 32 * MiB,
    resultBytes: MiB,
    tableResultBytes: 350 * 1024,
    largeResultBytes: 64 * MiB,
    largeAnswerBytes: 256 * MiB,
    instances: 1_000,
    recordsPerBody: 1_000,
    inputsPerRecord: 256,
    csvColumns: 4_096,
    csvCells: 262_144,
    jsonMembers: 262_144,
    jsonArrays: 524_288,
    jsonObjects: 131_072,
    jsonSpecials: 262_144,
    texts: 524_288,
    inputNameLength: 256,
    uriBytes: 1_024,
    tensorElements: 64 * MiB,
    tensorRank: 16,
    textCharacters: 131_072,
    tokenizerBytes: 64 * 1024 * 1024,
    sparseValues: 4 * MiB,
    imagePixels: 16_777_216,
    imageBytes: 32 * MiB,
    frameBytes: 32 * MiB,
    smallImageBytes: 5 * MiB,
    pixelsPerRequest: 67_108_864,
    elementsPerRequest: 256 * MiB,
    arrowFields: 4_096,
    arrowBatches: 1_024,
  });
});

test('a job name has at most 60 characters, so that SQS still has room for its suffixes', () => {
  const longest = 'j'.repeat(60);
  assert.equal(assertJobName(longest), longest);
  assert.throws(() => assertJobName(`${longest}j`), { code: 'bad_config' });
});

test('a shape over its limit is refused although one of its dimensions is 0', () => {
  assert.equal(elementCount([3, 0, 4], 12), 0);
  assert.throws(() => elementCount([0, 3, 5], 12), { code: 'too_large' });
  assert.throws(() => elementCount([3, 5, 0], 12), { code: 'too_large' });
});

test('a dimension is a whole number from 0 on', () => {
  for (const dim of [-1, 0.5, 2 ** 53, Number.NaN]) {
    assert.throws(() => elementCount([dim]), { code: 'bad_input' }, String(dim));
  }
});

test('bytes that are not a whole number of elements are refused with both numbers', () => {
  assert.throws(() => viewBytes('float32', new Uint8Array(7)), {
    code: 'bad_input',
    message: '7 bytes are not a whole number of float32 elements',
  });
});
