/** Directories of MLflow: which flavor and file are imported in the layouts of MLflow 1 to 3, and what is refused. */
import assert from 'node:assert/strict';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { givenInputs } from '../../../onnx-import/formats/pytorch/inputs.ts';
import { detectModel, needsImport } from '../../../onnx-import/source/detect.ts';
import { signedColumns } from '../../../onnx-import/source/mlflow.ts';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const PYFUNC = `
  python_function:
    data: model
    env: {conda: conda.yaml, virtualenv: python_env.yaml}
    loader_module: mlflow.any
    python_version: 3.11.7`;

/** As MLflow writes it, which folds long texts. */
const TABLE = `
signature:
  inputs: '[{"type": "double", "name": "age", "required": true}, {"type": "long",
    "name": "size of"}]'
  outputs: '[{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1]}}]'
  params: null`;

const flavors = (text: string, rest = '') =>
  `flavors:${PYFUNC}${text}\nmlflow_version: 2.9.2${rest}\nutc_time_created: '2026-11-23 10:35:01.033588'\n`;
const ONNX =
  '\n  onnx:\n    code: null\n    data: model.onnx\n    onnx_version: 1.15.0\n    providers: [CPUExecutionProvider]';
const SKLEARN =
  '\n  sklearn:\n    pickled_model: model.pkl\n    serialization_format: cloudpickle\n    sklearn_version: 1.3.2';
const TRANSFORMERS = (task: string) =>
  `\n  transformers:\n    framework: pt\n    model_binary: model\n    task: ${task}`;
const KERAS = '\n  tensorflow:\n    code: null\n    data: data\n    model_type: keras\n    save_format: tf';
const XGBOOST = (file: string) => `\n  xgboost:\n    data: ${file}\n    model_class: xgboost.core.Booster`;

