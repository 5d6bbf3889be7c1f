/**
 * The rules of `cluster-serving doctor` on what `serverless package` really writes: an unchanged package has no error and
 * no warning, and each rule reports the change that it exists for.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readArchiveFacts } from '../../../infra/doctor/archive.ts';
import { examine } from '../../../infra/doctor/examine.ts';
import { type FactsReading, readFacts } from '../../../infra/doctor/facts.ts';
import type { Facts, Finding } from '../../../infra/doctor/rule.ts';
import { RULES } from '../../../infra/doctor/rules.ts';
import { cliJson, MODEL, ROOT } from '../../cli/cli.ts';
import { type Packaged, packageProject } from '../../support/packaging.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { readArchive } from '../archive.ts';
import { Draft } from './draft.ts';
import { FUNCTIONS_CASES, FUNCTIONS_QUIET } from './functions.ts';
import { PARAMETER_CASES, PARAMETER_QUIET } from './parameters.ts';
import { QUEUE_CASES, QUEUE_QUIET } from './queue.ts';

const STAGES = ['dev', 'prod'] as const;
const CASES = [...QUEUE_CASES, ...FUNCTIONS_CASES, ...PARAMETER_CASES];
const QUIET = [...QUEUE_QUIET, ...FUNCTIONS_QUIET, ...PARAMETER_QUIET];
/** A wrong value at each of 2,000 places takes 12 s; every seventh is enough for each run. */
const PLACES_BETWEEN = 7;
const CONFIG = `modelPath: ${JSON.stringify(MODEL)}\n`;

