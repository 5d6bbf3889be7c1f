/**
 * What the deployment is by default, read from its source. What the packaged template makes of it (roles, encryption, TLS,
 * routes, rates) is held by test/infra/template-tests.ts.
 */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { readSettings } from '../../infra/template/config.ts';
import type { Parameters } from '../../infra/template/parameters.ts';
import { temporaryFolder } from '../support/runner.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

type Named = Readonly<Record<string, unknown>>;

interface Serverless {
  /** By stage. */
  readonly params: Readonly<Record<string, Named>>;
  readonly functions: Readonly<
    Record<
      string,
      {
        /** A text is a variable of osls. */
        readonly events: string | readonly Named[];
        readonly url?: unknown;
      }
    >
  >;
}

let serverless: Serverless;
before(async () => {
  // CloudFormation's tags are read as the plain values behind them.
  const text = await readFile(join(ROOT, 'serverless.yml'), 'utf8');
  serverless = parse(text, { logLevel: 'silent', merge: true }) as Serverless;
});

test('only signed requests come in by default, in every stage and at every endpoint', () => {
  assert.equal(serverless.params['default']?.['auth'], 'iam');
  for (const [stage, { auth = 'iam' }] of Object.entries(serverless.params))
    assert.notEqual(auth, 'none', stage);
  const { httpEvents } = readSettings(ROOT, {
    stage: 'dev',
    config: undefined,
    parameters: serverless.params['default'] as unknown as Parameters,
  });
  const signed = Object.values(httpEvents).flat();
  assert.ok(signed.length > 10);
  for (const { httpApi } of signed) assert.deepEqual(httpApi.authorizer, { type: 'aws_iam' }, httpApi.path);
  // A route that stands in the file itself would have no authorizer.
  for (const [name, { events }] of Object.entries(serverless.functions)) {
    if (typeof events === 'string') assert.equal(events, `\${self:custom.settings.httpEvents.${name}}`);
    else
      assert.ok(
        events.every((event) => 'sqs' in event),
        name,
      );
  }
  for (const [name, { url }] of Object.entries(serverless.functions))
    assert.equal(url, undefined, `${name} has no endpoint of its own beside the API`);
});

test('a rate of requests is set in every stage', () => {
  assert.ok(Number(serverless.params['default']?.['requestsPerSecond']) > 0);
  for (const [stage, { requestsPerSecond = 1 }] of Object.entries(serverless.params))
    assert.ok(Number(requestsPerSecond) > 0, stage);
});

test('the environment of a function holds addresses and settings, no secret', async (t) => {
  const root = await temporaryFolder(t);
  const stages = Object.keys(serverless.params).map((stage) => (stage === 'default' ? 'dev' : stage));
  for (const stage of stages) {
    const parameters = {
      ...serverless.params['default'],
      ...serverless.params[stage],
    } as unknown as Parameters;
    const { variables } = readSettings(root, { stage, config: undefined, parameters });
    const all = Object.values(variables).flatMap((environment) => Object.entries(environment));
    assert.ok(all.length > 5);
    for (const [name, value] of all) {
      assert.match(name, /^CLUSTER_SERVING_[A-Z_]+$/);
      assert.doesNotMatch(name, /PASSWORD|SECRET|TOKEN|CREDENTIAL|KEY/, name);
      // redis://user:password@host, a reference to a secret, a key of AWS; and Redis is spoken to over TLS only.
      assert.doesNotMatch(
        JSON.stringify(value),
        /:\/\/[^/"]*:[^/"$]*@|redis:\/\/|resolve:(secretsmanager|ssm)|AKIA/,
        name,
      );
    }
  }
});

test('a password in a config.yaml does not get into the environment of a function', async (t) => {
  const root = await temporaryFolder(t);
  const parameters = serverless.params['default'] as unknown as Parameters;
  for (const line of [
    'redisUrl: redis://user:hunter2@host:6379',
    'redisUrl: host:6379\nredisSecureTrustStorePassword: hunter2',
    'secure:\n  trust_store_password: hunter2',
  ]) {
    await writeFile(join(root, 'config.yaml'), `${line}\n`);
    let told: string;
    try {
      told = JSON.stringify(readSettings(root, { stage: 'dev', config: undefined, parameters }));
    } catch (error) {
      assert.equal((error as { code?: unknown }).code, 'bad_config', line);
      told = (error as Error).message;
    }
    assert.ok(!told.includes('hunter2'), told);
  }
});

test('no file of the deployment holds a secret, or asks for one in a parameter', async () => {
  const entries = await readdir(join(ROOT, 'infra'), { recursive: true });
  const files = [
    'serverless.yml',
    ...entries.filter((name) => name.endsWith('.yml')).map((name) => join('infra', name)),
  ];
  assert.ok(files.length > 5);
  for (const file of files) {
    const text = (await readFile(join(ROOT, file), 'utf8')).replaceAll(/^\s*#.*$/gm, '');
    assert.doesNotMatch(
      text,
      /AuthToken|MasterUserPassword|SecretString|\bPasswords\b|AKIA[0-9A-Z]{16}|PRIVATE KEY/,
      file,
    );
    assert.doesNotMatch(text, /(password|secret|api_?key)\s*[:=]\s*['"]?\w/i, file);
  }
});

test('the project does not run what its packages bring along when it is installed', async () => {
  assert.match(await readFile(join(ROOT, '.npmrc'), 'utf8'), /^ignore-scripts=true$/m);
});

test('what is deployed is what was tested: every package has one exact version', async () => {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'lib', 'package.json'), 'utf8')) as {
    dependencies: Readonly<Record<string, string>>;
  };
  for (const [name, version] of Object.entries(dependencies)) assert.match(version, /^\d+\.\d+\.\d+$/, name);
});
