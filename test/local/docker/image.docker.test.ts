/**
 * `npm run test:docker`: the image of the single machine, built from a clean checkout and run as Docker would run it. It
 * shows neither the public base images, nor Docker's own builder, network and health state, nor arm64.
 */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SMALL_JPEGS } from '../../support/jpegs.ts';
import { picturesOf } from '../../support/pictures.ts';
import { buildImage, type Container, type Image, newVolume, OUTER, WITH_BUILDAH } from './container.ts';

const cleanups: (() => Promise<void>)[] = [];
const HOOKS = { after: (cleanup: () => Promise<void>) => cleanups.push(cleanup) };
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

const SAMPLE = '/app/examples/digits/images';

/** Starts it, and gives the line to paste that it printed. */
async function startReady(t: TestContext, image: Image, volume: string, ...options: string[]) {
  const container = await image.start(t, volume, ...options);
  await container.line(/^ready http:\/\/localhost:10020$/);
  const call = (await container.line(/^call curl /)).replace('call ', '');
  return { container, call };
}

async function run(container: Container, command: string): Promise<string> {
  const { code, output } = await container.exec(command);
  assert.equal(code, 0, `${command}: ${output}`);
  return output;
}

/** The digit with the largest probability in what the service answers. */
function digitOf(text = ''): number {
  const { data } = JSON.parse(/\{value=(.*)\}/.exec(text)?.[1] ?? assert.fail(text)) as { data: number[] };
  assert.equal(data.length, 10);
  return data.indexOf(Math.max(...data));
}

