/** The effect of --write on a config.yaml, of our generation and of the old ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configText } from '../../../cli/init/config.ts';
import { changedConfig, diffOf, linesOf } from '../../../cli/tune/config.ts';
import { parseConfig } from '../../support/config.ts';

const CHANGE = {
  threadPerModel: 2,
  'function.memoryMB': 3538,
  batchSize: 64,
  'queue.batchSize': 64,
  'queue.windowSeconds': 1,
};

function jobOf(text: string) {
  const { batchSize, threadPerModel, queue, function: lambda } = parseConfig(text, 'config.yaml');
  return {
    batchSize,
    threadPerModel,
    queue: queue.batchSize,
    window: queue.windowSeconds,
    memory: lambda.memoryMB,
  };
}

const WANTED = { batchSize: 64, threadPerModel: 2, queue: 64, window: 1, memory: 3538 };

const CONFIGS: Readonly<Record<string, string>> = {
  'what init writes': configText(),
  'an empty file': '',
  'comments alone': '# nothing\n',
  'our keys': `# the job
modelPath: resnet   # beside this file
batchSize: 8 # rows
queue:
  # how many
  batchSize: 5
  maximumConcurrency: 4
function: # Lambda
    timeoutSeconds: 60
    memoryMB: 1024    # enough
jobName: images
`,
  'no newline at the end': 'modelPath: resnet\nbatchSize: 8',
  'flow maps': 'modelPath: resnet\nqueue: {batchSize: 4, maxReceiveCount: 3}\nfunction: {}\n',
  'empty values': 'batchSize:\nqueue:\nfunction:\n  memoryMB:\n  timeoutSeconds: 20\n',
  'other spellings': 'batch_size: 8\nTHREAD-PER-MODEL: "4"\nQueue:\n  Batch_Size: 3\n',
  'quoted numbers': 'batchSize: \'8\'\nfunction:\n  memoryMB: "1024"\n',
  'the flat old file': `## Analytics Zoo Cluster Serving
modelPath: /path/to/model
jobName: serving_stream
# model parallelism
modelParallelism: 1
threadPerModel: 1
`,
  'the nested old file': `model:
  path: resnet50
data:
  src: localhost:6379
  image_shape: 3,224,224
params:
  # batch size, should be no larger than core_number
  core_number: 4
`,
  'two old keys of one setting': 'model:\n  path: a\nparams:\n  batch_size: 16\n  core_number: 16\n',
  'a document with a marker': '---\nbatchSize: 8\n',
};

for (const [name, text] of Object.entries(CONFIGS)) {
  test(`${name}: says what was wanted, keeps every comment and all other lines in their order`, () => {
    const changed = changedConfig(text, CHANGE, 'config.yaml');
    assert.deepEqual(jobOf(changed), WANTED);
    const kept = changed.split('\n').map(shape);
    let from = 0;
    for (const line of text
      .split('\n')
      .filter((each) => each.trim() !== '')
      .map(shape)) {
      const at = kept.findIndex((each, i) => i >= from && each.startsWith(line));
      assert.ok(at >= 0, `${JSON.stringify(line)} is gone or moved:\n${changed}`);
      from = at;
    }
    for (const [, comment = ''] of text.matchAll(/(#.*)$/gm)) assert.ok(changed.includes(comment), comment);
  });

  test(`${name}: written twice is as written once`, () => {
    const once = changedConfig(text, CHANGE, 'config.yaml');
    assert.equal(changedConfig(once, CHANGE, 'config.yaml'), once);
    assert.deepEqual(diffOf(once, once), []);
  });
}

/** A line without the values that may change, up to its comment or the end of an opened map. */
function shape(line: string): string {
  if (line.trim().startsWith('#') || line === '---') return line;
  const [before = ''] = line.split(/ +#/);
  return before
    .replace(/(batch_?size|thread.per.model|threadPerModel|memoryMB|core_number):.*$/i, '$1:')
    .replace(/ *\}$/, '');
}

test('a setting that is right already is not touched, also where it is a default', () => {
  const text = 'modelPath: m\nfunction:\n  memoryMB: 1769 # one vCPU\n';
  const change = { 'function.memoryMB': 1769, threadPerModel: 0, batchSize: 32 };
  assert.equal(changedConfig(text, change, 'config.yaml'), text);
});

test('an inserted setting stands right behind the commented default that init wrote', () => {
  const lines = changedConfig(configText(), CHANGE, 'config.yaml').split('\n');
  for (const [comment, line] of [
    ['# batchSize: 32', 'batchSize: 64'],
    ['  # batchSize: 10', '  batchSize: 64'],
    ['  # memoryMB: 1769', '  memoryMB: 3538'],
  ] as const) {
    assert.equal(lines[lines.indexOf(comment) + 1], line);
  }
});

test('lines of Windows stay lines of Windows', () => {
  const changed = changedConfig('# a\r\nbatchSize: 8\r\nqueue:\r\n  batchSize: 4\r\n', CHANGE, 'config.yaml');
  assert.doesNotMatch(changed, /(?<!\r)\n/);
  assert.deepEqual(jobOf(changed), WANTED);
});

test('a value that others refer to is not changed silently: the error has the lines to write', () => {
  const text = 'batchSize: &n 8\nqueue: {batchSize: *n}\n';
  assert.throws(
    () => changedConfig(text, { batchSize: 4 }, 'config.yaml'),
    /config\.yaml: its keys cannot be changed one by one.*write by hand:\nbatchSize: 4$/s,
  );
});

test('a config that is wrong is refused as ever', () => {
  assert.throws(() => changedConfig('batchsise: 3\n', CHANGE, 'config.yaml'), /did you mean batchSize\?/);
});

test('the difference has the lines that went and came', () => {
  const changed = changedConfig(
    'a: 1\n'.replace('a: 1', 'batchSize: 8\nmodelPath: m'),
    { batchSize: 4, 'function.memoryMB': 1024 },
    'c',
  );
  assert.deepEqual(diffOf('batchSize: 8\nmodelPath: m\n', changed), [
    '- batchSize: 8',
    '+ batchSize: 4',
    '+ function:',
    '+   memoryMB: 1024',
  ]);
});

test('the lines for config.yaml are a config', () => {
  assert.deepEqual(jobOf(linesOf(CHANGE)), WANTED);
});
