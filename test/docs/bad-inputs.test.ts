/** docs/explanation/bad-input.md counts the cases that run. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { ARROW, ARROW_UNFIT } from '../functions/hostile/tables/arrow.ts';
import { COSTLY } from '../functions/hostile/tables/costly.ts';
import { ENVELOPES as ENCODINGS, SOCKET } from '../functions/hostile/tables/envelopes.ts';
import { BASE64, IMAGES } from '../functions/hostile/tables/images.ts';
import { ENVELOPES, POINTERS, UNADDRESSED } from '../functions/hostile/tables/messages.ts';
import { MODELS } from '../functions/hostile/tables/models.ts';
import { SAFETENSORS, SAFETENSORS_UNFIT } from '../functions/hostile/tables/safetensors.ts';
import { SPARSE } from '../functions/hostile/tables/sparse.ts';
import { BARE, STRUCTURE, SYNTAX } from '../functions/hostile/tables/syntax.ts';
import { ENDPOINT_CASES, URIS } from '../functions/hostile/tables/uris.ts';
import { POSITIONS, VALUES } from '../functions/hostile/tables/values.ts';

type Named = readonly [name: string, ...unknown[]];

const GROUPS: Readonly<Record<string, readonly Named[]>> = {
  'no JSON': SYNTAX,
  values: BARE,
  'no instances': STRUCTURE,
  'numbers, texts, shapes, names': [...VALUES, ...POSITIONS],
  'sparse tensors': SPARSE,
  base64: BASE64,
  images: IMAGES,
  Arrow: [...ARROW, ...ARROW_UNFIT],
  safetensors: [...SAFETENSORS, ...SAFETENSORS_UNFIT],
  'queue messages and pointers': [...ENVELOPES, ...POINTERS, ...UNADDRESSED],
  'encodings and sizes': [...ENCODINGS],
  'requests on a socket': SOCKET,
  uris: [...URIS, ...ENDPOINT_CASES],
  'model files': MODELS,
  'costly bodies': COSTLY.map(({ name }) => [name]),
};

const docs = (name: string) => readFile(new URL(`../../docs/${name}`, import.meta.url), 'utf8');

test('there are at least 400 cases, each of another name within its group', () => {
  let sum = 0;
  for (const [group, cases] of Object.entries(GROUPS)) {
    sum += cases.length;
    assert.equal(new Set(cases.map(([name]) => name)).size, cases.length, group);
  }
  assert.ok(sum >= 400, `${sum} cases`);
});

test('docs/explanation/bad-input.md counts the cases that run', async () => {
  const text = await docs('explanation/bad-input.md');
  for (const [group, { length }] of Object.entries(GROUPS)) {
    assert.ok(text.includes(`| ${group} | ${length} |`), `| ${group} | ${length} |`);
  }
  const sum = Object.values(GROUPS).reduce((total, { length }) => total + length, 0);
  assert.ok(text.includes(`| together | ${sum} |`), `| together | ${sum} |`);
});
