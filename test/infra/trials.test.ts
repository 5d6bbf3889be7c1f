/** The stack of a job that looks at versions on trial, and that of one that does not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import { functionsOf, MODEL_FUNCTIONS } from '../../infra/doctor/template.ts';
import { deployerPolicies } from '../../infra/template/deployer-policy.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { propertiesOf, resourcesOf, roleStatements, type Template } from '../support/template.ts';
import { composeJob, type Request } from './compose.ts';
import { STACKS } from './sample-stacks.ts';

const TRIALS = 'release: {trials: true}\n';

async function withTrials(t: TestContext, request: Request = {}, text = TRIALS): Promise<Template> {
  const config = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(config, text);
  return composeJob({ ...request, config });
}

const namesOf = ({ Resources }: Template) => Object.keys(Resources);

/** The rights of trials, without those in the VPC. */
const rightsOf = (template: Template) =>
  roleStatements(template)
    .filter(({ role, statement }) => role === 'TrialsRole' && statement.Sid !== 'AttachToVpc')
    .map(({ statement }) => statement);

test('a job without trials has nothing of them in its stack', () => {
  assert.doesNotMatch(JSON.stringify(composeJob()), /trial|canar/i);
});

test('a job with trials adds a function with its role and log, a rule that may call it, and an alarm', async (t) => {
  const [without, template] = [composeJob(), await withTrials(t)];
  const added = namesOf(template).filter((name) => !Object.hasOwn(without.Resources, name));
  assert.deepEqual(added.toSorted(), [
    'CanaryRolledBackAlarm',
    'TrialsLambdaFunction',
    'TrialsLogGroup',
    'TrialsPermission',
    'TrialsRole',
    'TrialsRule',
  ]);
  const changed = namesOf(without).filter(
    (name) => JSON.stringify(without.Resources[name]) !== JSON.stringify(template.Resources[name]),
  );
  // The function joins those in the VPC.
  assert.deepEqual(
    changed,
    ['FunctionSecurityGroup', 'InterfacesPolicy', 'InterfacesDenyPolicy'].filter((name) =>
      changed.includes(name),
    ),
  );
  assert.deepEqual(template.Outputs, without.Outputs);
  const rule = propertiesOf(template, 'TrialsRule');
  assert.equal(rule['ScheduleExpression'], 'rate(1 minute)');
  assert.deepEqual(rule['Targets'], [
    { Id: 'trials', Arn: { 'Fn::GetAtt': ['TrialsLambdaFunction', 'Arn'] } },
  ]);
  assert.deepEqual(propertiesOf(template, 'TrialsPermission'), {
    Action: 'lambda:InvokeFunction',
    FunctionName: { Ref: 'TrialsLambdaFunction' },
    Principal: 'events.amazonaws.com',
    SourceArn: { 'Fn::GetAtt': ['TrialsRule', 'Arn'] },
  });
});

