/** `cluster-serving doctor` as a person calls it: what it reads, what it answers, and its exit codes. */
import assert from 'node:assert/strict';
import { mkdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { examine } from '../../infra/doctor/examine.ts';
import { type FactsRequest, readFacts } from '../../infra/doctor/facts.ts';
import { reportText } from '../../infra/doctor/report.ts';
import type { Severity } from '../../infra/doctor/rule.ts';
import { temporaryFolder } from '../support/runner.ts';
import { cli, MODEL, ROOT } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

interface Answer {
  readonly ok: boolean;
  readonly stage: string;
  readonly config: string | null;
  readonly template: string | null;
  readonly archives: number;
  readonly findings: readonly {
    readonly rule: string;
    readonly severity: Severity;
    readonly where: string;
    readonly found: string;
    readonly expected: string;
    readonly why: string;
    readonly fix: string;
  }[];
  readonly counts: Readonly<Record<Severity, number>>;
  readonly checked: number;
  readonly unchecked: readonly string[];
}

/** A folder with a config.yaml whose model is there. */
async function folderWith(t: TestContext, config = ''): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'config.yaml'), `modelPath: ${JSON.stringify(MODEL)}\n${config}`);
  return folder;
}

const resource = (Type: string, Properties: object = {}) => ({ Type, Properties });

async function writeTemplate(folder: string, Resources: object): Promise<string> {
  const packaged = join(folder, '.serverless');
  await mkdir(packaged, { recursive: true });
  const path = join(packaged, 'cloudformation-template-update-stack.json');
  await writeFile(path, JSON.stringify({ Resources }));
  return path;
}

async function answerOf(
  args: readonly string[],
  cwd: string,
): Promise<{ code: number | null; answer: Answer }> {
  const { code, json } = await warmCliJson(['doctor', ...args], { cwd });
  return { code, answer: json as Answer };
}

test('without a package it looks at the settings alone, and says so', async (t) => {
  const cwd = await folderWith(t);
  const { code, stdout, stderr } = await cli(['doctor'], { cwd });
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^stage dev; config\.yaml; NO TEMPLATE: settings only/);
  assert.match(stdout, /0 errors, 0 warnings, \d notes; \d+ rules checked, \d+ need more than was there/);
  // No terminal, no colours.
  assert.ok(!stdout.includes('\u001b'));
  const { answer } = await answerOf([], cwd);
  assert.deepEqual([answer.ok, answer.template, answer.archives], [true, null, 0]);
  assert.ok(answer.unchecked.includes('queue-redrive-missing'));
});

test('an error is exit code 1, and says what was found, why it matters and what to change', async (t) => {
  const cwd = await folderWith(t);
  await writeFile(join(cwd, 'config.yaml'), 'modelPath: nowhere\n');
  const { code, answer } = await answerOf(['--stage', 'prod'], cwd);
  assert.deepEqual([code, answer.ok, answer.counts.error], [1, false, 1]);
  const [missing] = answer.findings.filter(({ rule }) => rule === 'model-missing');
  assert.match(missing?.found ?? '', /no directory .*nowhere/);
  assert.match(`${missing?.why} ${missing?.fix}`, /503.*modelPath/);
  const { code: text, stdout } = await warmCli(['doctor', '--stage', 'prod'], { cwd });
  assert.equal(text, 1);
  assert.match(stdout, /✖ error {3}modelPath {2}model-missing\n {6}found {5}no directory/);
});

test('a warning is exit code 0, and 1 with --strict', async (t) => {
  const cwd = await folderWith(t, 'queue: { maxReceiveCount: 2 }\n');
  for (const [args, expected] of [
    [[], 0],
    [['--strict'], 1],
  ] as const) {
    const { code, answer } = await answerOf(args, cwd);
    assert.deepEqual([code, answer.ok, answer.counts.warning], [expected, expected === 0, 1]);
  }
});