async function directoryOf(
  t: TestContext,
  mlmodel: string,
  files: readonly string[] | Readonly<Record<string, Uint8Array>>,
): Promise<string> {
  const folder = join(await temporaryFolder(t), 'model');
  const contents: Readonly<Record<string, string | Uint8Array>> = Array.isArray(files)
    ? Object.fromEntries((files as readonly string[]).map((name) => [name, 'data'] as const))
    : (files as Readonly<Record<string, Uint8Array>>);
  for (const [name, content] of Object.entries({ MLmodel: mlmodel, 'conda.yaml': 'name: x', ...contents })) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

const SAVED = ['saved_model.pb', 'keras_metadata.pb', 'variables/variables.index'];
const LAYOUTS: readonly (readonly [
  what: string,
  mlmodel: string,
  files: readonly string[],
  expected: string,
])[] = [
  ['ONNX', flavors(ONNX), ['model.onnx', 'model.onnx.data'], 'onnx onnx model.onnx'],
  ['XGBoost of MLflow 1 and 2', flavors(XGBOOST('model.xgb')), ['model.xgb'], 'xgboost xgboost model.xgb'],
  ['XGBoost of MLflow 3', flavors(XGBOOST('model.ubj')), ['model.ubj'], 'xgboost xgboost model.ubj'],
  [
    'XGBoost beside an example of its input',
    flavors(XGBOOST('model.json')),
    ['model.json', 'input_example.json', 'serving_input_example.json'],
    'xgboost xgboost model.json',
  ],
  [
    'LightGBM',
    flavors('\n  lightgbm:\n    code: null\n    data: model.lgb\n    lgb_version: 4.1.0'),
    ['model.lgb'],
    'lightgbm lightgbm model.lgb',
  ],
  [
    'an estimator of TensorFlow 1',
    flavors(
      '\n  tensorflow:\n    meta_graph_tags: [serve, gpu]\n    saved_model_dir: tfmodel\n    signature_def_key: predict',
    ),
    ['tfmodel/saved_model.pb', 'tfmodel/variables/variables.index'],
    'tensorflow tf_saved_model tfmodel',
  ],
  [
    'a module of TensorFlow 2',
    flavors('\n  tensorflow:\n    model_type: tf2-module\n    saved_model_dir: tf2model'),
    ['tf2model/saved_model.pb'],
    'tensorflow tf_saved_model tf2model',
  ],
  [
    'Keras, whose SavedModel lies one folder further down',
    flavors(KERAS),
    ['data/keras_module.txt', 'data/save_format.txt', ...SAVED.map((name) => `data/model/${name}`)],
    'tensorflow tf_saved_model data/model',
  ],
  [
    'the flavor keras of MLflow 1, and of an export of MLflow 3',
    flavors('\n  keras:\n    data: data\n    keras_version: 3.1.0\n    save_exported_model: true'),
    SAVED.map((name) => `data/model/${name}`),
    'keras tf_saved_model data/model',
  ],
  [
    'PyTorch',
    flavors('\n  pytorch:\n    code: null\n    model_data: data\n    pytorch_version: 2.1.0'),
    ['data/model.pth', 'data/pickle_module_info.txt'],
    'pytorch pytorch data/model.pth',
  ],
  [
    'several flavors, of which ONNX is preferred',
    flavors(`${XGBOOST('model.xgb')}${ONNX}`),
    ['model.xgb', 'model.onnx'],
    'onnx onnx model.onnx',
  ],
  [
    'several flavors, of which the preferred one is stored as Python objects',
    flavors(`\n  lightgbm:\n    data: model.lgb${KERAS}`),
    ['data/model.h5', 'model.lgb'],
    'lightgbm lightgbm model.lgb',
  ],
];

describe('a directory with an MLmodel', () => {
  for (const [what, mlmodel, files, expected] of LAYOUTS) {
    test(`of ${what} is ${expected}`, async (t) => {
      const folder = await directoryOf(t, mlmodel, files);
      const { kind, home, mlflow, notes } = await detectModel(folder);
      assert.equal(`${mlflow?.flavor} ${kind} ${mlflow?.path}`, expected);
      assert.equal(home, folder);
      assert.match(
        String(notes),
        new RegExp(`^MLflow: the flavor ${mlflow?.flavor} of MLmodel was taken, ${mlflow?.path}$`),
      );
      assert.equal(await needsImport(folder), true);
    });
  }

  test('is read from the folder of its files, and hashes those alone', async (t) => {
    const folder = await directoryOf(t, flavors(KERAS), [
      'data/model/saved_model.pb',
      'data/model/variables/variables.index',
    ]);
    const { directory, files } = await detectModel(folder);
    assert.deepEqual(
      [directory, files],
      [join(folder, 'data', 'model'), ['saved_model.pb', 'variables/variables.index']],
    );
  });

  test('of an estimator of TensorFlow 1 sets the tags and the signature', async (t) => {
    const [, mlmodel, files] =
      LAYOUTS.find(([what]) => what === 'an estimator of TensorFlow 1') ?? assert.fail();
    const { mlflow } = await detectModel(await directoryOf(t, mlmodel, files));
    assert.deepEqual(mlflow?.defaults, { tags: ['serve', 'gpu'], signature: 'predict' });
  });

  test('of scikit-learn with an ONNX file that a person put beside it is that file', async (t) => {
    const found = await detectModel(await directoryOf(t, flavors(SKLEARN), ['model.pkl', 'export.onnx']));
    assert.deepEqual([found.kind, found.files, found.mlflow], ['onnx', ['export.onnx'], undefined]);
    assert.deepEqual(found.notes, ['export.onnx was taken, which MLmodel does not name']);
  });

  test('gives the columns their names, and its report says where the model came from', async (t) => {
    const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
    const directory = await directoryOf(t, flavors(ONNX, TABLE), { 'model.onnx': model });
    const out = join(dirname(directory), 'out');
    const options = { version: '1', measure: false, process: models, out } as const;
    const { importReport } = await importModel(directory, options);
    assert.deepEqual(importReport.source.mlflow, { flavor: 'onnx', path: 'model.onnx' });
    assert.deepEqual(importReport.notes.slice(0, 1), [
      'MLflow: the flavor onnx of MLmodel was taken, model.onnx',
    ]);
    assert.deepEqual(JSON.parse(await readFile(join(out, 'names.json'), 'utf8')), {
      columns: { x: ['age', 'size of'] },
      labels: {},
    });
    // What a person says counts first.
    await writeFile(join(directory, 'names.json'), '{"columns": {"x": ["a", "b"]}}');
    await importModel(directory, options);
    const { columns } = JSON.parse(await readFile(join(out, 'names.json'), 'utf8'));
    assert.deepEqual(columns, { x: ['a', 'b'] });
  });
});

test('columns of a signature go to one input of numbers with as many, and never replace the names that a model has', () => {
  const columns = ['a', 'b'];
  const x = { name: 'x', dtype: 'float32', shape: ['N', 2] } as const;
  assert.deepEqual(signedColumns({ columns }, {}, [x]), { x: columns });
  assert.deepEqual(signedColumns({ columns }, { x: ['f0', 'f1'] }, [x]), { x: columns });
  assert.deepEqual(signedColumns({ columns }, { x: ['Column_0', 'Column_1'] }, [x]), { x: columns });
  assert.deepEqual(signedColumns({ columns }, { x: ['b', 'a'] }, [x]), {});
  assert.deepEqual(signedColumns({ columns }, {}, [x, { ...x, name: 'y' }]), {});
  assert.deepEqual(signedColumns({ columns }, {}, [{ ...x, shape: ['N', 3] }]), {});
  assert.deepEqual(signedColumns({ columns }, {}, [{ ...x, shape: ['N', 'M'] }]), {});
  assert.deepEqual(signedColumns({ columns }, {}, [{ ...x, shape: ['N', 2, 2] }]), {});
  assert.deepEqual(signedColumns({ columns }, {}, [{ ...x, dtype: 'string' }]), {});
  assert.deepEqual(signedColumns({}, {}, [x]), {});
});

describe('a signature', () => {
  const PYTORCH = '\n  pytorch:\n    model_data: data';
  const facts = async (t: TestContext, inputs: string) => {
    const signature = `\nsignature:\n  inputs: '${inputs}'`;
    return (await detectModel(await directoryOf(t, flavors(PYTORCH, signature), ['data/model.pth']))).mlflow;
  };
  const tensor = (dtype: string, shape: string) =>
    `{"type": "tensor", "tensor-spec": {"dtype": "${dtype}", "shape": ${shape}}}`;

  test('of tensors gives the inputs of PyTorch their shapes by position', async (t) => {
    const mlflow = await facts(t, `[${tensor('float32', '[-1, 3, -1, 8]')}, ${tensor('int64', '[-1, 4]')}]`);
    assert.deepEqual(mlflow?.columns, undefined);
    assert.deepEqual(mlflow?.defaults, {
      shapesInOrder: [
        ['float32', 1, 3, 'free2', 8],
        ['int64', 1, 4],
      ],
    });
    const parameters = ['a', 'b'].map((name) => ({ name, type: 'Tensor', hasDefault: false }));
    const [a, b] = givenInputs(
      parameters,
      { ...mlflow?.defaults, inputShapes: { a: [1, 3, 4, 8] } },
      'model.pth',
    );
    assert.deepEqual(a, { name: 'a', dtype: undefined, shape: [1, 3, 4, 8] });
    assert.deepEqual(b, { name: 'b', dtype: 'int64', shape: [1, 4] });
  });

  test('of a table is one tensor of PyTorch', async (t) => {
    const mlflow = await facts(t, '[{"type": "double", "name": "a"}, {"type": "boolean", "name": "b"}]');
    assert.deepEqual(mlflow, {
      flavor: 'pytorch',
      path: 'data/model.pth',
      columns: ['a', 'b'],
      defaults: { shapesInOrder: [['float32', 1, 2]] },
    });
  });

  test('that says what is not understood says nothing', async (t) => {
    for (const inputs of [
      '[{"type": "string", "name": "a"}]',
      '[{"type": "double"}]',
      '[{"type": "double", "name": "a"}, {"type": "double", "name": "a"}]',
      '{"type": "double"}',
      '[null]',
    ]) {
      assert.equal((await facts(t, inputs))?.columns, undefined, inputs);
    }
    for (const shape of ['[-1, 0]', '[-1, -2]', '[1.5]', '"x"', '[9007199254740992]'])
      assert.deepEqual((await facts(t, `[${tensor('float32', shape)}]`))?.defaults, {}, shape);
    assert.deepEqual((await facts(t, `[${tensor('complex64', '[-1]')}]`))?.defaults, {});
  });
});

const REFUSED: readonly (readonly [
  what: string,
  mlmodel: string,
  files: readonly string[],
  message: RegExp,
])[] = [
  [
    'a model of scikit-learn',
    flavors(SKLEARN),
    ['model.pkl'],
    /MLmodel names no flavor that can be imported \(onnx, tensorflow, keras, pytorch, xgboost, lightgbm\): "sklearn": skl2onnx\.to_onnx/,
  ],
  [
    'a pipeline of Transformers, with its task',
    flavors(TRANSFORMERS('text-classification')),
    ['model/model.safetensors'],
    /"transformers": `optimum-cli export onnx --model model --task text-classification onnx\/` makes an ONNX model/,
  ],
  [
    'a pipeline of Transformers with the task of a chat',
    flavors(TRANSFORMERS('llm/v1/chat')),
    ['model/model.safetensors'],
    /"transformers": `optimum-cli export onnx --model model --task TASK onnx\/` makes an ONNX model/,
  ],
  [
    'a model of sentence-transformers',
    flavors('\n  sentence_transformers:\n    code: null\n    source_model_name: x/y'),
    ['model.sentence_transformer/modules.json'],
    /`optimum-cli export onnx --model model\.sentence_transformer --task feature-extraction onnx\/`/,
  ],
  [
    'a Keras file of Keras 3',
    flavors(KERAS),
    ['data/model.keras', 'data/keras_module.txt'],
    /tensorflow: "data" holds no model that is read; model\.keras is a Keras file; in Python: .*export\("saved"\)/,
  ],
  ['a Keras file of Keras 2', flavors(KERAS), ['data/model.h5'], /model\.h5 is a Keras file/],
  [
    'LightGBM in an object of scikit-learn',
    flavors('\n  lightgbm:\n    data: model.skops'),
    ['model.skops'],
    /lightgbm: "model\.skops" holds no model that is read; mlflow\.lightgbm\.load_model\(dir\)\.booster_\.save_model/,
  ],
  [
    'a flavor with the name of a property',
    flavors('\n  constructor:\n    data: x'),
    ['x'],
    /"constructor": its code is Python/,
  ],
  ['code in Python', flavors(''), ['model'], /python_function: its code is Python: .* worker$/],
  ['an unknown flavor', flavors('\n  "a\\e[0m":\n    data: x'), ['x'], /"a\\u001b\[0m": its code is Python/],
  [
    'a path above the directory',
    flavors(XGBOOST('../model.xgb')),
    ['model.xgb'],
    /MLmodel names "\.\.\/model\.xgb", which is no path within the directory/,
  ],
  [
    'a path that goes up on the way',
    flavors(XGBOOST('a/../../model.xgb')),
    ['a/x'],
    /no path within the directory/,
  ],
  [
    'a path of Windows that goes up',
    flavors(XGBOOST('a\\..\\model.xgb')),
    ['a/x'],
    /no path within the directory/,
  ],
  [
    'an absolute path',
    flavors(XGBOOST('/etc/hostname')),
    ['x'],
    /names "\/etc\/hostname", which is no path within/,
  ],
  ['the address of a file', flavors(XGBOOST('file:///etc/hostname')), ['x'], /no path within the directory/],
  [
    'a file that is missing',
    flavors(XGBOOST('model.xgb')),
    ['x'],
    /"model\.xgb", which is not there; copy the whole/,
  ],
  [
    'the file of another flavor',
    flavors(XGBOOST('model.onnx')),
    ['data/x'],
    /"model\.onnx", which is not there/,
  ],
  [
    'a flavor without a file',
    flavors('\n  onnx:\n    onnx_version: 1.15.0'),
    ['model.onnx'],
    /the flavor onnx does not say where its files are \(data\)/,
  ],
  ['no flavor', 'flavors: {}', ['model.onnx'], /expected "flavors:" with 1 to 50 of them, found 0/],
  ['a text', 'data', ['model.onnx'], /MLmodel: expected keys with values, e\.g\. "flavors:", got text/],
  ['no YAML', 'flavors: [', ['model.onnx'], /MLmodel: line 1: not YAML/],
  ['a tag', 'flavors: !!python/object:x {}', ['model.onnx'], /a tag that means nothing here/],
  ['levels without end', `flavors: ${'['.repeat(5_000)}`, ['model.onnx'], /MLmodel: /],
  [
    'more than a mebibyte',
    `flavors: ${' '.repeat(1_100_000)}`,
    ['model.onnx'],
    /MLmodel: over the limit of 1048576 bytes/,
  ],
  [
    'a signature that is no JSON',
    flavors(ONNX, '\nsignature:\n  inputs: "["'),
    ['model.onnx'],
    /signature\.inputs is not JSON/,
  ],
];

describe('an MLmodel is refused that names', () => {
  for (const [what, mlmodel, files, message] of REFUSED) {
    test(what, async (t) => {
      const folder = await directoryOf(t, mlmodel, files);
      await assert.rejects(detectModel(folder), { code: 'bad_model', message });
    });
  }

  test('a file, a folder, or a part of a model that is a link out of the directory', async (t) => {
    const folder = await directoryOf(t, flavors(XGBOOST('model.xgb')), ['inner/model.xgb']);
    const outside = join(dirname(folder), 'outside');
    await mkdir(outside);
    for (const name of ['model.xgb', 'saved_model.pb', 'variables.index'])
      await writeFile(join(outside, name), 'data');
    const refusal = { code: 'bad_model', message: /is a link that leads out of the model directory/ };
    await symlink(join(outside, 'model.xgb'), join(folder, 'model.xgb'));
    await assert.rejects(detectModel(folder), refusal);

    await symlink(outside, join(folder, 'tfmodel'));
    const saved = '\n  tensorflow:\n    saved_model_dir: tfmodel';
    await writeFile(join(folder, 'MLmodel'), flavors(saved));
    await assert.rejects(detectModel(folder), refusal);

    await mkdir(join(folder, 'real'));
    await writeFile(join(folder, 'real', 'saved_model.pb'), 'data');
    await symlink(outside, join(folder, 'real', 'variables'));
    await writeFile(join(folder, 'MLmodel'), flavors(saved.replace('tfmodel', 'real')));
    await assert.rejects(detectModel(folder), refusal);

    await rm(join(folder, 'MLmodel'));
    await writeFile(join(outside, 'MLmodel'), flavors(ONNX));
    await symlink(join(outside, 'MLmodel'), join(folder, 'MLmodel'));
    await assert.rejects(detectModel(folder), refusal);
    await rm(join(folder, 'MLmodel'));

    // A link within the directory is as good as a file.
    await symlink(join('inner', 'model.xgb'), join(folder, 'linked.xgb'));
    await writeFile(join(folder, 'MLmodel'), flavors(XGBOOST('linked.xgb')));
    assert.equal((await detectModel(folder)).mlflow?.path, 'linked.xgb');
  });
});
