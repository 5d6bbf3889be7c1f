/** What Dockerfile, compose.yaml and .dockerignore promise. image.docker.test.ts builds the image and runs it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseArgs } from 'node:util';
import { parse } from 'yaml';
import { readAccess } from '../../../local/machine/access.ts';
import { START_OPTIONS } from '../../../local/service/start-options.ts';
import { instructionsOf } from '../../support/image-layout.ts';
import { ROOT } from '../../support/start.ts';

const read = (name: string) => readFile(join(ROOT, name), 'utf8');

interface Service {
  readonly command: readonly string[];
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
  readonly tmpfs: readonly string[];
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
  readonly stop_grace_period: string;
}

const instructions = instructionsOf(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'));
/** Of the last stage, which is the image. */
const last = instructions.slice(instructions.findLastIndex(({ kind }) => kind === 'FROM'));
const valuesOf = (kind: string) => last.filter((each) => each.kind === kind).map(({ rest }) => rest);
const [entrypoint = [], command = []] = ['ENTRYPOINT', 'CMD']
  .flatMap(valuesOf)
  .map((rest) => JSON.parse(rest) as string[]);

function startOptions(args: readonly string[]) {
  const { foreground, ...values } = parseArgs({
    args: [...args],
    options: { ...START_OPTIONS, foreground: { type: 'boolean' } },
  }).values;
  return { foreground, values };
}

test('the image is of Debian by default, and is not run by root', () => {
  const defaults = instructions.filter(({ kind }) => kind === 'ARG').map(({ rest }) => rest);
  assert.deepEqual(defaults, ['NODE=node:24-bookworm-slim', 'BASE=debian:12-slim', 'PACKAGES=""']);
  assert.deepEqual(valuesOf('FROM'), ['${BASE}']);
  assert.deepEqual(valuesOf('USER'), ['10001:10001']);
});

test('all that it keeps is in one volume, in which it starts, and one port is for others', () => {
  assert.deepEqual(valuesOf('VOLUME'), ['/data']);
  assert.deepEqual(valuesOf('WORKDIR'), ['/data']);
  assert.deepEqual(valuesOf('EXPOSE'), ['10020']);
  assert.match(valuesOf('HEALTHCHECK').join('\n'), / CMD cluster-serving status >\/dev\/null$/);
});

test('SIGTERM reaches the service, which holds its volume and asks other machines for the token that it made', () => {
  // A shell in between would not pass the signal on.
  const [lock, ...rest] = entrypoint;
  const at = rest.indexOf('cluster-serving');
  assert.equal(lock, 'flock');
  assert.ok(rest.slice(0, at).includes('--no-fork'));
  assert.equal(rest[at - 1], '/data');
  assert.equal(rest[at + 1], 'start');
  const { foreground, values } = startOptions([...rest.slice(at + 2), ...command]);
  assert.equal(foreground, true);
  assert.deepEqual({ ...values }, { host: '0.0.0.0', 'make-token': true });
  assert.ok(readAccess(values).token);
});

test('compose publishes the HTTP API to this machine alone, and lets the service write to /data and /tmp', async () => {
  const { services, volumes } = parse(await read('compose.yaml')) as {
    services: Readonly<Record<string, Service>>;
    volumes: Readonly<Record<string, unknown>>;
  };
  assert.deepEqual(Object.keys(services), ['cluster-serving']);
  const service = services['cluster-serving'] as Service;
  assert.deepEqual(service.ports, ['127.0.0.1:10020:10020']);
  assert.equal(service.read_only, true);
  assert.deepEqual(service.tmpfs, ['/tmp']);
  assert.deepEqual(service.volumes, ['data:/data']);
  assert.deepEqual(Object.keys(volumes), ['data']);
  assert.deepEqual(service.cap_drop, ['ALL']);
  assert.deepEqual(service.security_opt, ['no-new-privileges:true']);
  // Requests may take 10 s, items of a worker 30, and Redis 5 to write its last commands.
  assert.match(service.stop_grace_period, /^(4[5-9]|[5-9]\d)s$/);
  const { values } = startOptions([...service.command, '--host', '0.0.0.0']);
  const { token, allowedHosts } = readAccess(values);
  assert.ok(token);
  assert.deepEqual(allowedHosts, ['cluster-serving']);
});

test('what git ignores stays out of the build, in every folder', async () => {
  const linesOf = async (name: string) =>
    (await read(name)).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const ignored = await linesOf('.dockerignore');
  for (const line of await linesOf('.gitignore')) {
    const name = line.replace(/\/$/, '');
    assert.ok(ignored.includes(name.includes('/') ? name : `**/${name}`), line);
  }
  assert.ok(ignored.includes('.git'));
});