test('of a template of shared-redis.yml it says the idle price, and checks no rule of a job', async (t) => {
  const cwd = await folderWith(t);
  const Redis = resource('AWS::ElastiCache::ReplicationGroup', {
    CacheNodeType: 'cache.t4g.micro',
    NumCacheClusters: 1,
  });
  const Outputs = { User1: { Value: 'arn', Export: { Name: 'shared-redis-team:cluster-serving-1' } } };
  await writeFile(join(cwd, 'shared.json'), JSON.stringify({ Resources: { Redis }, Outputs }));
  const ran = await warmCli(['doctor', '--template', 'shared.json'], { cwd });
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(
    ran.stdout,
    /^shared Redis, stage team;.*0 rules checked[^]*idle: 9\.34 dollars a month: Redis 9\.34/s,
  );
  const account = await warmCli(['doctor', '--template', 'shared.json', '--account'], { cwd });
  assert.match(account.stderr, /--account asks about the stack of a job/);
  const policy = await warmCli(['deployer-policy', '--template', 'shared.json'], { cwd });
  assert.match(policy.stdout, /:stack\/shared-redis-team\/\*"/, policy.stderr);
  const both = await warmCli(['init', '--deploy', '--shared-redis'], { cwd });
  assert.deepEqual([both.code, /give one of --config, --deploy and/.test(both.stderr)], [2, true]);
});

test('the template of .serverless is found, and another one is taken when it is named', async (t) => {
  const cwd = await folderWith(t);
  const path = await writeTemplate(cwd, {
    Open: resource('AWS::ApiGatewayV2::Route', { RouteKey: 'GET /' }),
  });
  const { answer } = await answerOf([], cwd);
  assert.equal(answer.template, path);
  assert.deepEqual(
    answer.findings.filter(({ severity }) => severity === 'warning').map(({ rule, where }) => [rule, where]),
    [['api-auth', 'HTTP API']],
  );
  const other = { Resources: { Queue: resource('AWS::SQS::Queue') } };
  await writeFile(join(cwd, 'other.json'), JSON.stringify(other));
  const named = await answerOf(['--template', 'other.json'], cwd);
  assert.equal(named.answer.template, join(cwd, 'other.json'));
  assert.deepEqual(
    named.answer.findings
      .filter(({ severity }) => severity === 'error')
      .map(({ rule, where }) => [rule, where]),
    [['queue-redrive-missing', 'Queue']],
  );
});

test('the parameters of a stage are those of serverless.yml, and the command line is over them', async (t) => {
  const cwd = await folderWith(t);
  const { answer } = await answerOf(['--stage', 'prod'], cwd);
  assert.ok(!answer.findings.some(({ rule }) => rule === 'redis-single-node'));
  const args = ['--stage', 'prod', '--param', 'redisNodes=1', '--param', 'auth=none'];
  const { code, answer: other } = await answerOf(args, cwd);
  assert.equal(code, 1);
  for (const id of ['redis-single-node', 'api-auth'])
    assert.ok(
      other.findings.some(({ rule }) => rule === id),
      id,
    );
});

test('a serverless.yml with some parameters has the defaults of the package for the others', async (t) => {
  const cwd = await folderWith(t);
  const write = async (of: string) => writeFile(join(cwd, 'serverless.yml'), `params: { prod: { ${of} } }\n`);
  await write('auth: none');
  const { answer } = await answerOf(['--stage', 'prod'], cwd);
  assert.ok(answer.findings.some(({ rule }) => rule === 'api-auth'));
  assert.ok(!answer.findings.some(({ rule }) => rule === 'redis-single-node'));
  await write('redisNode: 3');
  const { code, stderr } = await cli(['doctor', '--stage', 'prod'], { cwd });
  assert.equal(code, 2);
  assert.match(stderr, /param redisNode: unknown; did you mean redisNodes\?/);
});

test('a config elsewhere is read, its model looked for beside it, and --param config is the same', async (t) => {
  const cwd = await temporaryFolder(t);
  const config = join(ROOT, 'examples', 'digits', 'config.yaml');
  for (const args of [
    ['-c', config],
    ['--param', `config=${config}`],
  ]) {
    const { code, answer } = await answerOf(args, cwd);
    assert.deepEqual([code, answer.config], [0, config]);
    assert.ok(!answer.findings.some(({ rule }) => rule === 'model-missing'));
  }
});

const WRONG: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['an unknown parameter', ['--param', 'redisNode=2'], /param redisNode: unknown; did you mean redisNodes\?/],
  ['a parameter that is wrong', ['--param', 'redisNodes=9'], /param redisNodes "9": expected a whole number/],
  ['a parameter without a value', ['--param', 'auth'], /--param: expected <name>=<value>, got "auth"/],
  ['a stage that cannot be one', ['--stage', 'a b'], /stage "a b": expected/],
  ['a config that is missing', ['-c', 'nowhere.yaml'], /nowhere\.yaml cannot be read/],
  ['two configs', ['-c', 'a.yaml', '--param', 'config=b.yaml'], /are the same option; give one of them/],
  ['a template that is missing', ['--template', 'nowhere.json'], /template .*nowhere\.json cannot be read/],
  ['a template that is not JSON', ['--template', 'config.yaml'], /config\.yaml is not JSON/],
  ['JSON that is not a template', ['--template', 'list.json'], /expected CloudFormation's Resources/],
  ['a package that is none', ['--package', '.'], /--package \.: there is no cloudformation-template/],
  ['two packages', ['--package-now', '--template', 'x'], /--package-now makes the package/],
  ['packaging where no project is', ['--package-now'], /there is no serverless\.yml in this folder/],
];
for (const [name, args, expected] of WRONG) {
  test(`${name} is exit code 2 and says what to do`, async (t) => {
    const cwd = await folderWith(t);
    await writeFile(join(cwd, 'list.json'), '[]');
    const { code, stdout, stderr } = await warmCli(['doctor', ...args], { cwd });
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, expected);
  });
}

