/** The package of a deployment with `results=dynamodb`: the same tests as of the default one, over a table in an emulator. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Packaged, packageProject } from '../support/packaging.ts';
import { resourcesOf, roleStatements } from '../support/template.ts';
import { readArchive } from './archive.ts';
import { archiveTests } from './archive-tests.ts';
import { composeJob } from './compose.ts';
import type { TableCalls } from './deployed.ts';
import { everyStackTests } from './every-stack/tests.ts';
import { lintTest } from './lint.ts';
import { assertComposed } from './same-as-composed.ts';

const FUNCTIONS = ['predict', 'batch', 'predictions', 'submit', 'status', 'dead-letter'];

describe('what serverless package writes with results=dynamodb', () => {
  let packaged: Packaged;

  before(async () => {
    packaged = await packageProject({ options: ['--param', 'results=dynamodb'] });
    assert.equal(packaged.exitCode, 0, packaged.output);
  });
  after(() => packaged?.remove());

  test('no archive holds a client of Redis, and the stack has neither a Redis nor a network', async () => {
    for (const name of FUNCTIONS) {
      for (const entry of await readArchive(packaged.archive(name))) {
        if (/\.m?js$/.test(entry.name))
          assert.doesNotMatch(entry.read().toString(), /ioredis|rediss:/i, name);
      }
    }
    const types = Object.values((await packaged.template()).Resources).map(({ Type }) => Type);
    assert.deepEqual(
      types.filter((type) => /ElastiCache|EC2/.test(type)),
      [],
    );
  });

  test('the template is the one that test/infra/templates.test.ts looks at', async () =>
    assertComposed(await packaged.template(), composeJob({ parameters: { results: 'dynamodb' } })));
  lintTest(() => packaged);
  describe('the template, as that of every stack', () => everyStackTests(() => packaged));
  const calls: TableCalls = new Map();
  describe('the archives', () => archiveTests(() => packaged, calls));

  test('each function may make the calls of the table that it made, and reads nothing by a scan', async () => {
    const template = await packaged.template();
    const made = new Set<string>();
    for (const [, { Role, Handler, FunctionName }] of resourcesOf(template, 'AWS::Lambda::Function')) {
      const name = String(FunctionName).replace(/^cluster-serving-dev-/, '');
      const role = JSON.stringify(Role);
      const allowed = roleStatements(template)
        .filter((one) => role.includes(`"${one.role}"`))
        .flatMap(({ statement }) => statement.Action);
      const asked = new Set(
        (calls.get(name) ?? []).map((call) => call.replace(/^DynamoDB_\d+\./, 'dynamodb:')),
      );
      assert.ok(asked.size > 0, `${name} (${String(Handler)})`);
      for (const action of asked) {
        assert.ok(allowed.includes(action), `${name}: ${action}`);
        made.add(action);
      }
    }
    assert.deepEqual(
      [...made].sort(),
      ['BatchGetItem', 'GetItem', 'Query', 'UpdateItem'].map((name) => `dynamodb:${name}`),
    );
  });
});
