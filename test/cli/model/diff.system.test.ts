/** `cluster-serving model diff`, and a push of which clients would not notice that it changes their results. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { readPointer } from '../../../lib/registry/download.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import type { CliAnswer } from '../cli.ts';
import { warmCli, warmCliJson } from '../warm.ts';

const LABELS = ['ant', 'bee', 'cat', 'dog'];
const TO = ['--to', 's3://models-here/jobs/a'];
const LOCATION = { bucket: 'models-here', prefix: 'jobs/a/' };

interface Choice {
  /** Which class of the first model each class is. */
  readonly order?: readonly number[];
  readonly labels?: readonly string[];
  /** A number that is added to each weight. */
  readonly more?: number;
}

/** x: float32 [N, 6] -> scores: float32 [N, 4] */
function classifier({ order = [0, 1, 2, 3], more = 0 }: Choice): Uint8Array {
  const weight = (row: number, column: number) =>
    Math.sin(1 + row * 4 + (order[column] ?? 0)) + more * column;
  const data = Float32Array.from({ length: 24 }, (_, i) => weight(Math.floor(i / 4), i % 4));
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 6] }],
    outputs: [{ name: 'scores', dtype: 'float32', shape: ['N', 4] }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['scores'] }],
    weights: [{ name: 'w', dtype: 'float32', shape: [6, 4], data }],
  });
}

async function model(folder: string, choice: Choice = {}): Promise<string> {
  await mkdir(folder);
  await writeFile(join(folder, 'model.onnx'), classifier(choice));
  await writeFile(join(folder, 'labels.txt'), `${(choice.labels ?? LABELS).join('\n')}\n`);
  return folder;
}

async function place(t: TestContext) {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket('models-here');
  const cwd = await temporaryFolder(t);
  const options = { cwd, env: aws.environment };
  const json = async <T>(...args: string[]) =>
    (await warmCliJson(['model', ...args, ...TO], options)) as CliAnswer<T>;
  const text = (...args: string[]) => warmCli(['model', ...args, ...TO], options);
  const serving = async () => (await readPointer(aws.s3, LOCATION)).version;
  return { aws, cwd, json, text, serving };
}

interface Report {
  readonly breaks: readonly { readonly name: string }[];
  readonly answers: readonly {
    readonly output: string;
    readonly rows: number;
    readonly flips: number;
    readonly largest: number;
  }[];
}
interface Pushed {
  readonly version: string;
  readonly diff?: Report;
}
interface Failed {
  readonly error: string;
  readonly code: string;
}

test('a push that gives clients other classes under the same numbers is refused, by its names, until they are accepted', async (t) => {
  const { cwd, json, serving } = await place(t);
  await model(join(cwd, 'first'));
  const swapped = { order: [0, 2, 1, 3], labels: ['ant', 'cat', 'bee', 'dog'] };
  await model(join(cwd, 'swapped'), swapped);
  const first = await json<Pushed>('push', 'first');
  assert.deepEqual([first.code, first.json.diff], [0, undefined]);

  const refused = await json<Failed>('push', 'swapped');
  assert.deepEqual([refused.code, refused.json.code], [1, 'bad_model']);
  assert.match(
    refused.json.error,
    new RegExp(`clients of version ${first.json.version} would get wrong results`),
  );
  assert.match(refused.json.error, /labels:scores: labels of "scores": "bee" was number 1 and is number 2/);
  assert.match(refused.json.error, /answers:scores: output "scores" has the same values in another order/);
  assert.match(refused.json.error, /pass --accept labels:scores,answers:scores$/);
  assert.equal(await serving(), first.json.version);

  const half = await json<Failed>('push', 'swapped', '--accept', 'labels:scores');
  assert.match(half.json.error, /pass --accept answers:scores$/);
  const stored = await json<Pushed>('push', 'swapped', '--no-activate');
  assert.deepEqual(
    [stored.code, stored.json.diff?.breaks.length, await serving()],
    [0, 2, first.json.version],
  );

  const accepted = await json<Pushed>('push', 'swapped', '--accept', 'labels:scores,answers:scores');
  assert.deepEqual([accepted.code, await serving()], [0, accepted.json.version]);
});

test('a retrained model passes, and the push says how far its answers are from those before', async (t) => {
  const { cwd, json, text } = await place(t);
  await model(join(cwd, 'first'));
  await model(join(cwd, 'retrained'), { more: 0.2 });
  const first = await json<Pushed>('push', 'first');
  const pushed = await text('push', 'retrained', '--accept', 'image');
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.match(pushed.stderr, /--accept image: no such change/);
  assert.match(pushed.stdout, new RegExp(`changes since version ${first.json.version}:`));
  assert.match(
    pushed.stdout,
    /answers {3}scores, 32 made-up rows: first class differs in \d+ of 32 \([\d.]+ %\); differs by/,
  );
  assert.match(pushed.stdout, /breaks {4}none/);
});

test('diff compares folders and versions, writes nothing, and ends with 1 when clients would get wrong results', async (t) => {
  const { cwd, json, serving } = await place(t);
  await model(join(cwd, 'first'));
  await model(join(cwd, 'retrained'), { more: 0.2 });
  await model(join(cwd, 'renamed'), { labels: ['ant', 'bee', 'cat', 'eel'] });
  const { json: first } = await json<Pushed>('push', 'first');
  const { json: second } = await json<Pushed>('push', 'retrained');

  const same = await json<Report>('diff', first.version, 'first');
  assert.deepEqual([same.code, same.json.breaks, same.json.answers[0]?.largest], [0, [], 0]);
  const between = await json<Report>('diff', first.version, second.version);
  assert.deepEqual([between.code, between.json.answers[0]?.rows], [0, 32]);
  assert.ok((between.json.answers[0]?.largest ?? 0) > 0.01);
  const served = await json<Report>('diff', 'renamed');
  assert.deepEqual([served.code, served.json.breaks.map(({ name }) => name)], [1, ['labels:scores']]);
  assert.equal(await serving(), second.version);

  const unknown = await json<Failed>('diff', 'abcdef012345', 'first');
  assert.deepEqual([unknown.code, unknown.json.code], [1, 'model_unavailable']);
  assert.match(unknown.json.error, /version abcdef012345: there is none/);
});

test('a version that cannot be opened stops no push: the push says that it was not compared', async (t) => {
  const { aws, cwd, json, text, serving } = await place(t);
  await model(join(cwd, 'first'));
  await model(join(cwd, 'retrained'), { more: 0.2 });
  const { json: first } = await json<Pushed>('push', 'first');
  const Key = `${LOCATION.prefix}versions/${first.version}/model.onnx`;
  await aws.s3.send(new PutObjectCommand({ Bucket: LOCATION.bucket, Key, Body: 'damaged' }));
  const pushed = await text('push', 'retrained');
  assert.equal(pushed.code, 0, pushed.stderr);
  assert.match(pushed.stderr, new RegExp(`not compared with version ${first.version}, which serves: `));
  assert.notEqual(await serving(), first.version);
});