test('a zip beside the template that is none is refused by name', async (t) => {
  const cwd = await folderWith(t);
  await writeTemplate(cwd, { Vpc: resource('AWS::EC2::VPC') });
  await writeFile(join(cwd, '.serverless', 'batch.zip'), 'no archive');
  const { code, stderr } = await cli(['doctor'], { cwd });
  assert.equal(code, 2);
  assert.match(stderr, /batch\.zip is not a zip archive/);
});

function requestFor(root: string): FactsRequest {
  const none = undefined;
  return {
    root,
    project: ROOT,
    config: none,
    stage: none,
    parameters: {},
    template: none,
    packageFolder: none,
  };
}

test('the folder of a worker may hold anything, and must fit into /tmp', async (t) => {
  const cwd = await temporaryFolder(t);
  await writeFile(join(cwd, 'config.yaml'), 'worker: { class: server.Worker }\n');
  await writeFile(join(cwd, 'server.py'), 'class Worker: pass');
  const rules = async () => {
    const { answer } = await answerOf([], cwd);
    return answer.findings.filter(({ severity }) => severity !== 'info').map(({ rule }) => rule);
  };
  assert.deepEqual(await rules(), []);
  await mkdir(join(cwd, 'model'));
  for (const name of ['a.onnx', 'b.onnx', 'import-report.json', 'weights.pt'])
    await writeFile(join(cwd, 'model', name), '{}');
  assert.deepEqual(await rules(), []);
  await truncate(join(cwd, 'model', 'weights.pt'), 400 * 1024 * 1024);
  assert.deepEqual(await rules(), ['ephemeral-storage']);
});

