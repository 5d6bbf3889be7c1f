/** The packaged function that looks at versions on trial, with the variables of its template, S3 and Redis on this machine. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { readCurrent } from '../../lib/registry/pointer.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { endCanary } from '../../lib/registry/trial.ts';
import { readTrialReport } from '../../lib/registry/trial-report.ts';
import { identityModel } from '../support/onnx.ts';
import { type Packaged, packageProject } from '../support/packaging.ts';
import { temporaryFolder } from '../support/runner.ts';
import { resourcesOf } from '../support/template.ts';
import { readArchive } from './archive.ts';
import { type Artifact, startArtifact } from './artifact.ts';
import { composeJob } from './compose.ts';
import { BUCKET, type Prepared, prepareDeployment } from './deployed.ts';
import { lintTest } from './lint.ts';
import { assertReplayed } from './replay-in-aws.ts';
import { assertComposed } from './same-as-composed.ts';

const CONFIG = 'jobName: day\nrelease: {trials: true}\n';
const LOCATION = { bucket: BUCKET, prefix: 'models/day/' };
const CANARY = { kind: 'canary', share: 0.05 } as const;
/** The event of a rule with a schedule. */
const EVENT = {
  version: '0',
  id: '53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa',
  'detail-type': 'Scheduled Event',
  source: 'aws.events',
  account: '123456789012',
  time: '2026-11-29T04:00:00Z',
  region: 'us-east-1',
  resources: ['arn:aws:events:us-east-1:123456789012:rule/cluster-serving-day-dev-TrialsRule-A1'],
  detail: {},
};

