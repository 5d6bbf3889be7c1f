/** The digest of a file whose parts arrive in any order, in pieces, and some of them twice. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { RunningDigest } from '../../../lib/registry/digest.ts';
import { temporaryFolder } from '../../support/runner.ts';

const PART_BYTES = 16;
const content = Buffer.from(Array.from({ length: 5 * PART_BYTES + 3 }, (_, i) => (i * 37) % 251));
const sha256 = createHash('sha256').update(content).digest('hex');
const file = { path: 'model.onnx', key: 'model.onnx', bytes: content.length, sha256 };
const PARTS = Math.ceil(content.length / PART_BYTES);

/** The part that arrives next, and how many bytes of it arrive. */
const arrival = fc.array(
  fc.record({ part: fc.nat(PARTS - 1), bytes: fc.integer({ min: 1, max: PART_BYTES }) }),
  {
    minLength: 40,
    maxLength: 80,
  },
);

test('it is that of the content, in whatever order and pieces the parts arrive', async (t) => {
  const path = join(await temporaryFolder(t), 'file');
  const check = (arrivals: readonly { part: number; bytes: number }[]) => {
    const fd = openSync(path, 'w+');
    const digest = new RunningDigest(fd, file, PART_BYTES);
    const there = Array.from({ length: PARTS }, () => 0);
    const take = (part: number, most: number) => {
      const at = part * PART_BYTES + (there[part] ?? 0);
      const end = Math.min(at + most, (part + 1) * PART_BYTES, content.length);
      if (at >= end) return;
      writeSync(fd, content, at, end - at, at);
      digest.take(at, content.subarray(at, end));
      there[part] = end - part * PART_BYTES;
      if (end === Math.min((part + 1) * PART_BYTES, content.length)) digest.addPart(part);
    };
    for (const { part, bytes } of arrivals) take(part, bytes);
    for (let part = 0; part < PARTS; part++) take(part, PART_BYTES);
    assert.equal(digest.ofWhole(), sha256);
    closeSync(fd);
  };
  fc.assert(fc.property(arrival, check), { numRuns: 200, seed: 3 });
});

test('a part that begins again, perhaps with other bytes, leaves no digest behind', async (t) => {
  const fd = openSync(join(await temporaryFolder(t), 'file'), 'w+');
  t.after(() => closeSync(fd));
  const digest = new RunningDigest(fd, file, content.length);
  digest.take(0, content.subarray(0, 10));
  digest.restart(10);
  digest.take(10, content.subarray(10));
  assert.equal(digest.ofWhole(), sha256);

  const again = new RunningDigest(fd, file, content.length);
  again.take(0, content.subarray(0, 10));
  again.restart(0);
  again.take(0, content);
  assert.equal(again.ofWhole(), undefined);
});

test('a file without a checksum has none', async (t) => {
  const fd = openSync(join(await temporaryFolder(t), 'file'), 'w+');
  t.after(() => closeSync(fd));
  const digest = new RunningDigest(fd, { path: 'x', key: 'x', bytes: 10, etag: '"abc-2"' }, 10);
  digest.take(0, content.subarray(0, 10));
  assert.equal(digest.ofWhole(), undefined);
});