describe('the image', WITH_BUILDAH, () => {
  let image: Image;
  before(async () => {
    image = await buildImage(HOOKS, 'localhost/cluster-serving');
  });

  test('it is at most 350 MB, of a user without rights, with one volume, one port and no program that changes its user', async (t) => {
    assert.ok(image.bytes <= 350e6, `${image.bytes} bytes`);
    assert.equal(image.user, '10001:10001');
    assert.deepEqual(image.ports, ['10020/tcp']);
    assert.deepEqual(image.volumes, ['/data']);
    const { container } = await startReady(t, image, await newVolume(t, image));
    assert.equal(await run(container, 'find / -xdev -perm /6000 -type f 2>/dev/null || true'), '');
    t.diagnostic(`${Math.round(image.bytes / 1e6)} MB`);
  });

  test('the printed line is answered, other addresses get 401, and SQS, S3 and Redis are not there for them', async (t) => {
    const { container, call } = await startReady(t, image, await newVolume(t, image));
    assert.ok(container.lines.some((line) => line.includes('(redis-server ')));
    const { predictions } = JSON.parse(await container.beside(`${call} -s`)) as { predictions: string[] };
    assert.equal(digitOf(predictions[0]), 3);
    const status = (url: string, more = '') =>
      container.beside(`curl -s -o /dev/null -w '%{http_code}' --max-time 5 ${more} ${url}`);
    const [, header = ''] = /(-H '[^']*')/.exec(call) ?? [];
    for (const path of ['/ready', '/metrics', '/predict']) {
      assert.equal(await status(`http://localhost:10020${path}`), '401');
      assert.equal(await status(`http://${OUTER}:10020${path}`, `--interface ${OUTER}`), '401');
    }
    assert.equal(await status(`http://${OUTER}:10020/ready`, `--interface ${OUTER} ${header}`), '200');
    for (const port of [10021, 10022]) assert.equal(await status(`http://${OUTER}:${port}/`), '000');
    // What else listens does so on the loopback.
    const listening = (await container.beside('ss --listening --tcp --numeric --no-header'))
      .trim()
      .split('\n');
    const places = listening.map((line) => line.trim().split(/\s+/)[3] ?? '');
    assert.deepEqual(
      places.filter((place) => !place.startsWith('127.0.0.1:')),
      ['0.0.0.0:10020'],
    );
  });

  test('it writes to /data and /tmp alone, is healthy, and has its commands', async (t) => {
    const volume = await newVolume(t, image);
    const { container } = await startReady(t, image, volume);
    assert.equal(await run(container, 'id -u; cat /proc/1/status | grep -c "^Uid:.*10001"'), '10001\n1\n');
    for (const path of ['/x', '/app/x', '/usr/x', '/etc/x', '/var/tmp/x']) {
      const { code, output } = await container.exec(`touch ${path}`);
      assert.notEqual(code, 0, path);
      assert.match(output, /Read-only file system/);
    }
    await run(container, 'touch /data/x /tmp/x');
    await run(container, image.health);
    assert.match(await run(container, 'cluster-serving-init'), /wrote config\.yaml/);
    assert.match(await readFile(join(volume, 'config.yaml'), 'utf8'), /jobName/);
    const predict = async (path: string) => digitOf(await run(container, `cluster-serving predict ${path}`));
    assert.equal(await predict(`${SAMPLE}/digit-7.png`), 7);
    // Each has a decoder of its own.
    await writeFile(join(volume, 'a.webp'), picturesOf('webp-lossy')[30]?.bytes ?? '');
    await writeFile(join(volume, 'a.jpg'), SMALL_JPEGS[0]?.bytes ?? '');
    for (const name of ['a.webp', 'a.jpg']) assert.ok((await predict(`/data/${name}`)) >= 0, name);
  });

  test('a stop loses nothing: the records of the queue, results and the token are there again', async (t) => {
    const volume = await newVolume(t, image);
    const first = await startReady(t, image, volume);
    await run(first.container, `cluster-serving enqueue early=${SAMPLE}/digit-3.png`);
    const wanted = await run(first.container, 'cluster-serving query early --wait 20');
    assert.match(wanted, /at 3\b/);
    const uris = Array.from({ length: 200 }, (_, i) => `late-${i}`);
    const records = uris.map((uri) => `${uri}=${SAMPLE}/digit-8.png`).join(' ');
    await run(first.container, `cluster-serving enqueue ${records}`);
    assert.equal(await first.container.stop(), 0);
    assert.ok(first.container.lines.includes('SIGTERM: stopping'));
    const second = await startReady(t, image, volume);
    assert.equal(second.call, first.call);
    assert.equal(await run(second.container, 'cluster-serving query early'), wanted);
    const found = await run(second.container, `cluster-serving query ${uris.join(' ')} --wait 60`);
    assert.equal(found.match(/^late-\d+ .* at 8\b/gm)?.length, uris.length, found.slice(0, 2_000));
  });

  test('a kill loses no result', async (t) => {
    const volume = await newVolume(t, image);
    const first = await startReady(t, image, volume);
    await run(first.container, `cluster-serving enqueue u=${SAMPLE}/digit-5.png`);
    const wanted = await run(first.container, 'cluster-serving query u --wait 20');
    await first.container.kill();
    const second = await startReady(t, image, volume);
    assert.equal(await run(second.container, 'cluster-serving query u'), wanted);
  });

  test('two containers never share a volume', async (t) => {
    const volume = await newVolume(t, image);
    const { container } = await startReady(t, image, volume);
    const second = await image.start(t, volume);
    assert.equal(await second.exited, 1);
    assert.match(second.lines.join('\n'), /failed to get lock/);
    await run(container, image.health);
  });
});

const WORKER = `import time
from wkr_serving.server import WKRHardWorker


class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None

    def predict(self, model, items):
        time.sleep(2)
        return [{"sum": float(sum(item))} for item in items]
`;

describe('the image with Python', WITH_BUILDAH, () => {
  let image: Image;
  before(async () => {
    image = await buildImage(HOOKS, 'localhost/cluster-serving-python', 'python3-numpy');
  });

  test('it is at most 450 MB, and a stop waits for the answer of a request', async (t) => {
    assert.ok(image.bytes <= 450e6, `${image.bytes} bytes`);
    t.diagnostic(`${Math.round(image.bytes / 1e6)} MB`);
    const volume = await newVolume(t, image);
    await writeFile(join(volume, 'server.py'), WORKER);
    await writeFile(join(volume, 'config.yaml'), 'jobName: sums\nworker:\n  class: server.Worker\n');
    await mkdir(join(volume, 'model'));
    const { container, call } = await startReady(t, image, volume);
    const ask = `${call.replace('/ready', '/predict')} -s -d '{"instances":[{"x":[1,2,3.5]}]}'`;
    const answer = container.beside(ask);
    await delay(1_000);
    assert.equal(await container.stop(), 0);
    assert.match(await answer, /6\.5/);
  });
});
