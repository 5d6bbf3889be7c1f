/** Jobs over files on a single machine, with the real clients of SQS and S3, by the command, compared with POST /predict. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { cancelJob, listJobs, printResults, resumeJob, showJob } from '../../cli/job/jobs.ts';
import { type RunOptions, runJob } from '../../cli/job/run.ts';
import type { Output } from '../../cli/output.ts';
import { readAddress } from '../../lib/jobs/request.ts';
import { JobPlace } from '../../local/console/job-place.ts';
import type { Stack } from '../../local/service/stack.ts';
import { onnxModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** `y = a + b`, a number of each a row. */
const SUM = onnxModel({
  inputs: [
    { name: 'a', dtype: 'float32', shape: ['N'] },
    { name: 'b', dtype: 'float32', shape: ['N'] },
  ],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N'] }],
  nodes: [{ op: 'Add', inputs: ['a', 'b'], outputs: ['y'] }],
});

interface Answer {
  readonly file?: string;
  readonly row?: number;
  readonly error?: string;
  readonly code?: string;
}

const OPTIONS = { out: undefined, format: undefined, maxErrors: undefined, dryRun: false, detach: false };

function openPlace({ aws, bucket, job }: Stack): JobPlace {
  return new JobPlace(aws.s3, bucket, job, true);
}

/** The answer of a command. */
async function answerOf(
  command: (output: Output) => Promise<number>,
): Promise<{ code: number; document: unknown; text: string }> {
  let said: { document: unknown; text: string } | undefined;
  const ignore = () => undefined;
  const answer = (document: unknown, text: string) => {
    said = { document, text };
  };
  const code = await command({ json: true, answer, piece: ignore, note: ignore, failure: ignore });
  return { code, document: said?.document, text: said?.text ?? '' };
}

async function run(place: JobPlace, options: Pick<RunOptions, 'target'> & Partial<RunOptions>) {
  const { code, document, text } = await answerOf((output) =>
    runJob(place, { ...OPTIONS, ...options }, output),
  );
  const { summary } = document as { summary: { results: string; id: string; total: number; errors: number } };
  return { code, text, summary };
}

async function linesOf({ objects }: JobPlace, results: string): Promise<Answer[]> {
  const file = readAddress('results', results);
  const bytes = (await objects.size(file)) ?? assert.fail(`no ${results}`);
  const text = Buffer.from(await objects.read({ ...file, etag: '' }, 0, bytes)).toString();
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Answer);
}

/** A line of a job without its place, as POST /predict answers the same record alone. */
const withoutPlace = (line: Answer): Answer => Object.fromEntries(Object.entries(line).slice(2));

async function predict({ url }: Stack, body: string | Buffer, type: string): Promise<Answer> {
  const headers = { 'content-type': type };
  const response = await fetch(`${url}/predict?form=plain`, { method: 'POST', body, headers });
  const answer = (await response.json()) as Answer;
  const { error = '', code = '' } = answer;
  return response.ok ? answer : { error, code };
}

