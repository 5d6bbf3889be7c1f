/** The stack of a job with a budget, and that of one without. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import { deployerPolicies } from '../../infra/template/deployer-policy.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { propertiesOf, roleStatements, type Template } from '../support/template.ts';
import { composeJob, type Request } from './compose.ts';

const BOTH = 'budget: {perDay: 5, perMonth: 100}\n';

async function withBudget(t: TestContext, request: Request = {}, text = BOTH): Promise<Template> {
  const config = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(config, text);
  return composeJob({ ...request, config });
}

const namesOf = ({ Resources }: Template) => Object.keys(Resources);

test('a job without a budget has nothing of it in its stack', () => {
  const template = composeJob({ parameters: { alarmTopic: 'own' } });
  assert.doesNotMatch(JSON.stringify(template), /budget|throttleRole|event-source-mapping/i);
});

test('a job with a budget adds a function with its role and log, a rule that may call it, two alarms, and a budget of AWS', async (t) => {
  const [without, template] = [composeJob(), await withBudget(t)];
  const added = namesOf(template).filter((name) => !Object.hasOwn(without.Resources, name));
  assert.deepEqual(added.toSorted(), [
    'BudgetExceededAlarm',
    'BudgetMarkPolicy',
    'BudgetUnknownAlarm',
    'MonthlyBudget',
    'ThrottleLambdaFunction',
    'ThrottleLogGroup',
    'ThrottlePermission',
    'ThrottlePolicy',
    'ThrottleRole',
    'ThrottleRule',
  ]);
  assert.equal('VpcConfig' in propertiesOf(template, 'ThrottleLambdaFunction'), false);
  assert.equal(propertiesOf(template, 'ThrottleRule')['ScheduleExpression'], 'rate(1 minute)');
  // One who fears a bill learns what the limit itself costs: a call a minute, and four metrics of alarms.
  const { parts } = idlePrice(template);
  const of = (what: string) => parts.find((part) => part.what === what)?.dollars ?? 0;
  assert.ok(of('scheduled calls') > 0.04 && of('scheduled calls') < 0.1, String(of('scheduled calls')));
  assert.equal(Math.round((of('alarms') - 0.4) * 100), 40);
});

test('a limit of the day alone makes no budget of AWS', async (t) => {
  const template = await withBudget(t, {}, 'budget: {perDay: 5}\n');
  assert.equal(Object.hasOwn(template.Resources, 'MonthlyBudget'), false);
  assert.equal(Object.hasOwn(template.Resources, 'ThrottleRule'), true);
});

test('the functions get the limits, and throttle the mappings of all queues with their concurrency', async (t) => {
  const text = `${BOTH}queue: {highShare: 0.7}\njobs: {maximumConcurrency: 3}\n`;
  const template = await withBudget(t, {}, text);
  const variablesOf = (name: string) =>
    (propertiesOf(template, `${name}LambdaFunction`)['Environment'] as { Variables: Record<string, unknown> })
      .Variables;
  for (const name of ['Predict', 'Batch', 'Status', 'Throttle']) {
    const { job } = readEnvironment({
      CLUSTER_SERVING_CONFIG: String(variablesOf(name)['CLUSTER_SERVING_CONFIG']),
    });
    assert.deepEqual(job.budget, { perDay: 5, perMonth: 100 }, name);
  }
  const sources = variablesOf('Throttle')['CLUSTER_SERVING_EVENT_SOURCES'] as { 'Fn::Sub': string };
  const named = sources['Fn::Sub'].split(',').map((one) => /^\$\{(\w+)\}=(\d+)$/.exec(one)?.slice(1));
  assert.deepEqual(named, [
    ['BatchEventSourceMappingSQSQueue', '3'],
    ['BatchEventSourceMappingSQSHighQueue', '7'],
    ['JobsEventSourceMappingSQSJobsQueue', '3'],
  ]);
  for (const [name = '', concurrency] of named as [string, string][]) {
    const { ScalingConfig } = propertiesOf(template, name);
    assert.deepEqual(ScalingConfig, { MaximumConcurrency: Number(concurrency) }, name);
  }
});

test('throttle changes the queues of its stack and one object of the bucket, and batch writes that object', async (t) => {
  const template = await withBudget(t);
  const places = (role: string) =>
    roleStatements(template)
      .filter((found) => found.role === role)
      .map(({ statement: { Action, Resource } }) => [[Action].flat().join(), JSON.stringify(Resource)]);
  const mark = JSON.stringify({ 'Fn::Sub': '${Bucket.Arn}/budget/serving_stream.json' });
  assert.deepEqual(
    places('ThrottleRole').toSorted(([a = ''], [b = '']) => a.localeCompare(b)),
    [
      [
        'lambda:GetEventSourceMapping,lambda:UpdateEventSourceMapping',
        JSON.stringify([
          {
            'Fn::Sub':
              'arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:event-source-mapping:${BatchEventSourceMappingSQSQueue}',
          },
        ]),
      ],
      [
        'logs:CreateLogStream,logs:PutLogEvents',
        JSON.stringify({ 'Fn::GetAtt': ['ThrottleLogGroup', 'Arn'] }),
      ],
      ['s3:GetObject,s3:PutObject', mark],
      ['s3:ListBucket', JSON.stringify({ 'Fn::GetAtt': ['Bucket', 'Arn'] })],
    ],
  );
  assert.ok(places('BatchRole').some(([actions, on]) => actions === 's3:PutObject' && on === mark));
});

test("the budget of AWS has the month's limit, counts this stack, and tells at 80 and at 100 %", async (t) => {
  const budgetOf = async (parameters: Request['parameters'] = {}) => {
    const template = await withBudget(t, { parameters });
    return { template, budget: propertiesOf(template, 'MonthlyBudget') };
  };
  const { budget } = await budgetOf();
  assert.deepEqual(budget['Budget'], {
    BudgetName: { 'Fn::Sub': 'cluster-serving-dev-${AWS::Region}' },
    BudgetType: 'COST',
    TimeUnit: 'MONTHLY',
    BudgetLimit: { Amount: 100, Unit: 'USD' },
    CostFilters: {
      TagKeyValue: [{ 'Fn::Join': ['$', ['aws:cloudformation:stack-name', { Ref: 'AWS::StackName' }]] }],
    },
  });
  assert.deepEqual(budget['NotificationsWithSubscribers'], { Ref: 'AWS::NoValue' });
  const told = async (parameters: Request['parameters']) => {
    const notices = (await budgetOf(parameters)).budget['NotificationsWithSubscribers'] as {
      Notification: { Threshold: number };
      Subscribers: unknown;
    }[];
    assert.deepEqual(
      notices.map(({ Notification }) => Notification.Threshold),
      [80, 100],
    );
    return notices[0]?.Subscribers;
  };
  assert.deepEqual(await told({ alarmEmail: 'a@example.com' }), [
    { SubscriptionType: 'EMAIL', Address: 'a@example.com' },
  ]);
  const topic = 'arn:aws:sns:us-east-1:123456789012:alarms';
  assert.deepEqual(await told({ alarmTopic: topic }), [{ SubscriptionType: 'SNS', Address: topic }]);
  assert.deepEqual(await told({ alarmTopic: 'own' }), [
    { SubscriptionType: 'SNS', Address: { Ref: 'AlarmTopic' } },
  ]);
  const { template } = await budgetOf({ alarmTopic: 'own' });
  assert.match(JSON.stringify(propertiesOf(template, 'AlarmTopicPolicy')), /"budgets\.amazonaws\.com"/);
});

test('a deployer may make a budget of AWS, and only where there is one', async (t) => {
  const actions = (template: Template) => {
    const request = {
      kind: 'deployer',
      service: 'cluster-serving',
      stage: 'dev',
      queueName: 'serving_stream',
      redisStack: undefined,
      account: undefined,
      region: undefined,
      partition: 'aws',
      deploymentRole: null,
    } as const;
    return deployerPolicies({ ...request, template }).flatMap(({ Statement }) =>
      Statement.flatMap(({ Action }) => Action),
    );
  };
  assert.ok(actions(await withBudget(t)).includes('budgets:ModifyBudget'));
  assert.equal(
    actions(composeJob()).some((action) => action.startsWith('budgets:')),
    false,
  );
});

test('pollers that are always there are refused beside a budget', async (t) => {
  await assert.rejects(
    async () => withBudget(t, { parameters: { pollers: '2-10' } }),
    /param pollers does not go with budget in config\.yaml/,
  );
});
