/**
 * cfn-lint, against AWS's published schemas, on the packaged templates of a matrix of parameters and regions: no error, and
 * no warning but those explained here.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { KINDS } from '../../../infra/account/update.ts';
import { packageProject } from '../../support/packaging.ts';
import { motoTools } from './tools.ts';
import { LINTED, type LintedVariant, params } from './variants.ts';

const run = promisify(execFile);
const TEMPLATE = 'cloudformation-template-update-stack.json';

interface Finding {
  readonly Rule: { readonly Id: string };
  readonly Level: string;
  readonly Message: string;
  readonly Location: { readonly Path: readonly (string | number)[] | null };
}

/** By rule. An entry that no template needs any more fails, so that the list stays true. */
const ACCEPTED: Readonly<Record<string, string>> = {
  W3005:
    'osls writes DependsOn between resources that a reference orders already. It is not a fault to say it twice.',
};

const tools = await motoTools();

const SKIP = 'missing' in tools && tools.missing;
const seen = new Set<string>();

// cfn-lint takes most of the time, in a process of its own.
describe('cfn-lint', { skip: SKIP, concurrency: 2 }, () => {
  for (const variant of LINTED) {
    test(`finds no error and nothing unexplained in the template of ${variant.name}`, async () => {
      const lint = 'folder' in tools ? join(tools.folder, 'cfn-lint') : '';
      const findings = await lintVariant(lint, variant);
      for (const { Rule } of findings) seen.add(Rule.Id);
      const unexplained = findings
        .filter(({ Rule }) => ACCEPTED[Rule.Id] === undefined)
        .map(({ Rule, Message, Location }) => `${Rule.Id} ${Location.Path?.join('/')}: ${Message}`);
      assert.deepEqual(unexplained, []);
    });
  }
});

/** cfn-lint carries AWS's schemas. A part of a property, as DnsOptions/…, is the only kind that is not ours. */
const SCHEMAS = `
import json, sys
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER
for type in sys.argv[1:]:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", type).schema
    print(json.dumps([type, schema.get("createOnlyProperties", [])]))
`;

test("what doctor says of an update has the same fixed properties as AWS's schemas", {
  skip: SKIP,
}, async () => {
  if ('missing' in tools) return;
  const python = join(tools.folder, 'python');
  const { stdout } = await run(python, ['-c', SCHEMAS, ...Object.keys(KINDS)], { maxBuffer: 1024 * 1024 });
  const lines: [string, string[]][] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  for (const [type, properties] of lines) {
    const { name, fixed = '' } = KINDS[type] ?? {};
    const ours = [...(name === undefined ? [] : [name]), ...fixed.split(' ').filter((one) => one !== '')];
    const theirs = properties
      .map((one) => one.replace('/properties/', ''))
      .filter((one) => !one.includes('/'));
    assert.deepEqual(new Set(ours), new Set(theirs), type);
  }
  assert.equal(lines.length, Object.keys(KINDS).length);
});

test('cfn-lint still says everything that the list explains', { skip: SKIP }, () => {
  assert.deepEqual(
    Object.keys(ACCEPTED).filter((rule) => !seen.has(rule)),
    [],
  );
});

async function lintVariant(
  lint: string,
  { region = 'eu-west-1', stage = 'dev', service, parameters = {}, config, files }: LintedVariant,
): Promise<readonly Finding[]> {
  const packaged = await packageProject({
    options: [
      ...(service === undefined ? [] : ['--config', service]),
      '--region',
      region,
      '--stage',
      stage,
      ...params(parameters),
    ],
    ...(config === undefined ? {} : { config }),
    ...(files === undefined ? {} : { files }),
  });
  try {
    assert.equal(packaged.exitCode, 0, packaged.output);
    const template = join(packaged.folder, '.serverless', TEMPLATE);
    // It exits with a code above 0 when it has something to say.
    const options = ['--format', 'json', '--regions', region, '--', template];
    const { stdout } = await run(lint, options, { maxBuffer: 64 * 1024 * 1024 }).catch(
      (error: Error & { stdout?: string }) => {
        if (!error.stdout) throw error;
        return { stdout: error.stdout };
      },
    );
    return JSON.parse(stdout) as Finding[];
  } finally {
    await packaged.remove();
  }
}
