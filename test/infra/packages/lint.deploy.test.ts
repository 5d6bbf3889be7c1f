/** publint and are-the-types-wrong look at the packed packages: every way to import one finds code and types. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type Archives, packPackages } from '../../support/installed.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { npmTool, type Tool } from '../../support/tools.ts';

const execute = promisify(execFile);
const PUBLINT = 'publint@0.3.25';
const TYPES = '@arethetypeswrong/cli@0.18.5';

/** Options of attw. The SDK is for every resolution; the others are ES modules alone, as their README says. */
const PACKAGES: Readonly<Record<keyof Omit<Archives, 'staged'>, readonly string[]>> = {
  sdk: [],
  onnxImport: ['--profile', 'esm-only'],
  // osls loads its plugin by name, and no program imports it.
  cli: ['--profile', 'esm-only', '--exclude-entrypoints', './infra/plugin.mjs'],
};

test('every packed package is without a finding of publint and of are-the-types-wrong', async (t) => {
  const tools = [await npmTool(PUBLINT), await npmTool(TYPES)] as const;
  const missing = tools.flatMap((tool) => ('missing' in tool ? [tool.missing] : []));
  if (missing.length > 0) return t.skip(missing.join('; '));
  const archives = await packPackages(await temporaryFolder(t));
  const [publint, attw] = [binOf(tools[0], 'publint'), binOf(tools[1], 'attw')];
  for (const [name, options] of Object.entries(PACKAGES)) {
    const archive = archives[name as keyof typeof PACKAGES];
    const said = await execute(publint, ['run', archive, '--strict'], { env: withoutColour() });
    assert.match(said.stdout, /All good!/, name);
    // It exits with 1 for a finding.
    await execute(attw, [archive, '--format', 'ascii', ...options], { env: withoutColour() }).catch(
      ({ stdout, stderr }: { readonly stdout?: string; readonly stderr?: string }) =>
        assert.fail(`${name}: ${stdout}${stderr}`),
    );
  }
});

function binOf(tool: Tool, name: string): string {
  return 'folder' in tool ? join(tool.folder, 'node_modules', '.bin', name) : '';
}

function withoutColour(): NodeJS.ProcessEnv {
  return { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
}