describe('a job over files on one machine', () => {
  test('gives each row the answer that POST /predict gives it, whatever the format', async (t) => {
    const folder = await temporaryFolder(t);
    const model = join(folder, 'model');
    await mkdir(join(folder, 'files', 'more'), { recursive: true });
    await mkdir(model);
    await writeFile(join(model, 'model.onnx'), SUM);
    const stack = await testStack(t, { config: '{}', modelDirectory: model });
    const place = openPlace(stack);
    const ndjson = [
      '{"a":1.5,"b":2}',
      '{"b":7,"a":1e-7}',
      '{"a":"x","b":1}',
      '{"a":1}',
      '[1,2]',
      '{"a":16777217,"b":0}',
    ];
    const csv = ['1,2', '0.1,0.2', 'x,1', '3', '"5",6'];
    await writeFile(join(folder, 'files', 'a.ndjson'), ndjson.join('\r\n'));
    await writeFile(join(folder, 'files', 'b.csv'), `\ufeffa,b\n${csv.join('\n')}\n`);
    const columns = { a: [1, 2.5, 1e10], b: [3, null, -0.1] };
    const parquet = parquetWriteBuffer({
      columnData: [
        { name: 'b', data: columns.b, type: 'DOUBLE' },
        { name: 'a', data: columns.a, type: 'FLOAT' },
      ],
      rowGroupSize: 2,
    });
    await writeFile(join(folder, 'files', 'more', 'c.parquet'), Buffer.from(parquet));
    const { code, summary } = await run(place, { target: join(folder, 'files') });
    assert.equal(code, 0);
    const lines = await linesOf(place, summary.results);
    const pieces: string[] = [];
    const ignore = () => undefined;
    const silence = { json: false, answer: ignore, note: ignore, failure: ignore };
    const piece = (text: string) => void pieces.push(text);
    assert.equal(await printResults(place, summary.id, { ...silence, piece }), 0);
    assert.deepEqual(
      pieces
        .join('')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
      lines,
    );
    const expected = [
      ...(await Promise.all(
        ndjson.map((row) => predict(stack, `{"instances":[${row}]}`, 'application/json')),
      )),
      ...(await Promise.all(csv.map((row) => predict(stack, `a,b\n${row}`, 'text/csv')))),
      ...(await Promise.all(
        columns.a.map((a, i) =>
          predict(stack, JSON.stringify({ instances: [{ a, b: columns.b[i] }] }), 'application/json'),
        ),
      )),
    ];
    const words = ({ error, ...rest }: Answer) =>
      error === undefined ? rest : { error: error.replace(/^line \d+: /, '') };
    const found = lines.map((line) => words(withoutPlace(line)));
    // A column without a value differs from a null of JSON.
    const at = expected.length - 2;
    assert.deepEqual(found[at], { error: 'column "b" has no value' });
    assert.deepEqual(found.toSpliced(at, 1), expected.map(words).toSpliced(at, 1));
    assert.deepEqual(
      lines.map(({ file, row }) => `${file} ${row}`),
      [
        ...ndjson.map((_, i) => `a.ndjson ${i + 1}`),
        ...csv.map((_, i) => `b.csv ${i + 1}`),
        ...columns.a.map((_, i) => `more/c.parquet ${i + 1}`),
      ],
    );
    assert.equal(summary.errors, lines.filter(({ error }) => error !== undefined).length);
    const listed = await answerOf((output) => listJobs(place, output));
    assert.match(listed.text, new RegExp(`^${summary.id} +done +14 of 14 rows in 3 files, 6 errors$`));
  });

  test('answers pictures, begins with a file that is dropped, and goes on after it was cancelled', async (t) => {
    const stack = await testStack(t);
    const place = openPlace(stack);
    const { summary, text } = await run(place, { target: join(SAMPLE, 'images') });
    assert.match(text, /10 rows, 0 of them errors.*none here; on AWS about \$0\.0000/s);
    const lines = await linesOf(place, summary.results);
    assert.deepEqual(
      lines.map(({ file }) => file),
      Array.from({ length: 10 }, (_, i) => `digit-${i}.png`),
    );
    const dropped = `${JSON.stringify({ image: 1 })}\n`;
    await place.objects.put('jobs/serving_stream/in/night.ndjson', dropped);
    await until(async () => (await place.ids()).some((id) => id.startsWith('night-ndjson-')));
    const [id = ''] = (await place.ids()).filter((one) => one.startsWith('night-'));
    await until(async () => (await place.state(id)).state === 'done');
    const wrong = join(await temporaryFolder(t), 'wrong.ndjson');
    await writeFile(wrong, '{"image":1}\n{"image":2}\n');
    const failed = await answerOf((output) =>
      runJob(place, { ...OPTIONS, target: wrong, maxErrors: '1' }, output),
    );
    assert.equal(failed.code, 1);
    assert.match(
      failed.text,
      /\{"file":"wrong\.ndjson","row":1,"error":.*error: 2 of 2 rows are errors, more than 1$/s,
    );
    const refused = runJob(place, { ...OPTIONS, target: join(SAMPLE, 'config.yaml') }, silent);
    assert.equal(await refused, 1);
    await assert.rejects(showJob(place, 'nothing', silent), /there is no job nothing/);
    await assert.rejects(cancelJob(place, id, silent), /is done: there is nothing to cancel/);
    await assert.rejects(resumeJob(place, id, undefined, silent), /is done already/);
  });
});

const ignore = () => undefined;
const silent: Output = { json: true, answer: ignore, piece: ignore, note: ignore, failure: ignore };
