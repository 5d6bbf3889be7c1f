/**
 * A model's weights may lie in other files, and the model says where. Only files below its own folder are read.
 * onnxruntime 1.30 checks that by itself when it opens a path; these tests are why we may leave it to it, and fail when
 * a newer one checks less. A secret lies beside the folder: no answer of any model may hold its bytes.
 */
import assert from 'node:assert/strict';
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSession } from '../../../lib/inference/session.ts';
import { temporaryFolder } from '../../support/runner.ts';
import {
  externalWeight,
  field,
  graph,
  graphAttribute,
  localFunction,
  message,
  model,
  node,
  plus,
  sparseAttribute,
  sparseWeight,
  tensorAttribute,
  value,
  yes,
} from './hostile/onnx-bytes.ts';

const SECRET = 'SECRETS!';
const OWN = 'own data';

interface Place {
  /** With the secret. */
  readonly parent: string;
  readonly folder: string;
}

async function place(t: TestContext): Promise<Place> {
  const parent = await temporaryFolder(t);
  const folder = join(parent, 'model');
  mkdirSync(join(folder, 'sub'), { recursive: true });
  mkdirSync(join(parent, 'model2'));
  writeFileSync(join(parent, 'secret.bin'), SECRET);
  writeFileSync(join(parent, 'model2', 'secret.bin'), SECRET);
  writeFileSync(join(folder, 'w.bin'), OWN);
  writeFileSync(join(folder, 'sub', 'w.bin'), OWN);
  symlinkSync('../secret.bin', join(folder, 'link.bin'));
  symlinkSync('..', join(folder, 'up'));
  symlinkSync('w.bin', join(folder, 'within.bin'));
  return { parent, folder };
}

/** x = 0, so y is the weights, as the text that they are. @throws what opening throws */
async function weightsOf({ folder }: Place, bytes: Uint8Array): Promise<string> {
  const file = join(folder, 'model.onnx');
  await writeFile(file, bytes);
  const session = await openSession(file, { threads: 1 });
  try {
    const [y] = await session.run([{ dtype: 'float32', shape: [1, 2], data: new Float32Array(2) }]);
    return Buffer.from((y?.data as Float32Array).buffer, (y?.data as Float32Array).byteOffset, 8).toString(
      'latin1',
    );
  } finally {
    await session.close();
  }
}

type Entries = readonly (readonly [string, string])[];
const at = (location: string): Entries => [
  ['location', location],
  ['length', '8'],
];

const branch = (n: number, part: { readonly node: Buffer; readonly weight?: Buffer }) =>
  message(
    field(1, part.node),
    field(2, 'b'),
    part.weight ? [field(5, part.weight)] : [],
    field(12, value(`o${n}`, 1, [2])),
  );
const either = (make: (n: number) => Buffer) =>
  plus({ weights: [yes('c')] }, [
    node('If', ['c'], ['w'], {
      attributes: [graphAttribute('then_branch', make(1)), graphAttribute('else_branch', make(2))],
    }),
  ]);

/** Every place of an ONNX file where a tensor can stand. */
const FORMS: Readonly<Record<string, (entries: Entries) => Buffer>> = {
  'a weight': (entries) => plus({ weights: [externalWeight(entries)] }),
  'a constant': (entries) =>
    plus({}, [
      node('Constant', [], ['w'], { attributes: [tensorAttribute('value', externalWeight(entries))] }),
    ]),
  'a sparse weight': (entries) => plus({ sparse: [sparseWeight(externalWeight(entries))] }),
  'a sparse constant': (entries) =>
    plus({}, [
      node('Constant', [], ['w'], {
        attributes: [sparseAttribute('sparse_value', sparseWeight(externalWeight(entries)))],
      }),
    ]),
  'a weight of a branch': (entries) =>
    either((n) =>
      branch(n, {
        node: node('Identity', [`w${n}`], [`o${n}`]),
        weight: externalWeight(entries, { name: `w${n}` }),
      }),
    ),
  'a constant of a branch': (entries) =>
    either((n) =>
      branch(n, {
        node: node('Constant', [], [`o${n}`], {
          attributes: [tensorAttribute('value', externalWeight(entries))],
        }),
      }),
    ),
  'a constant of a function': (entries) =>
    model(graph({ nodes: [node('F', ['x'], ['y'], { domain: 'local' })] }), {
      functions: [
        localFunction('F', [
          node('Constant', [], ['w'], { attributes: [tensorAttribute('value', externalWeight(entries))] }),
          node('Add', ['a', 'w'], ['b']),
        ]),
      ],
    }),
};

