/** What every packaged stack promises about its queues, functions and HTTP API; see every-stack/tests.ts. */
import assert from 'node:assert/strict';
import { propertiesOf, referencesOf, resourcesOf, type Template } from '../../support/template.ts';
import {
  type Check,
  days,
  functionsOf,
  mappingsOf,
  mostAtOnce,
  type Properties,
  single,
  VARIABLES,
} from './parts.ts';

const GATEWAY_SECONDS = 30;
const MAX_ENVIRONMENT_BYTES = 4096;
/** What infra/template/config.ts allows for the job's settings, which are one variable. */
const MAX_JOB_BYTES = 3 * 1024;
/** What a reference resolves to, roughly: an address of Redis, the URL of a queue. */
const RESOLVED_BYTES = 100;

/** Logical names of the functions behind a route; an alias counts as its function. */
function routedFunctions(template: Template): Set<string> {
  const targets = resourcesOf(template, 'AWS::ApiGatewayV2::Integration').flatMap(([, { IntegrationUri }]) =>
    referencesOf(IntegrationUri),
  );
  const aliases = new Map(resourcesOf(template, 'AWS::Lambda::Alias'));
  return new Set(targets.flatMap((name) => [name, ...referencesOf(aliases.get(name)?.['FunctionName'])]));
}

const QUEUES: readonly Check[] = [
  [
    'a queue hides a message for six times its function timeout and the batch window',
    (template) => {
      const mappings = mappingsOf(template);
      assert.equal(mappings.length, 2);
      for (const { name, mapping, queue, fed } of mappings) {
        const window = Number(mapping['MaximumBatchingWindowInSeconds'] ?? 0);
        assert.ok(Number(queue['VisibilityTimeout']) >= 6 * Number(fed['Timeout']) + window, name);
      }
    },
  ],
  [
    'a queue reports partial failures, takes over 10 records only in a window and starts at most 1,000 functions',
    (template) => {
      for (const { name, mapping, fed } of mappingsOf(template)) {
        assert.deepEqual(mapping['FunctionResponseTypes'], ['ReportBatchItemFailures'], name);
        const window = Number(mapping['MaximumBatchingWindowInSeconds'] ?? 0);
        assert.ok(Number(mapping['BatchSize']) <= 10 || window >= 1, name);
        const most = mostAtOnce(mapping);
        assert.ok(most >= 2 && most <= 1_000, `${name}: ${most}`);
        // Lambda takes one of the two.
        assert.notEqual(
          mapping['ProvisionedPollerConfig'] === undefined,
          mapping['ScalingConfig'] === undefined,
        );
        // Throttled pollers use up a message's attempts.
        assert.equal(fed['ReservedConcurrentExecutions'], undefined, name);
      }
    },
  ],
  [
    'the queue gives up to the dead letters, which keep longer and take from this queue only',
    (template) => {
      const [queue, dead] = [propertiesOf(template, 'Queue'), propertiesOf(template, 'DeadLetterQueue')];
      const redrive = queue['RedrivePolicy'] as Properties;
      assert.deepEqual(redrive['deadLetterTargetArn'], { 'Fn::GetAtt': ['DeadLetterQueue', 'Arn'] });
      assert.ok(days(dead) > days(queue));
      const { redrivePermission, sourceQueueArns } = dead['RedriveAllowPolicy'] as Properties;
      assert.equal(redrivePermission, 'byQueue');
      const [source, ...others] = sourceQueueArns as [{ 'Fn::Sub': string }];
      assert.deepEqual(others, []);
      assert.ok(source['Fn::Sub'].endsWith(`:${String(queue['QueueName'])}`));
    },
  ],
  [
    'queues are standard queues, encrypted, and take messages of 1 MiB',
    (template) => {
      const queues = resourcesOf(template, 'AWS::SQS::Queue');
      assert.equal(queues.length, 2);
      for (const [name, queue] of queues) {
        assert.equal(queue['FifoQueue'], undefined, name);
        assert.doesNotMatch(String(queue['QueueName']), /\.fifo$/);
        const isEncrypted =
          queue['SqsManagedSseEnabled'] ?? String(queue['KmsMasterKeyId']).startsWith('arn:');
        assert.equal(isEncrypted, true, name);
        assert.equal(queue['MaximumMessageSize'], 1_048_576, name);
      }
    },
  ],
];

const FUNCTIONS: readonly Check[] = [
  [
    'functions run on Node 24 or in an image, each with a role and a log group of its own whose events expire',
    (template) => {
      const functions = functionsOf(template);
      assert.equal(functions.length, 6);
      assert.equal(new Set(functions.map(({ properties }) => JSON.stringify(properties['Role']))).size, 6);
      for (const { name, properties } of functions) {
        if (properties['PackageType'] === 'Image') {
          const { Command } = properties['ImageConfig'] as Properties;
          assert.deepEqual(
            [properties['Runtime'], Command],
            [undefined, [`dist/${name}/index.handler`]],
            name,
          );
        } else assert.equal(properties['Runtime'], 'nodejs24.x', name);
        const { LogGroup: named = `/aws/lambda/${String(properties['FunctionName'])}` } = (properties[
          'LoggingConfig'
        ] ?? {}) as { readonly LogGroup?: string };
        const group = resourcesOf(template, 'AWS::Logs::LogGroup').find(
          ([, { LogGroupName }]) => LogGroupName === named,
        );
        assert.ok(group, `${name}: no log group`);
      }
      for (const [name, { RetentionInDays }] of resourcesOf(template, 'AWS::Logs::LogGroup'))
        assert.ok(Number(RetentionInDays) > 0, name);
    },
  ],
  [
    'a function behind a route ends before the gateway gives up at 30 s',
    (template) => {
      const routed = routedFunctions(template);
      const functions = functionsOf(template).filter(({ logicalName }) => routed.has(logicalName));
      assert.equal(functions.length, 4);
      for (const { name, properties } of functions)
        assert.ok(Number(properties['Timeout']) < GATEWAY_SECONDS, name);
    },
  ],
  [
    'the variables of a function fit into 4 KB, with the largest settings that are accepted',
    (template) => {
      for (const { name, variables } of functionsOf(template)) {
        const bytes = Object.entries(variables).map(([key, value]) => {
          const length = typeof value === 'string' ? value.length : RESOLVED_BYTES;
          return key.length + (key === VARIABLES.config ? MAX_JOB_BYTES : length);
        });
        const total = bytes.reduce((sum, count) => sum + count, 0);
        assert.ok(total <= MAX_ENVIRONMENT_BYTES, `${name}: ${total}`);
      }
    },
  ],
  [
    'the gateway limits the rate and the burst of requests',
    (template) => {
      const [, stage] = single(template, 'AWS::ApiGatewayV2::Stage');
      const settings = stage['DefaultRouteSettings'] as Properties;
      for (const name of ['ThrottlingRateLimit', 'ThrottlingBurstLimit'])
        assert.ok(Number(settings[name]) > 0, name);
    },
  ],
];

export const FUNCTION_CHECKS = [...QUEUES, ...FUNCTIONS];