describe('the packaged function that looks at versions on trial', () => {
  const closers: (() => Promise<unknown>)[] = [];
  let packaged: Packaged;
  let deployment: Prepared;

  before(async () => {
    packaged = await packageProject({ config: CONFIG });
    assert.equal(packaged.exitCode, 0, packaged.output);
    closers.push(() => packaged.remove());
    deployment = await prepareDeployment(
      packaged,
      async () => undefined,
      (close) => closers.push(close),
    );
  });
  after(async () => {
    for (const close of closers.reverse()) await close();
  });

  const s3 = () => deployment.aws.s3;
  const current = () => readCurrent(s3(), LOCATION);
  const found = () => readTrialReport(s3(), LOCATION);

  /** @param endpoint instead of S3 on this machine */
  const start = async (t: TestContext, endpoint?: string): Promise<Artifact> => {
    const { folder, handler, environment } = unpacked('trials');
    const artifact = await startArtifact({
      folder,
      handler,
      // The address is never called, its presence starts INIT.
      environment: {
        ...environment,
        AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
        ...(endpoint && { AWS_ENDPOINT_URL_S3: endpoint, AWS_ENDPOINT_URL: endpoint }),
      },
      readable: [environment['NODE_EXTRA_CA_CERTS'] ?? []].flat(),
    });
    t.after(() => artifact.close());
    return artifact;
  };
  const unpacked = (name: string) => {
    const one = deployment.functions.find((each) => each.name === name);
    assert.ok(one, name);
    return one;
  };

  /** Its golden request is answered with 2. */
  const publish = async (
    t: TestContext,
    name: string,
    expected: number | undefined,
    trial?: typeof CANARY,
  ) => {
    const folder = await temporaryFolder(t);
    await writeFile(
      join(folder, 'model.onnx'),
      identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]),
    );
    await writeFile(join(folder, 'name.txt'), name);
    if (expected !== undefined) {
      await mkdir(join(folder, 'golden'));
      const predictions = [`{value={"data":[${expected.toFixed(1)}],"shape":[1]}}`];
      await writeFile(
        join(folder, 'golden', 'two.json'),
        JSON.stringify({ instances: [{ x: [2] }], predictions }),
      );
    }
    return (await publishModel(s3(), LOCATION, folder, { trial, dropGolden: true })).version;
  };

  test('the template is the one that test/infra/trials.test.ts looks at, with an archive for each function', async () => {
    const config = join(packaged.folder, 'config.yaml');
    const template = await packaged.template();
    assertComposed(template, composeJob({ config }));
    assert.equal(resourcesOf(template, 'AWS::Lambda::Function').length, 7);
    const names = (await readArchive(packaged.archive('trials'))).map(({ name }) => name);
    for (const file of ['index.mjs', 'function.cache', 'libjpegturbowasm_decode.wasm'])
      assert.ok(names.includes(`dist/trials/${file}`), names.join());
    assert.equal(names.filter((name) => name.includes('onnxruntime_binding.node')).length, 1);
  });
  lintTest(() => packaged);

  test('while nothing is on trial it says that it looks, and refuses events that are not of its schedule', async (t) => {
    const artifact = await start(t);
    for (const event of [
      {},
      { source: 'aws.s3', detail: {} },
      { Records: [{ messageId: 'a', eventSource: 'aws:sqs', body: '{}' }] },
      { rawPath: '/predict', requestContext: { http: { method: 'POST' } } },
    ])
      await assert.rejects(artifact.invoke(event), /unknown event: expected an event of its schedule/);
    assert.equal(await found(), undefined);
    assert.deepEqual(await artifact.invoke(EVENT), {});
    const report = await found();
    assert.deepEqual([report?.canary, report?.shadow], [undefined, undefined]);
    assert.equal(
      report?.room.memoryMB,
      Number(unpacked('trials').environment['AWS_LAMBDA_FUNCTION_MEMORY_SIZE']) - 128,
    );
    await artifact.invoke(EVENT);
    assert.equal((await found())?.at, report?.at, 'once an hour is enough');
    const { MemorySize } = memoryOf(await packaged.template());
    assert.equal(MemorySize['trials'], MemorySize['predict']);
  });

  test('a canary whose golden request has another answer is rolled back, and the pointer says why', async (t) => {
    const artifact = await start(t);
    const serving = await publish(t, 'serving', undefined);
    const canary = await publish(t, 'wrong', 3, CANARY);
    assert.equal((await current()).canary?.version, canary);
    const report = await artifact.invoke(EVENT);
    assert.partialDeepStrictEqual(report, { canary: { version: canary, verdict: 'roll back' } });
    const { version, canary: left, ended } = await current();
    assert.deepEqual([version, left], [serving, undefined]);
    assert.partialDeepStrictEqual(ended, { version: canary, end: 'rolled back' });
    assert.match(String(ended?.reason), /1 of 1 golden requests: two: .*expected 3.*got 2/);
    const lines = artifact.output().split('\n');
    const warning = lines.find((line) => line.includes('was rolled back'));
    assert.match(String(warning), new RegExp(`"level":"WARN".*the canary ${canary} was rolled back`, 'i'));
    const metrics = lines.filter((line) => line.includes('"_aws"')).map((line) => JSON.parse(line));
    assert.deepEqual(
      metrics.map(({ CanariesRolledBack, Requests }) => [CanariesRolledBack, Requests]),
      [[1, undefined]],
    );
    assert.deepEqual(await artifact.invoke(EVENT), {});
    assert.deepEqual((await current()).ended, ended);
  });

  test('a canary whose golden request is answered stays, and is judged not enough before it has answered', async (t) => {
    const artifact = await start(t);
    await publish(t, 'serving', undefined);
    const canary = await publish(t, 'right', 2, CANARY);
    for (let look = 0; look < 2; look++) {
      await artifact.invoke(EVENT);
      assert.partialDeepStrictEqual((await found())?.canary, {
        version: canary,
        verdict: 'not enough',
        golden: 'passed',
        attempts: 1,
      });
    }
    const running = await current();
    assert.equal(running.canary?.version, canary);
    await endCanary(s3(), LOCATION, running, { isPromoted: false, reason: 'by hand', at: EVENT.time });
  });

  test('it replays captures for `model replay --in-aws`, whose report and exit code are those of a replay here', async (t) => {
    const version = await publish(t, 'replayed', undefined);
    await assertReplayed(t, { version, artifact: await start(t), aws: deployment.aws });
  });

  test('a canary that is promoted while it is asked is not rolled back, whatever it has answered', async (t) => {
    await publish(t, 'serving', undefined);
    const canary = await publish(t, 'promoted', 3, CANARY);
    let promoted = 0;
    const endpoint = await between(
      t,
      String(deployment.aws.environment['AWS_ENDPOINT_URL']),
      async (text) => {
        if (promoted++ > 0 || !text.includes('"asking"')) return;
        await endCanary(s3(), LOCATION, await current(), {
          isPromoted: true,
          reason: 'by hand',
          at: EVENT.time,
        });
      },
    );
    const artifact = await start(t, endpoint);
    await artifact.invoke(EVENT);
    assert.ok(promoted > 0);
    const { version, canary: left, ended } = await current();
    assert.deepEqual([version, left, ended?.end], [canary, undefined, 'promoted']);
    assert.doesNotMatch(artifact.output(), /was rolled back/);
    await artifact.invoke(EVENT);
    assert.equal((await current()).version, canary);
    assert.equal((await found())?.canary, undefined);
  });
});

function memoryOf(template: Awaited<ReturnType<Packaged['template']>>) {
  const sizes = resourcesOf(template, 'AWS::Lambda::Function').map(([, { FunctionName, MemorySize }]) => [
    String(FunctionName).replace(/^.*-dev-/, ''),
    MemorySize,
  ]);
  return { MemorySize: Object.fromEntries(sizes) as Readonly<Record<string, unknown>> };
}

/** Stands before S3, and calls `onWrite` with what is about to be written to trial.json. */
async function between(
  t: TestContext,
  target: string,
  onWrite: (text: string) => Promise<void>,
): Promise<string> {
  const pass = async (from: IncomingMessage, to: ServerResponse) => {
    const body = await buffer(from);
    if (from.method === 'PUT' && from.url?.includes('trial.json')) await onWrite(body.toString());
    // The signature is over the host, too.
    const asked = request(new URL(from.url ?? '', target), { method: from.method, headers: from.headers });
    asked.on('response', (answer) => {
      to.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(to);
    });
    asked.on('error', () => to.destroy());
    asked.end(body);
  };
  const server = createServer((from, to) => void pass(from, to));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
