/** No text makes the config reader fail in any way but with bad_config. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfigText } from '../../../lib/config/file.ts';
import { type JobConfig, predictTimeoutSeconds, visibilityTimeoutSeconds } from '../../../lib/config/job.ts';
import { LEGACY } from '../../../lib/config/legacy.ts';
import { SETTINGS } from '../../../lib/config/schema.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import fc, { character } from '../../support/fast-check.ts';

const MAX_MESSAGE = 60_000;

/** The job, or undefined when it was refused as it should be. */
function readOrRefused(text: string): JobConfig | undefined {
  try {
    const { job, notes } = readConfigText(text, 'fuzz');
    for (const note of notes) assert.doesNotMatch(note, /\n/);
    return job;
  } catch (error) {
    assert.ok(error instanceof ServingError, String(error));
    assert.equal(error.code, 'bad_config', error.message);
    assert.ok(error.message.length < MAX_MESSAGE);
    return undefined;
  }
}

/** Assumptions of AWS and of our own code. */
function assertSound(job: JobConfig): void {
  assert.ok(job.modelPath.length > 0);
  assert.match(job.jobName, /^[A-Za-z0-9][\w-]{0,59}$/);
  assert.ok(visibilityTimeoutSeconds(job) <= 43_200);
  assert.ok(predictTimeoutSeconds(job) >= 1 && predictTimeoutSeconds(job) < 30);
  assert.ok(job.queue.batchSize <= 10 || job.queue.windowSeconds >= 1);
  assert.equal(job.image.width === undefined, job.image.height === undefined);
  for (const deviation of job.image.std ?? [1]) assert.notEqual(deviation, 0);
}

const KEYS = [...new Set([...SETTINGS.keys(), ...LEGACY.keys()])];

const scalar = fc.oneof(
  fc.constantFrom(
    '',
    '~',
    'true',
    'false',
    'yes',
    '0',
    '1',
    '10',
    '-1',
    '224,224',
    '3,224,224',
    '*',
    'topN(1)',
  ),
  fc.constantFrom(
    '[1, 2, 3]',
    '[[3, 8, 8]]',
    '{a: b}',
    '"4"',
    'image',
    '[image, tensor]',
    '0.5',
    '&a x',
    '*a',
  ),
  fc.integer({ min: -5, max: 20_000 }).map(String),
  fc.string({ maxLength: 12 }),
  fc.string({ maxLength: 12 }).map((text) => JSON.stringify(text)),
);

/** `group:\n  key: value`; now and then a key gets lost, doubled or misspelled. */
const configText = fc
  .array(fc.tuple(fc.constantFrom(...KEYS), scalar, fc.nat({ max: 15 })), { maxLength: 6 })
  .map((entries) => {
    const groups = new Map<string, string[]>();
    for (const [path, value, slip] of entries) {
      const [outer, inner] = path.split('.') as [string, string?];
      const spelled = slip === 1 ? `${inner ?? outer}x` : (inner ?? outer);
      const group = inner === undefined ? '' : outer;
      const line = slip === 2 ? spelled : `${spelled}: ${value}`;
      const lines = groups.get(group) ?? [];
      if (slip === 3 || !lines.some((other) => other.startsWith(`${spelled}:`))) lines.push(line);
      groups.set(group, lines);
    }
    return [...groups]
      .map(([group, lines]) => {
        if (group === '') return lines.join('\n');
        const [first, rest] = group === 'modelMetaDataList' ? ['- ', '  '] : ['  ', '  '];
        return `${group}:\n${lines.map((line, i) => `${i === 0 ? first : rest}${line}`).join('\n')}`;
      })
      .join('\n');
  });

test('any text is read to a sound job or refused with bad_config', () => {
  const noise = fc.string({
    unit: fc.constantFrom(...'ab:-?[]{}&*!|>\'"%@`#,~ \n\t\r\\0\uFEFF\u0000é'.split('')),
    maxLength: 60,
  });
  fc.assert(
    fc.property(fc.oneof(noise, fc.string({ unit: character, maxLength: 40 })), (text) => {
      const job = readOrRefused(text);
      if (job) assertSound(job);
    }),
    { numRuns: 1_000 },
  );
});

test('any mixture of known keys is read to a sound job or refused, and enough of both come up', () => {
  let accepted = 0;
  let refused = 0;
  fc.assert(
    fc.property(configText, (text) => {
      const job = readOrRefused(text);
      if (!job) {
        refused++;
        return;
      }
      accepted++;
      assertSound(job);
      // A job is a config: what was read can be written and read again.
      assert.deepEqual(readOrRefused(JSON.stringify(job)), job);
    }),
    { numRuns: 1_000 },
  );
  assert.ok(accepted > 150, `${accepted} accepted`);
  assert.ok(refused > 150, `${refused} refused`);
});

test('text that costs a parser most is refused all the same', () => {
  const pieces = [
    '[',
    '{a: ',
    '- ',
    '? ',
    '"',
    '!a ',
    '*a ',
    '---\n',
    'a: &b\n',
    ' a:\n',
    '\n',
    '|\n',
    ':',
    'a,',
  ];
  for (const piece of pieces)
    assert.equal(readOrRefused(piece.repeat(Math.floor(1_000_000 / piece.length))), undefined, piece);
});
