/** serverless.yml names every route again, because API Gateway needs them one by one; both must say the same. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { parse } from 'yaml';
import { FUNCTIONS } from '../../infra/build/functions.ts';
import { ROUTES } from '../../lib/http/routes.ts';

interface Deployment {
  readonly functions: Readonly<
    Record<
      string,
      {
        readonly handler: string;
        readonly events: readonly { readonly httpApi?: { readonly method: string; readonly path: string } }[];
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

test('serverless.yml has the routes of lib/http/routes.ts, each at its function, and no others', async () => {
  const { functions } = await deployment();
  const deployed = Object.entries(functions).flatMap(([name, { events }]) =>
    events.flatMap(({ httpApi }) => (httpApi ? [`${httpApi.method} ${httpApi.path} -> ${name}`] : [])),
  );
  const ours = ROUTES.map(({ method, path, function: name }) => `${method} ${path} -> ${name}`);
  assert.deepEqual(deployed.toSorted(), ours.toSorted());
  assert.equal(new Set(ours).size, ours.length);
});

test('every function of serverless.yml runs a bundle that is built, submit that of predictions', async () => {
  const { functions } = await deployment();
  for (const [name, { handler }] of Object.entries(functions)) {
    const bundle = name === 'submit' ? 'predictions' : name;
    assert.equal(handler, `dist/${bundle}/index.handler`);
    assert.ok((FUNCTIONS as readonly string[]).includes(bundle), bundle);
  }
});