test('an import report gives memory, file and the size of a record; a broken one is reported', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'model'));
  await writeFile(join(root, 'model', 'model.onnx'), Buffer.alloc(100, 1));
  const importReport = {
    measured: { lambda: { memoryMB: 3008 }, latencyP50Ms: 1.5 },
    model: { files: [{ path: 'model.onnx', bytes: 100 }] },
    inputs: [
      { dtype: 'float32', shape: ['N', 3, 4] },
      { dtype: 'int64', shape: [1, 6] },
    ],
    images: [],
  };
  const read = async (document: string) => {
    await writeFile(join(root, 'model', 'import-report.json'), document);
    const { facts } = await readFacts(requestFor(root));
    assert.ok(facts.model.state === 'found');
    return { model: facts.model, findings: examine(facts).findings };
  };
  const { model, findings } = await read(JSON.stringify(importReport));
  assert.deepEqual(model.importReport, {
    memoryMB: 3008,
    latencyMs: 1.5,
    modelFile: 'model.onnx',
    modelFileBytes: 100,
    recordBytes: ((3 * 4 * 4 + 6 * 8) * 4) / 3,
  });
  assert.equal(model.bytes, 100);
  assert.ok(findings.some(({ rule, expected }) => rule === 'memory-model' && expected.includes('3008 MB')));
  const pictures = { ...importReport, images: [{ input: 'data' }] };
  assert.equal((await read(JSON.stringify(pictures))).model.importReport?.recordBytes, undefined);
  for (const broken of ['{', '[]', '{"measured": {}}']) {
    const other = await read(broken);
    assert.equal(other.model.importReport, undefined);
    assert.ok(
      other.findings.some(({ rule, severity }) => rule === 'model-import-report' && severity === 'warning'),
    );
  }
});

test('the memory of an import report is that of the rows which batchSize runs, and unknown memory does not break an import report', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'model'));
  await writeFile(join(root, 'model', 'model.onnx'), Buffer.alloc(100, 1));
  const needs = async (measured: object, config: string) => {
    const model = { files: [{ path: 'model.onnx', bytes: 100 }] };
    const inputs = [{ dtype: 'float32', shape: null }];
    await writeFile(join(root, 'model', 'import-report.json'), JSON.stringify({ measured, model, inputs }));
    await writeFile(join(root, 'config.yaml'), config);
    const { facts } = await readFacts(requestFor(root));
    assert.ok(facts.model.state === 'found' && facts.model.importReport, JSON.stringify(facts.model));
    assert.equal(facts.model.importReport.recordBytes, undefined);
    return examine(facts).findings.find(({ rule }) => rule === 'memory-model')?.expected;
  };
  const MB = 1024 * 1024;
  const memoryByRows = [
    { rows: 1, peakBytes: 40 * MB },
    { rows: 32, peakBytes: 3_000 * MB },
  ];
  const measured = { lambda: { memoryMB: 3_904, rows: 32, batchSize: null }, memoryByRows };
  assert.match((await needs(measured, '')) ?? '', /^at least 3878 MB/);
  assert.equal(await needs(measured, 'batchSize: 8\n'), undefined);
  assert.equal(await needs({ lambda: { memoryMB: null, rows: null } }, ''), undefined);
});

test('two models in one directory, or a file in its place, are not a model', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'model'));
  for (const name of ['a.onnx', 'b.onnx']) await writeFile(join(root, 'model', name), Buffer.alloc(8, 1));
  const { facts } = await readFacts(requestFor(root));
  assert.ok(facts.model.state === 'unusable');
  assert.match(facts.model.problem, /expected one model, found 2/);
  await writeFile(join(root, 'config.yaml'), 'modelPath: config.yaml\n');
  const other = await readFacts(requestFor(root));
  assert.equal(other.facts.model.state, 'unusable');
});

test('on a terminal the report has colours, and its lines fit', async (t) => {
  const root = await folderWith(t);
  await writeTemplate(root, {
    Queue: resource('AWS::SQS::Queue'),
    Open: resource('AWS::ApiGatewayV2::Route', { RouteKey: 'GET /' }),
  });
  const { facts } = await readFacts(requestFor(root));
  const examination = examine(facts);
  const plain = reportText(examination, { colours: false, columns: 80, title: 'title' });
  const coloured = reportText(examination, { colours: true, columns: 80, title: 'title' });
  assert.ok(coloured.includes('\u001b[31m✖ error'));
  assert.equal(coloured.replaceAll(new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, 'g'), ''), plain);
  for (const line of plain.split('\n').slice(0, -1)) assert.ok(line.length < 80, line);
  const topics = plain.split('\n').filter((line) => /^[A-Z]/.test(line));
  assert.deepEqual(topics, ['Settings', 'Queue', 'Functions', 'Redis', 'HTTP', 'Logs and alarms']);
  for (const { rule, severity } of examination.findings)
    assert.ok(plain.includes(`${severity.padEnd(7)} `) && plain.includes(rule));
});
