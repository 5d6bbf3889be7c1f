/**
 * The promises of templates with different parameters, as test/infra/compose.ts makes them; nothing is packaged here.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { resourcesOf } from '../support/template.ts';
import { composeFile } from './compose.ts';
import { REQUIRED, RESOURCE_CHECKS } from './every-stack/resources.ts';
import { EVERY_STACK } from './every-stack/tests.ts';
import { ROWS, VALUE_CHECKS, valueAt } from './every-stack/values.ts';
import { monitoringTests } from './monitoring-tests.ts';
import { FILE } from './rows-of-file.ts';
import { FOLLOWING, NAMES, OUTPUTS, STACKS, stack } from './sample-stacks.ts';
import { templateTests } from './template-tests.ts';

for (const name of NAMES)
  describe(`the stack ${name}`, () => {
    for (const [title, check] of EVERY_STACK) test(title, () => check(stack(name)));
  });

for (const name of ['redis', 'everything'] as const)
  describe(name === 'redis' ? 'the stack of a shared Redis' : 'the stack with everything', () => {
    for (const [title, check] of [...RESOURCE_CHECKS, ...VALUE_CHECKS]) test(title, () => check(stack(name)));
  });

describe('the default stack', () => templateTests(() => ({ template: async () => stack('dev') })));
describe('the monitoring of a prod stack', () => monitoringTests(() => stack('prod'), 'cluster-serving'));

test('every row of every-stack/values.ts and every type of resources.ts is of some stack', () => {
  const all = [...NAMES, 'redis' as const, 'everything' as const].map(stack);
  for (const row of ROWS)
    assert.ok(
      all.some((template) => valueAt(template, row[0], row[1]) !== undefined),
      row.slice(0, 2).join(),
    );
  const types = new Set(all.flatMap(({ Resources }) => Object.values(Resources).map(({ Type }) => Type)));
  for (const type of Object.keys(REQUIRED)) assert.ok(types.has(type), type);
  // Resources that osls or infra/template/monitoring.ts makes.
  const others = [...types].filter((type) => !Object.hasOwn(REQUIRED, type));
  for (const type of others) assert.match(type, /^AWS::(Lambda|Logs|ApiGatewayV2|CloudWatch::Dashboard)/);
});

test('values that follow a parameter follow it', () => {
  for (const [name, resource, path, expected, why] of FOLLOWING)
    assert.deepEqual(valueAt(stack(name), resource, path), expected, `${name}: ${resource}.${path}: ${why}`);
});

test('outputs name what commands, clients and other stacks need', () => {
  for (const [name, output, expected] of OUTPUTS) {
    const { Value, Export } = stack(name).Outputs[output] ?? { Value: undefined };
    assert.deepEqual({ Value, ...(Export && { Export }) }, expected, `${name}: ${output}`);
  }
  const { access } = { access: String(stack('redis').Outputs['Access']?.Value) };
  assert.match(access, /^on .*~cluster-serving_JOB@STAGE:|^on .*JOB@STAGE/);
});

test('a function waits for the policies without which Lambda refuses it', () => {
  for (const name of NAMES)
    for (const [logicalName, { VpcConfig, TracingConfig }] of resourcesOf(
      stack(name),
      'AWS::Lambda::Function',
    )) {
      const waits = [stack(name).Resources[logicalName]?.DependsOn].flat();
      assert.equal(waits.includes('InterfacesPolicy'), VpcConfig !== undefined, `${name} ${logicalName}`);
      const { Mode } = TracingConfig as { Mode: string };
      assert.equal(waits.includes('TracingPolicy'), Mode === 'Active', `${name} ${logicalName}`);
    }
});

test('what serverless.yml says to osls is as test/infra/rows-of-file.ts says, and why', () => {
  for (const [name, path, expected, why] of FILE) {
    let value: unknown = composeFile(STACKS[name]);
    for (const key of path.split('.'))
      value = (value as Readonly<Record<string, unknown>> | undefined)?.[key];
    assert.deepEqual(value, expected, `${name}: ${path}: ${why}`);
  }
});
