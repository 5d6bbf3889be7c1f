/**
 * The life of a stack in a second emulated account (MiniStack), which is independent of moto: it has its own CloudFormation, runs
 * the functions and their event sources itself, and checks signatures and policies of every call. Clients, `serverless` and
 * functions use AWS's own addresses, which lead to it in a namespace without any other network.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isInstalled } from '../../../../local/redis/installed.ts';
import { childEnvironment } from '../../../support/environment.ts';
import { temporaryFolder } from '../../../support/runner.ts';
import { miniStackTools } from '../tools.ts';
import { WALKED } from './variants.ts';
import type { Report } from './walk.ts';

const MAX_WALK_MS = 10 * 60_000;
/** The digit in the picture that is sent. */
const DIGIT = 7;
/** Nothing that was started in them outlives the walk. */
const NAMESPACES = '--net --mount --pid --fork --kill-child --mount-proc'.split(' ');
const NAMESPACE = fileURLToPath(new URL('namespace.sh', import.meta.url));
const WALK = fileURLToPath(new URL('walk.ts', import.meta.url));

const tools = await miniStackTools();
const SKIP = 'missing' in tools ? tools.missing : ((await lacking()) ?? false);

/** Why a walk cannot run on this machine. */
async function lacking(): Promise<string | undefined> {
  if (!(await isInstalled('redis-server', () => undefined))) return 'no redis-server is installed';
  if (spawnSync('openssl', ['version']).status !== 0) return 'no openssl is installed';
  if (spawnSync('ip', ['-V']).status !== 0) return "no ip command (Debian's iproute2) is installed";
  const tried = spawnSync('unshare', [...NAMESPACES, 'true'], { encoding: 'utf8' });
  return tried.status === 0
    ? undefined
    : `this user cannot make a namespace for a program that listens on every address: ${tried.stderr}`;
}

for (const { name, update } of WALKED) {
  describe(`a stack with redis=${name} in a second emulated account`, { skip: SKIP }, () => {
    let seen: Report;

    before(async () => {
      if ('missing' in tools) return;
      const folder = await temporaryFolder({ after }, 'cluster-serving-walk-');
      const [resolver, report] = [join(folder, 'resolv.conf'), join(folder, 'report.json')];
      await writeFile(resolver, 'nameserver 127.0.0.1\n');
      const inside = ['sh', NAMESPACE, resolver, process.execPath, WALK, name, tools.folder, report];
      const options = { env: childEnvironment(), timeout: MAX_WALK_MS, maxBuffer: 64 * 1024 * 1024 };
      await promisify(execFile)('unshare', [...NAMESPACES, ...inside], options);
      seen = JSON.parse(await readFile(report, 'utf8'));
    });

    test('predict, enqueue and query answer right, and status names the version', () => {
      const { predicted, enqueued, queried, status, unsigned } = seen.first;
      assert.deepEqual(
        [predicted.code, enqueued.code, queried.code, status.code],
        [0, 0, 0, 0],
        status.stderr,
      );
      assert.equal(classOf(predicted.stdout), DIGIT, predicted.stdout);
      assert.equal(classOf(queried.stdout), DIGIT, queried.stdout);
      assert.match(status.stdout, new RegExp(`^ready, model version ${servedIn(seen.texts.deployed)}`));
      assert.equal(unsigned, 403);
    });

    test('a job over a folder of pictures has a line for each, in their order', () => {
      const { ran, results } = seen.job;
      assert.deepEqual([ran.code, results.code], [0, 0], ran.stderr + results.stderr);
      const lines = results.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      assert.deepEqual(
        lines.map(({ file }) => file),
        Array.from({ length: 10 }, (_, digit) => `digit-${digit}.png`),
      );
      const rows = lines.map(({ outputs }): number[] => outputs.probabilities.flat());
      assert.deepEqual(
        rows.map((row) => row.indexOf(Math.max(...row))),
        [...rows.keys()],
      );
    });

    test('publish makes another version serve, and rollback the one before it', () => {
      const [first, second] = [seen.texts.deployed, seen.texts.published].map(servedIn);
      assert.notEqual(first, second);
      assert.equal(seen.rolledBack.code, 0, seen.rolledBack.stderr);
      assert.deepEqual([seen.afterPublish, seen.afterRollback], [second, first]);
    });

    test('an update changes what its parameters name and keeps bucket and addresses', () => {
      const { accepted, text, status } = seen.second;
      assert.deepEqual([accepted, status], [202, 'succeeded'], text);
      assert.deepEqual(seen.retention, Array(7).fill(Number(update['logDays'])));
      const { RedisUrl: _before, ...kept } = seen.outputs;
      const { RedisUrl: changed = '', ...others } = seen.updatedOutputs;
      assert.deepEqual(others, kept);
      if (update['redisMaxGB'] !== undefined) assert.match(changed, /maxGB=2$/);
    });

    test('a deployment with a damaged model is refused, and the stack answers as before', () => {
      const { code, output } = seen.refused;
      assert.equal(code, 1);
      assert.match(output, /model\.onnx: the file is damaged or cut off/);
      const { predicted, queried } = seen.afterRefusal;
      assert.deepEqual([classOf(predicted.stdout), classOf(queried.stdout)], [DIGIT, DIGIT]);
    });

    test('remove leaves no bucket, no queue and no stack', () => {
      assert.deepEqual(seen.left, { buckets: [], queues: [] });
      assert.equal(seen.gone.code, 1);
      assert.match(seen.gone.output, /cluster-serving-dev does not exist/);
    });
  });
}

function servedIn(text: string): string | undefined {
  return /model (\w+) from .* serves from now on/.exec(text)?.[1];
}

/** The largest of ten numbers in a text of JSON, in which a text may have quotes of its own. */
function classOf(text: string): number {
  const data = /"data":\[([^\]]+)\]/.exec(text)?.[1]?.split(',').map(Number) ?? [];
  return data.length === 10 ? data.indexOf(Math.max(...data)) : -1;
}