/** Where the secret is, or another place that is not the model's. */
const OUTSIDE: Readonly<Record<string, (place: Place) => string>> = {
  'above the folder': () => '../secret.bin',
  'above the folder by a detour': () => 'sub/../../secret.bin',
  'in a folder whose name begins alike': () => '../model2/secret.bin',
  'at an absolute path': ({ parent }) => join(parent, 'secret.bin'),
  'at an absolute path within the folder': ({ folder }) => join(folder, 'w.bin'),
  'in /etc': () => '/etc/hostname',
  'in /proc': () => '/proc/self/environ',
  'in an endless device': () => '/dev/zero',
  'behind a link': () => 'link.bin',
  'behind a link to a folder': () => 'up/secret.bin',
  'at a file url': ({ parent }) => `file://${parent}/secret.bin`,
  'at a url': () => 'http://127.0.0.1:1/secret.bin',
  'in memory': () => '*/_ORT_MEM_ADDR_/*',
  'at a path of Windows': () => '..\\secret.bin',
  'in a folder': () => 'sub',
  nowhere: () => '',
};

for (const [form, make] of Object.entries(FORMS)) {
  test(`${form} in a file of the model's own folder is read`, async (t) => {
    const where = await place(t);
    for (const location of ['w.bin', './w.bin', 'sub/w.bin', 'sub/../w.bin'])
      assert.equal(await weightsOf(where, make(at(location))), OWN, location);
  });

  test(`${form} outside of the model's own folder is refused`, async (t) => {
    const where = await place(t);
    for (const [what, locate] of Object.entries(OUTSIDE))
      await assert.rejects(weightsOf(where, make(at(locate(where)))), { code: 'model_unavailable' }, what);
  });
}

test('an address in memory is refused, also one that would be readable', async (t) => {
  const where = await place(t);
  for (const offset of ['0', '4096', '140000000000']) {
    const entries = [...at('*/_ORT_MEM_ADDR_/*'), ['offset', offset]] as const;
    for (const make of Object.values(FORMS))
      await assert.rejects(weightsOf(where, make(entries)), { code: 'model_unavailable' }, offset);
  }
});

test('a place in the file that it does not have is refused', async (t) => {
  const where = await place(t);
  const cases: readonly Entries[] = [
    [...at('w.bin'), ['offset', '4']],
    [...at('w.bin'), ['offset', '4096']],
    [...at('w.bin'), ['offset', '-4']],
    [...at('w.bin'), ['offset', '9223372036854775807']],
    [...at('w.bin'), ['offset', '18446744073709551612']],
    [...at('w.bin'), ['offset', 'four']],
    [
      ['location', 'w.bin'],
      ['length', '8000'],
    ],
    [
      ['location', 'w.bin'],
      ['length', '-1'],
    ],
    [['length', '8']],
    [],
    [...at('w.bin'), ['location', '../secret.bin']],
  ];
  for (const entries of cases)
    await assert.rejects(
      weightsOf(where, plus({ weights: [externalWeight(entries)] })),
      { code: 'model_unavailable' },
      JSON.stringify(entries),
    );
});

test('what comes after a NUL in a location is not read', async (t) => {
  const where = await place(t);
  assert.equal(
    await weightsOf(where, plus({ weights: [externalWeight(at('w.bin\0/../../secret.bin'))] })),
    OWN,
  );
});

test('an unused weight is not read, wherever it is', async (t) => {
  const where = await place(t);
  const bytes = model(
    graph({ nodes: [node('Relu', ['x'], ['y'])], weights: [externalWeight(at('../secret.bin'))] }),
  );
  assert.equal(await weightsOf(where, bytes), '\0'.repeat(8));
});

test('a link within the folder is followed, and a folder that is itself reached by a link serves', async (t) => {
  const { parent, folder } = await place(t);
  assert.equal(
    await weightsOf({ parent, folder }, plus({ weights: [externalWeight(at('within.bin'))] })),
    OWN,
  );
  symlinkSync(folder, join(parent, 'alias'));
  const alias = { parent, folder: join(parent, 'alias') };
  assert.equal(await weightsOf(alias, plus({ weights: [externalWeight(at('w.bin'))] })), OWN);
  await assert.rejects(weightsOf(alias, plus({ weights: [externalWeight(at('../secret.bin'))] })), {
    code: 'model_unavailable',
  });
});

test('a hard link is the file itself: who can make one in the folder could have copied it', async (t) => {
  const where = await place(t);
  linkSync(join(where.parent, 'secret.bin'), join(where.folder, 'hard.bin'));
  assert.equal(await weightsOf(where, plus({ weights: [externalWeight(at('hard.bin'))] })), SECRET);
});
