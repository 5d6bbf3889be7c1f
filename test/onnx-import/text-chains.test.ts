/** The modules behind the pooling, in many orders, against what sentence-transformers answers (test/fixtures/text-models/chains.py). */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { openOnnx } from '../../lib/compose/onnx.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { importModel } from '../../release/import.ts';
import { models, UNMEASURED } from '../support/models.ts';
import { temporary, trainedTokenizer } from '../support/text-models.ts';

interface Chain {
  readonly name: string;
  /** By path, as base64. */
  readonly files: Readonly<Record<string, string>>;
  readonly embeddings: readonly (readonly number[])[];
}

interface Reference {
  readonly model: string;
  /** The same model, by path, as base64. */
  readonly openvino: Readonly<Record<string, string>>;
  readonly config: object;
  readonly texts: readonly string[];
  readonly chains: readonly Chain[];
}

const FILE = new URL('../fixtures/text-models/chains.json.gz', import.meta.url);
const { model, openvino, config, texts, chains }: Reference = JSON.parse(
  gunzipSync(readFileSync(FILE)).toString(),
);

async function folderOf(
  t: TestContext,
  { files }: Chain,
  net: Chain['files'] = { 'model.onnx': model },
): Promise<string> {
  const folder = join(temporary(t), 'model');
  const all = {
    'config.json': JSON.stringify(config),
    'tokenizer.json': JSON.stringify({ ...trainedTokenizer('bert-uncased'), truncation: null }),
    ...Object.fromEntries(
      Object.entries({ ...files, ...net }).map(([path, text]) => [path, Buffer.from(text, 'base64')]),
    ),
  };
  for (const [path, content] of Object.entries(all)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
  return folder;
}

const imported = (folder: string) =>
  importModel(folder, { out: `${folder}-imported`, version: '1', process: models, ...UNMEASURED });

async function embeddings(t: TestContext, folder: string, sent = texts): Promise<readonly number[][]> {
  const { directory, importReport } = await imported(folder);
  const settings = { ...modelSettings(DEFAULT_JOB, 1), verification: importReport.verification };
  const runner = await openOnnx(join(directory, 'model.onnx'), '1', settings);
  t.after(() => runner.close());
  const instances = sent.map((text) => ({ text }));
  const outcomes = await runner.run(decodeInstances(JSON.stringify({ instances })));
  return outcomes.map((outcome) => {
    assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
    assert.equal(runner.outputs[0]?.shape.at(-1), outcome.outputs[0]?.shape.at(-1));
    return Array.from(outcome.outputs[0]?.data ?? [], Number);
  });
}

function spreadOf(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

function assertNear(got: readonly (readonly number[])[], { embeddings: wanted }: Chain): void {
  const spread = spreadOf(wanted.flat());
  for (const [i, expected] of wanted.entries()) {
    assert.equal(got[i]?.length, expected.length);
    for (const [at, value] of expected.entries()) {
      const difference = Math.abs(Number(got[i]?.[at]) - value) / spread;
      assert.ok(difference <= 1e-4, `${texts[i]}: ${at}: off by ${difference} of the spread`);
    }
  }
}

const chainOf = (name: string) => chains.find((one) => one.name === name) ?? assert.fail(name);

suite('modules of sentence-transformers', () => {
  for (const chain of chains) {
    test(`${chain.name} gives the vectors of sentence-transformers within 1e-4 of their spread`, async (t) => {
      assertNear(await embeddings(t, await folderOf(t, chain)), chain);
    });
  }

  test('a model of OpenVINO beside a tokenizer answers texts as well', async (t) => {
    const chain = chainOf('dense-normalize');
    const folder = await folderOf(t, chain, openvino);
    // As optimum-intel writes them, for runtimes of OpenVINO.
    for (const name of ['openvino_tokenizer', 'openvino_detokenizer'])
      for (const end of ['xml', 'bin']) await writeFile(join(folder, `${name}.${end}`), '');
    assertNear(await embeddings(t, folder), chain);
    const { importReport } = await imported(folder);
    assert.equal(importReport.source.format, 'openvino');
    const sources = importReport.source.files.map(({ path }) => path);
    assert.ok(sources.includes('openvino_model.bin') && sources.includes('tokenizer.json'), sources.join());
    assert.match(importReport.notes.join('\n'), /a record sends "text"/);
  });

  test('the weights lie beside the imported model and are listed with its files', async (t) => {
    const { directory, importReport } = await imported(await folderOf(t, chainOf('dense-normalize')));
    assert.deepEqual(
      importReport.model.files.map(({ path }) => path),
      ['model.onnx', 'tokenizer.json', 'text.json', 'text-layers.safetensors'],
    );
    assert.ok(existsSync(join(directory, 'text-layers.safetensors')));
    assert.match(
      importReport.notes.join('\n'),
      /the mean of its tokens' vectors, through a dense layer, scaled to length 1/,
    );
    const sources = importReport.source.files.map(({ path }) => path);
    assert.ok(sources.includes('2_Dense/model.safetensors'), sources.join());
    const plain = await imported(await folderOf(t, chainOf('normalize')));
    assert.equal(existsSync(join(plain.directory, 'text-layers.safetensors')), false);
  });

  test('what is not served is refused by its name, with what to do', async (t) => {
    const refused = async (change: (folder: string) => Promise<void>, name = 'dense') => {
      const folder = await folderOf(t, chainOf(name));
      await change(folder);
      return imported(folder).then(
        () => 'not refused',
        (error: Error) => error.message,
      );
    };
    const edit = (path: string, values: object) => async (folder: string) => {
      const own: object = JSON.parse(await readFile(join(folder, path), 'utf8'));
      await writeFile(join(folder, path), JSON.stringify({ ...own, ...values }));
    };
    const DENSE = '2_Dense/config.json';
    assert.match(
      await refused(edit(DENSE, { activation_function: 'torch.nn.modules.activation.Softplus' })),
      /2_Dense\/config\.json: the activation "torch\.nn\.modules\.activation\.Softplus" is not served; expected one of torch\.nn: Identity, Tanh/,
    );
    assert.match(
      await refused(edit(DENSE, { activation_function: 'os.system' })),
      /"os\.system" is not served/,
    );
    assert.match(await refused(edit(DENSE, { in_features: 'x' })), /expected in_features and out_features/);
    assert.match(
      await refused(edit(DENSE, { out_features: 9 })),
      /2_Dense: linear\.weight: expected floats \[9,12\], found float32 \[8,12\]/,
    );
    assert.match(
      await refused(edit(DENSE, { module_input_name: 'token_embeddings' })),
      /a Dense of token_embeddings is not served/,
    );
    assert.match(
      await refused((folder) => rm(join(folder, '2_Dense/model.safetensors'))),
      /expected the weights model\.safetensors or pytorch_model\.bin, found none; save the model again/,
    );
    assert.match(
      await refused((folder) => writeFile(join(folder, '2_Dense/model.safetensors'), 'no tensors')),
      /2_Dense\/model\.safetensors: /,
    );
    const modules =
      (...kinds: readonly string[]) =>
      async (folder: string) => {
        const list = kinds.map((kind, i) => ({
          type: `sentence_transformers.models.${kind}`,
          path: `${i}_${kind}`,
        }));
        await writeFile(join(folder, 'modules.json'), JSON.stringify(list));
      };
    for (const [kind, ...list] of [
      ['Dense', 'Transformer', 'Dense', 'Pooling'],
      ['WordWeights', 'Transformer', 'Pooling', 'WordWeights'],
      ['Pooling', 'Transformer', 'Pooling', 'Pooling'],
    ] as const)
      assert.match(
        await refused(modules(...list)),
        new RegExp(`modules\\.json: the module "${kind}" is not served here; export the whole model`),
      );
  });
});