describe('the doctor looks at a package', () => {
  const packages = new Map<string, Packaged>();
  const readings = new Map<string, FactsReading>();

  before(async () => {
    for (const stage of STAGES) {
      const packaged = await packageProject({ config: CONFIG, options: ['--stage', stage] });
      packages.set(stage, packaged);
      assert.equal(packaged.exitCode, 0, packaged.output);
      readings.set(stage, await readFacts(requestFor(packaged.folder)));
    }
  });
  after(async () => {
    for (const packaged of packages.values()) await packaged.remove();
  });

  const factsOf = (stage: string): Facts => (readings.get(stage) as FactsReading).facts;

  for (const stage of STAGES) {
    test(`as it is packaged for ${stage}, it has no error and no warning, and every rule has looked`, () => {
      const { findings, counts, checked, unchecked } = examine(factsOf(stage));
      assert.deepEqual(
        findings.filter(({ severity }) => severity !== 'info'),
        [],
      );
      assert.deepEqual([counts.error, counts.warning], [0, 0]);
      assert.deepEqual([checked, unchecked], [RULES.length, []]);
    });
  }

  test('stage, archives, model and the parameters of the stage are read off the files', () => {
    const { stage, stageGiven, archives, model, parameters } = factsOf('prod');
    assert.deepEqual([stage, stageGiven], ['prod', undefined]);
    assert.deepEqual(
      [...(archives?.keys() ?? [])],
      ['batch', 'dead-letter', 'predict', 'predictions', 'status', 'submit'],
    );
    assert.deepEqual([model.directory, model.state], [MODEL, 'found']);
    assert.equal(String(parameters['redisNodes']), '2');
  });

  for (const { rule, name, severity, found, stage = 'dev', change } of CASES) {
    test(`${rule} says ${severity}: ${name}`, () => {
      const said = (facts: Facts) =>
        findingsOf(rule, facts).filter((one) => one.severity === severity && found.test(one.found));
      assert.deepEqual(said(factsOf(stage)), []);
      const draft = new Draft(factsOf(stage));
      change(draft);
      const findings = findingsOf(rule, draft.facts);
      assert.ok(said(draft.facts).length > 0, JSON.stringify(findings));
      for (const { where, expected } of findings) assert.ok(where !== '' && expected !== '');
    });
  }

  for (const { rule, name, stage = 'dev', change } of QUIET) {
    test(`${rule} does not mind: ${name}`, () => {
      const draft = new Draft(factsOf(stage));
      change(draft);
      assert.deepEqual(
        findingsOf(rule, draft.facts).filter(({ severity }) => severity !== 'info'),
        [],
      );
    });
  }

  test('a prod stack with IAM for Redis and a topic of its own has notes about the queue only', () => {
    const draft = new Draft(factsOf('prod'));
    draft.parameters({ redisAuth: 'iam', alarmTopic: 'arn:aws:sns:eu-west-1:123456789012:t' });
    assert.deepEqual(
      examine(draft.facts).findings.map(({ rule }) => rule),
      ['result-ttl', 'queue-batch-payload'],
    );
  });

  test('no rule changes the facts it looks at', () => {
    const draft = new Draft(factsOf('prod'));
    examine(draft.facts);
    assert.deepEqual(draft.facts, factsOf('prod'));
  });

  test('a template whose numbers are references makes no rule fail', () => {
    const draft = new Draft(factsOf('prod'));
    draft.facts.template = withoutNumbers(draft.template) as Facts['template'];
    for (const { severity, found } of examine(draft.facts).findings)
      if (severity !== 'info') assert.doesNotMatch(found, /NaN|undefined|\[object/);
  });

  test('no rule fails on a template with a wrong kind of value anywhere', () => {
    const facts = factsOf('prod');
    const places = placesIn(facts.template?.Resources).filter((path) => path.length > 1);
    assert.ok(places.length > 1_000);
    const values = [null, 'text', 7, [null], {}];
    for (const [i, path] of places.entries()) {
      if (i % PLACES_BETWEEN > 0 || path.at(-1) === 'Type') continue;
      const draft = new Draft(facts);
      let at = draft.template.Resources as Record<string, unknown>;
      for (const key of path.slice(0, -1)) at = at[key] as Record<string, unknown>;
      const value = values[(i / PLACES_BETWEEN) % values.length];
      at[path.at(-1) as string] = value;
      assert.doesNotThrow(() => examine(draft.facts), `${path.join('.')}: ${JSON.stringify(value)}`);
    }
  });

  test('a secret is named and never shown', () => {
    const draft = new Draft(factsOf('dev'));
    draft.variable('StatusLambdaFunction', 'API_KEY', 'hunter2');
    const { findings } = examine(draft.facts);
    assert.ok(findings.some(({ rule }) => rule === 'secrets-in-environment'));
    assert.doesNotMatch(JSON.stringify(findings), /hunter2/);
  });

  test('twenty findings of a rule are listed, all are counted', () => {
    const draft = new Draft(factsOf('dev'));
    for (let i = 0; i < 30; i++) draft.variable('StatusLambdaFunction', `TOKEN_${i}`, 'x');
    const { findings, counts, unlisted } = examine(draft.facts);
    assert.equal(findings.filter(({ rule }) => rule === 'secrets-in-environment').length, 20);
    assert.deepEqual([counts.error, unlisted], [30, 10]);
  });

  test('without a template the rules of the settings look, and the others are named', () => {
    const draft = new Draft(factsOf('dev'));
    draft.withoutTemplate();
    const { checked, unchecked } = examine(draft.facts);
    assert.equal(checked + unchecked.length, RULES.length);
    assert.ok(
      checked >= 15 && unchecked.includes('queue-redrive-missing') && !unchecked.includes('api-auth'),
    );
  });

  test('an archive is measured without unpacking it, and its binaries are for x86_64', async () => {
    const path = (packages.get('dev') as Packaged).archive('predict');
    const entries = await readArchive(path);
    const facts = await readArchiveFacts(path);
    assert.deepEqual(
      [...facts.names],
      entries.map(({ name }) => name),
    );
    assert.equal(
      facts.unzippedBytes,
      entries.reduce((sum, { bytes }) => sum + bytes, 0),
    );
    assert.deepEqual(
      new Map(facts.binaries.map(({ name, processor }) => [name.replace(/.*\//, ''), processor])),
      new Map([
        ['libonnxruntime.so.1', 'x86_64'],
        ['onnxruntime_binding.node', 'x86_64'],
      ]),
    );
  });

  test('--package-now packages the project with the same options, and looks at that', async () => {
    const cwd = (packages.get('dev') as Packaged).folder;
    const { code, json, stderr } = await cliJson(
      ['doctor', '--package-now', '--strict', '--param', 'logDays=3'],
      {
        cwd,
      },
    );
    assert.equal(code, 0, stderr);
    const { stage, archives, template, unchecked } = json as Record<string, unknown>;
    assert.deepEqual([stage, archives, unchecked], ['dev', 6, []]);
    assert.match(await readFile(String(template), 'utf8'), /"RetentionInDays": 3\b/);
  });

  test('a file that is no archive is refused by name', async (t) => {
    const folder = await temporaryFolder(t);
    for (const [name, content] of [
      ['empty.zip', ''],
      ['text.zip', 'PK, but no archive'],
      ['torn.zip', (await readFile((packages.get('dev') as Packaged).archive('status'))).subarray(0, 5_000)],
    ] as const) {
      await writeFile(join(folder, name), content);
      await assert.rejects(readArchiveFacts(join(folder, name)), {
        code: 'bad_config',
        message: new RegExp(name),
      });
    }
  });
});

test('every rule has a test that trips it, an id of its own, and all its words', () => {
  const ids = RULES.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.length >= 25);
  assert.deepEqual(
    ids.filter((id) => !CASES.some(({ rule }) => rule === id)),
    [],
  );
  for (const { id, looksAt, why, fix } of RULES) {
    assert.match(id, /^[a-z0-9]+(-[a-z0-9]+)+$|^tracing$/);
    for (const text of [looksAt, why, fix]) assert.ok(text.length > 10, `${id}: ${text}`);
    assert.match(why, /[.]$/, id);
  }
});

test('docs/how-to/doctor.md has one row for each rule, in the words of the rule', async () => {
  const docs = await readFile(join(ROOT, 'docs/how-to/doctor.md'), 'utf8');
  const rows = docs.split('\n').filter((line) => line.startsWith('| `'));
  const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('*', '\\*').replaceAll('<', '\\<');
  assert.deepEqual(
    rows,
    RULES.map(({ id, looksAt, why, fix }) => `| \`${id}\` | ${[looksAt, why, fix].map(cell).join(' | ')} |`),
  );
});

function requestFor(folder: string) {
  return {
    root: folder,
    project: folder,
    config: undefined,
    stage: undefined,
    parameters: {},
    template: undefined,
    packageFolder: undefined,
  };
}

function findingsOf(id: string, facts: Facts): readonly Finding[] {
  const rule = RULES.find((one) => one.id === id);
  assert.ok(rule, `no rule ${id}`);
  return rule.check(facts);
}

/** Every path into a tree. */
function placesIn(tree: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof tree !== 'object' || tree === null) return [path];
  return [path, ...Object.entries(tree).flatMap(([key, value]) => placesIn(value, [...path, key]))];
}

/** Every number and truth value becomes what only AWS can resolve. */
function withoutNumbers(part: unknown): unknown {
  if (typeof part === 'number' || typeof part === 'boolean') return { Ref: 'Given' };
  if (Array.isArray(part)) return part.map(withoutNumbers);
  if (typeof part !== 'object' || part === null) return part;
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, withoutNumbers(value)]));
}