test('trials reads models and captures, and writes nothing but pointers, reports and which models may be on trial', async (t) => {
  const template = await withTrials(t);
  const places = rightsOf(template).map(({ Effect, Action, Resource }) => [
    Effect,
    [Action].flat().join(),
    JSON.stringify(Resource).replaceAll(/[{}"[\]]|(?<=")Fn::(?:Sub|GetAtt)":/g, ''),
  ]);
  const bucket = '$Bucket.Arn/';
  assert.deepEqual(places, [
    ['Allow', 'logs:CreateLogStream,logs:PutLogEvents', 'TrialsLogGroup,Arn'],
    ['Allow', 's3:GetObject', `${bucket}models/serving_stream/*`],
    ['Allow', 's3:GetObject', `${bucket}captures/serving_stream/*`],
    ['Allow', 's3:ListBucket', 'Bucket,Arn'],
    [
      'Allow',
      's3:PutObject',
      ['', 'named/*/']
        .flatMap((folder) => [`${folder}current.json`, `${folder}trial.json`])
        .concat('further-trials.json')
        .map((path) => `${bucket}models/serving_stream/${path}`)
        .join(),
    ],
    ...places.slice(5),
  ]);
  // Its place in the VPC is denied to its own code.
  assert.ok(
    places.slice(5).every(([effect, actions]) => effect === 'Deny' && String(actions).startsWith('ec2:')),
  );
  const writers = roleStatements(template).filter(
    ({ statement }) =>
      [statement.Action].flat().includes('s3:PutObject') &&
      JSON.stringify(statement.Resource).includes('models/'),
  );
  assert.deepEqual(
    writers.map(({ role }) => role),
    ['TrialsRole'],
  );
});

test('trials has the memory, the disk and the processor of predict, and at least a minute', async (t) => {
  const text = 'function: {memoryMB: 3538, timeoutSeconds: 20}\nrelease: {trials: true}\n';
  const of = async (parameters: Request['parameters'], config = text) => {
    const template = await withTrials(t, { parameters: { ...parameters } }, config);
    const [predict, trials] = ['Predict', 'Trials'].map((name) =>
      propertiesOf(template, `${name}LambdaFunction`),
    );
    assert.ok(predict && trials);
    for (const name of ['MemorySize', 'EphemeralStorage', 'Architectures', 'Runtime', 'VpcConfig'])
      assert.deepEqual(trials[name], predict[name], name);
    return trials;
  };
  assert.deepEqual(
    [(await of({ tmpMB: 2048, arch: 'arm64' }))['Timeout'], (await of({}))['MemorySize']],
    [60, 3538],
  );
  assert.equal((await of({}, 'function: {timeoutSeconds: 300}\nrelease: {trials: true}\n'))['Timeout'], 300);
});

for (const [name, request] of Object.entries(STACKS) as [string, Request][]) {
  if (request.config !== undefined) continue;
  test(`in the stack ${name}, trials reaches Redis and S3 as status does`, async (t) => {
    const template = await withTrials(t, request);
    const [status, trials] = ['Status', 'Trials'].map((logical) =>
      propertiesOf(template, `${logical}LambdaFunction`),
    );
    assert.ok(status && trials);
    for (const property of ['VpcConfig', 'KmsKeyArn', 'Runtime'])
      assert.deepEqual(trials[property], status[property], property);
    const dependencies = (of: string) =>
      [template.Resources[`${of}LambdaFunction`]?.DependsOn ?? []].flat().map((one) => one.replace(of, ''));
    // Its calls are not traced: most of them find nothing to do.
    assert.deepEqual(
      dependencies('Trials').toSorted(),
      dependencies('Status')
        .filter((one) => one !== 'TracingPolicy')
        .toSorted(),
    );
    const variablesOf = (properties: typeof trials) =>
      (properties['Environment'] as { Variables: object }).Variables;
    assert.deepEqual(variablesOf(trials), variablesOf(status));
    // Each policy of the VPC, the sign-in and the password of Redis that names one role names the other.
    const policies = resourcesOf(template, 'AWS::IAM::Policy');
    const rolesIn = (role: string) =>
      policies.flatMap(([policy, { Roles }]) =>
        JSON.stringify(Roles).includes(`"${role}"`) ? [policy] : [],
      );
    assert.deepEqual(
      rolesIn('TrialsRole'),
      // It reads counts of all environments, and no single item of a table.
      rolesIn('StatusRole').filter((policy) => !['TracingPolicy', 'ResultTableReadPolicy'].includes(policy)),
    );
    const denied = policies.filter(([, policy]) =>
      JSON.stringify(policy).includes('lambda:SourceFunctionArn'),
    );
    for (const [policy, properties] of denied)
      assert.match(JSON.stringify(properties), /:function:cluster-serving-\w+-trials"/, policy);
    assert.equal(denied.length, trials['VpcConfig'] === undefined ? 0 : 1);
    const group = template.Resources['FunctionSecurityGroup'];
    if (group) assert.ok([group.DependsOn ?? []].flat().includes('TrialsRole'));
    const [role, other] = ['TrialsRole', 'StatusRole'].map((one) => propertiesOf(template, one));
    for (const property of ['PermissionsBoundary', 'Path']) assert.equal(role?.[property], other?.[property]);
    const keys = (one: typeof role) => JSON.stringify(one?.['Policies']).includes('"UseKey"');
    assert.equal(keys(role), keys(other));
    const log = propertiesOf(template, 'TrialsLogGroup');
    const statusLog = propertiesOf(template, 'StatusLogGroup');
    assert.equal(log['LogGroupName'], String(statusLog['LogGroupName']).replace(/-status$/, '-trials'));
    assert.deepEqual(
      [log['KmsKeyId'], log['RetentionInDays']],
      [statusLog['KmsKeyId'], statusLog['RetentionInDays']],
    );
  });
}

test('what trials reads of its variables is the job, without what only this machine needs', async (t) => {
  const template = await withTrials(t, {}, 'jobName: day\nrelease: {trials: true, maxFlips: 1%}\n');
  const { Variables } = propertiesOf(template, 'TrialsLambdaFunction')['Environment'] as {
    Variables: Record<string, string>;
  };
  const { job } = readEnvironment({ CLUSTER_SERVING_CONFIG: Variables['CLUSTER_SERVING_CONFIG'] });
  assert.equal(job.jobName, 'day');
  assert.doesNotMatch(String(Variables['CLUSTER_SERVING_CONFIG']), /maxFlips|trials/);
});

test('an alarm says that a canary was rolled back, where the function counts it', async (t) => {
  const template = await withTrials(t, { parameters: { alarmTopic: 'own' } });
  const alarm = propertiesOf(template, 'CanaryRolledBackAlarm');
  assert.deepEqual(
    [alarm['Namespace'], alarm['MetricName'], alarm['Statistic'], alarm['Threshold']],
    ['ClusterServing', 'CanariesRolledBack', 'Sum', 1],
  );
  const { FunctionName } = propertiesOf(template, 'TrialsLambdaFunction');
  assert.deepEqual(alarm['Dimensions'], [
    { Name: 'Job', Value: 'serving_stream' },
    { Name: 'Function', Value: FunctionName },
  ]);
  assert.deepEqual(alarm['AlarmActions'], [{ Ref: 'AlarmTopic' }]);
});

test('monitoring=full watches trials, and shows it beside the other functions', async (t) => {
  const template = await withTrials(t, { parameters: { monitoring: 'full' } });
  const alarms = resourcesOf(template, 'AWS::CloudWatch::Alarm').map(([name]) => name);
  assert.deepEqual(alarms.filter((name) => name.startsWith('Trials')).toSorted(), [
    'TrialsDurationAlarm',
    'TrialsErrorsAlarm',
    'TrialsThrottlesAlarm',
  ]);
  const [[, dashboard] = []] = resourcesOf(template, 'AWS::CloudWatch::Dashboard');
  assert.match(JSON.stringify(dashboard), /TrialsLambdaFunction/);
});

test('the deployer may create what trials adds', async (t) => {
  const template = await withTrials(t);
  const policies = deployerPolicies({
    kind: 'deployer',
    template,
    service: 'cluster-serving',
    stage: 'dev',
    queueName: 'cluster-serving-dev-queue',
    redisStack: undefined,
    account: undefined,
    region: undefined,
    partition: 'aws',
    deploymentRole: null,
  });
  const text = JSON.stringify(policies);
  for (const action of [
    'events:PutRule',
    'events:PutTargets',
    'events:RemoveTargets',
    'lambda:AddPermission',
  ])
    assert.match(text, new RegExp(`"${action}"`));
  assert.ok(policies.length <= 2);
});

test('doctor counts the calls of each minute and the alarm, and looks at trials as at the other functions with a model', async (t) => {
  const [without, template] = [composeJob(), await withTrials(t)];
  const [before, after] = [idlePrice(without), idlePrice(template)];
  assert.deepEqual(after.unknown, []);
  assert.deepEqual(
    after.parts.find(({ what }) => what === 'scheduled calls'),
    { what: 'scheduled calls', dollars: 0.19 },
  );
  assert.equal(Math.round(((after.dollars ?? 0) - (before.dollars ?? 0)) * 100), 29);
  const names = functionsOf(template).map(({ properties }) =>
    String(properties['FunctionName']).split('-').at(-1),
  );
  assert.deepEqual(new Set(names.filter((name) => MODEL_FUNCTIONS.has(String(name)))), MODEL_FUNCTIONS);
});
