/** Jobs over files and batches of OpenAI's API on a packaged stack: its archives, routes, variables and event sources, on this machine. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import OpenAI, { toFile } from 'openai';
import { publishModel } from '../../lib/registry/publish.ts';
import { JobPlace } from '../../local/console/job-place.ts';
import { identityModel } from '../support/onnx.ts';
import { type Packaged, packageProject } from '../support/packaging.ts';
import { until } from '../support/until.ts';
import { composeJob } from './compose.ts';
import { BUCKET, type Deployed, deployLocally } from './deployed.ts';
import { lintTest } from './lint.ts';
import { assertComposed } from './same-as-composed.ts';

const CONFIG = 'jobName: day\njobs: {maximumConcurrency: 2}\n';
const URL_PLAIN = '/predict?form=plain';

describe('a packaged stack that takes jobs over files', () => {
  let packaged: Packaged;
  let deployed: Deployed;
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'file-jobs-'));
    packaged = await packageProject({ config: CONFIG });
    assert.equal(packaged.exitCode, 0, packaged.output);
    const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]);
    await writeFile(join(folder, 'model.onnx'), model);
    deployed = await deployLocally(packaged, async (aws) => {
      await publishModel(aws.s3, { bucket: BUCKET, prefix: 'models/day/' }, folder, {});
    });
  });
  after(async () => {
    await deployed?.close();
    await packaged?.remove();
    await rm(folder, { recursive: true, force: true });
  });

  const client = () => new OpenAI({ apiKey: 'none', baseURL: `${deployed.url}/v1`, maxRetries: 0 });
  const upload = async (text: string) =>
    client().files.create({ file: await toFile(Buffer.from(text), 'requests.jsonl'), purpose: 'batch' });

  test('is the stack that test/infra/file-jobs.test.ts looks at', async () => {
    const config = join(packaged.folder, 'config.yaml');
    assertComposed(await packaged.template(), composeJob({ config }));
  });
  lintTest(() => packaged);

  test('answers the rows of a file that is dropped, each once and in order', async () => {
    const place = new JobPlace(deployed.aws.s3, BUCKET, 'day', false);
    const rows = Array.from({ length: 12_000 }, (_, i) => `{"x":[${i}]}`);
    await place.objects.put('jobs/day/in/night.ndjson', rows.join('\n'));
    await until(async () => (await place.ids()).length > 0);
    const [id = ''] = await place.ids();
    await until(async () => (await place.state(id)).state === 'done');
    const results = { bucket: BUCKET, key: `jobs/day/out/${id}/results.ndjson`, etag: '' };
    const bytes = (await place.objects.size(results)) ?? assert.fail('no results');
    const lines = Buffer.from(await place.objects.read(results, 0, bytes))
      .toString()
      .trimEnd()
      .split('\n');
    assert.deepEqual(
      lines.map((line) => {
        const { row, outputs } = JSON.parse(line) as { row: number; outputs: Record<string, number[][]> };
        return [row, Object.values(outputs)[0]?.[0]?.[0]];
      }),
      rows.map((_, i) => [i + 1, i]),
    );
  });

  test("answers a batch of OpenAI's client, and refuses a file that a function cannot take", async () => {
    const requests = Array.from({ length: 300 }, (_, i) => {
      const x = i % 50 === 7 ? ['no'] : [i];
      return JSON.stringify({
        custom_id: `r${i}`,
        method: 'POST',
        url: URL_PLAIN,
        body: { instances: [{ x }, { x: [1] }] },
      });
    });
    const file = await upload(requests.join('\n'));
    const asked = { input_file_id: file.id, endpoint: URL_PLAIN as '/v1/embeddings' };
    const { id } = await client().batches.create({ ...asked, completion_window: '24h' });
    await until(async () => (await client().batches.retrieve(id)).status === 'completed');
    const batch = await client().batches.retrieve(id);
    assert.deepEqual(batch.request_counts, { total: 300, completed: 294, failed: 6 });
    const output = await (await client().files.content(batch.output_file_id ?? '')).text();
    const answered = output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { custom_id: string; response: { body: { outputs: object } } });
    assert.deepEqual(
      answered.map(({ custom_id: name, response }) => [name, Object.values(response.body.outputs)[0]]),
      requests.flatMap((_, i) => (i % 50 === 7 ? [] : [[`r${i}`, [[i], [1]]]])),
    );
    assert.equal((await client().files.delete(file.id)).deleted, true);
    await assert.rejects(client().files.retrieve(file.id), /404 No such File object/);
    await assert.rejects(upload('x'.repeat(4 * 1024 * 1024 + 1)), /413 .*`cluster-serving job run`/);
  });
});
