/** The deployment of serverless.yml: the routes of lib/http/routes.ts, and the bundles that are built. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { FUNCTIONS } from '../../infra/build/functions.ts';
import { readSettings } from '../../infra/template/config.ts';
import type { Parameters } from '../../infra/template/parameters.ts';
import { ROUTES, type RoutedFunction } from '../../lib/http/routes.ts';
import { temporaryFolder } from '../support/runner.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Deployment {
  readonly params: { readonly default: Parameters };
  readonly functions: Readonly<
    Record<
      string,
      {
        readonly handler: string;
        /** A text is a variable of osls. */
        readonly events: string | readonly unknown[];
      }
    >
  >;
}

async function deployment(): Promise<Deployment> {
  const text = await readFile(new URL('../../serverless.yml', import.meta.url), 'utf8');
  const parsed: Deployment = parse(text, {
    customTags: ['GetAtt', 'Ref', 'Sub'].map((name) => ({
      tag: `!${name}`,
      resolve: (value: string) => value,
    })),
  });
  return parsed;
}

test('each function of serverless.yml takes its events from the routes of lib/http/routes.ts, each once', async (t) => {
  const { functions, params } = await deployment();
  const config = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(config, 'jobs: {maximumConcurrency: 2}');
  const request = { stage: 'dev', config, parameters: params.default };
  const { httpEvents } = readSettings(ROOT, request);
  const deployed = Object.entries(functions).flatMap(([name, { events }]) => {
    const routed = /^\$\{self:custom\.settings\.httpEvents\.(\w+)\}$/.exec(String(events))?.[1];
    if (routed === undefined) return [];
    return httpEvents[routed as RoutedFunction].map(
      ({ httpApi }) => `${httpApi.method} ${httpApi.path} -> ${name}`,
    );
  });
  const ours = ROUTES.map(({ method, path, function: name }) => `${method} ${path} -> ${name}`);
  assert.deepEqual(deployed.toSorted(), ours.toSorted());
  assert.equal(new Set(ours).size, ours.length);
});

test('without jobs over files a deployment has no routes of batches', async () => {
  const { params } = await deployment();
  const request = { stage: 'dev', config: undefined, parameters: params.default };
  const paths = readSettings(ROOT, request).httpEvents.submit.map(({ httpApi }) => httpApi.path);
  assert.deepEqual(paths, ['/predictions', '/uploads']);
});

test('every function of serverless.yml runs a bundle that is built, submit that of predictions', async () => {
  const { functions, params } = await deployment();
  const { code } = readSettings(ROOT, { stage: 'dev', config: undefined, parameters: params.default });
  for (const [name, { handler: given }] of Object.entries(functions)) {
    // A worker changes a variable of osls.
    const variable = /^\$\{self:custom\.settings\.code\.(\w+)\.handler, null\}$/.exec(given)?.[1];
    const handler = variable === undefined ? given : code[variable as keyof typeof code].handler;
    const bundle = name === 'submit' ? 'predictions' : name;
    assert.equal(handler, `dist/${bundle}/index.handler`);
    assert.ok((FUNCTIONS as readonly string[]).includes(bundle), bundle);
  }
});
