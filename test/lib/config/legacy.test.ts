/** Every key of the old configs, and the old configs themselves. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readConfigText } from '../../../lib/config/file.ts';
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import { LEGACY } from '../../../lib/config/legacy.ts';
import { SETTINGS } from '../../../lib/config/schema.ts';
import { convertOptions } from '../../../release/options.ts';
import { parseConfig } from '../../support/config.ts';
import { fixture } from '../../support/fixtures.ts';

/** Ours with a few values changed, by path. */
function jobWith(changes: Readonly<Record<string, unknown>>): JobConfig {
  const job = structuredClone(DEFAULT_JOB) as unknown as Record<string, unknown>;
  for (const [path, value] of Object.entries(changes)) {
    const [outer, inner] = path.split('.') as [string, string?];
    if (inner === undefined) job[outer] = value;
    else (job[outer] as Record<string, unknown>)[inner] = value;
  }
  return job as unknown as JobConfig;
}

/** `model.path: x` as a config of one key. */
function configOf(key: string, value: string): string {
  const [outer, inner] = key.split('.') as [string, string?];
  if (inner === undefined) return `${outer}: ${value}\n`;
  return outer === 'modelMetaDataList'
    ? `${outer}:\n- !<ClusterServingMetaData>\n  ${inner}: ${value}\n`
    : `${outer}:\n  ${inner}: ${value}\n`;
}

const SIZE = { 'image.height': 224, 'image.width': 448 };

/** Key, value, and what it sets. */
const WORKING: readonly (readonly [string, string, Readonly<Record<string, unknown>>])[] = [
  ['modelPath', '/path', { modelPath: '/path' }],
  ['jobName', 'serving2', { jobName: 'serving2' }],
  ['postProcessing', 'topN(3)', { postProcessing: 'topN(3)' }],
  ['imageResize', '224,448', SIZE],
  ['inputAlreadyBatched', 'true', { inputAlreadyBatched: true }],
  ['threadPerModel', '2', { threadPerModel: 2 }],
  ['model.path', 'file:///path', { modelPath: '/path' }],
  ['model.name', 'serving2', { jobName: 'serving2' }],
  ['model.inputs', 'input:0,mask:0', { 'import.inputs': ['input:0', 'mask:0'] }],
  ['model.outputs', 'output:0', { 'import.outputs': ['output:0'] }],
  ['data.image_shape', '3, 224, 448', { ...SIZE, 'import.shapes': [[3, 224, 448]] }],
  ['data.shape', '[3, 224, 448]', { ...SIZE, 'import.shapes': [[3, 224, 448]] }],
  ['data.tensor_shape', '[1, 2]', { 'import.shapes': [[1, 2]] }],
  ['data.filter', 'pickTopN(2)', { postProcessing: 'pickTopN(2)' }],
  ['data.batched', 'True', { inputAlreadyBatched: true }],
  ['params.batch_size', '4', { batchSize: 4 }],
  ['params.core_number', '"4"', { batchSize: 4 }],
  ['params.top_n', '5', { postProcessing: 'topN(5)' }],
  ['redisInputQueue', 'serving2', { jobName: 'serving2' }],
  ['tokenBucketEnabled', 'true', { 'http.tokenBucketEnabled': true }],
  ['tokensPerSecond', '7', { 'http.tokensPerSecond': 7 }],
  ['tokenAcquireTimeout', '250', { 'http.tokenAcquireTimeoutMs': 250 }],
  ['modelMetaDataList.modelPath', '/path', { modelPath: '/path' }],
  ['modelMetaDataList.redisInputQueue', 'serving2', { jobName: 'serving2' }],
  ['modelMetaDataList.tokenBucketEnabled', 'true', { 'http.tokenBucketEnabled': true }],
  ['modelMetaDataList.tokensPerSecond', '7', { 'http.tokensPerSecond': 7 }],
];

/** Key, a value it had, and a word of what stands in its place. */
const REPLACED: readonly (readonly [string, string, RegExp])[] = [
  ['coreNumberPerMachine', '-1', /function\.memoryMB/],
  ['modelParallelism', '10', /maximumConcurrency/],
  ['performance_mode', 'ON', /function\.memoryMB/],
  ['flinkRestUrl', 'localhost:8081', /Lambda/],
  ['queueUsed', 'kafka', /SQS/],
  ['kafkaUrl', 'localhost:9092', /SQS/],
  ['redisUrl', 'localhost:6379', /its own Redis/],
  ['redisMaxMemory', '4g', /redisNodeType/],
  ['redisTimeout', '5000', /1 s/],
  ['redisSecureEnabled', 'true', /TLS/],
  ['redisSecureTrustStorePath', '/keys/keystore.jks', /no trust store/],
  ['redisSecureTrustStorePassword', '1234qwer', /no trust store/],
  ['redisSecureStructStorePassword', '1234qwer', /no trust store/],
  ['secureEnabled', 'false', /TLS/],
  ['secureTrustStorePath', '/keys/keystore.jks', /no trust store/],
  ['secureStructStorePassword', '123456', /no trust store/],
  ['model.mode', 'single', /measured/],
  ['data.src', 'localhost:6379', /its own Redis/],
  ['data.type', 'image', /each value/],
  ['data.data_type', '[image, tensor]', /each value/],
  ['data.resize', 'true', /imageResize/],
  ['params.model_number', '4', /maximumConcurrency/],
  ['params.performance_mode', 'OFF', /function\.memoryMB/],
  ['params.engine_type', 'mklblas', /ONNX Runtime/],
  ['redis.maxmem', '8G', /redisNodeType/],
  ['redis.timeout', '5000', /1 s/],
  ['secure.secure_enabled', 'true', /TLS/],
  ['secure.secure_trust_store_path', '/keys/keystore.jks', /no trust store/],
  ['secure.secure_struct_store_password', '123456', /no trust store/],
  ['flink.rest', 'localhost:8081', /Lambda/],
  ['spark.master', 'local[*]', /Lambda/],
  ['spark.driver_memory', '4g', /Lambda/],
  ['spark.executor_memory', '1g', /Lambda/],
  ['spark.num_executors', '1', /Lambda/],
  ['spark.executor_cores', '4', /Lambda/],
  ['spark.total_executor_cores', '4', /Lambda/],
  ['log.error', 'y', /CloudWatch/],
  ['log.summary', 'y', /CloudWatch/],
  ['interface', '0.0.0.0', /API Gateway/],
  ['port', '10020', /cluster-serving start --port/],
  ['securePort', '10023', /HTTPS/],
  ['httpsEnabled', 'true', /HTTPS/],
  ['httpsKeyStorePath', '/keys/keystore.pkcs12', /HTTPS/],
  ['httpsKeyStoreToken', '1234qwer', /HTTPS/],
  ['redisHost', 'localhost', /its own Redis/],
  ['redisPort', '6379', /its own Redis/],
  ['redisOutputQueue', '"result:"', /cluster-serving_<jobName>:<uri>/],
  ['redissTrustStorePath', '/keys/keystore.jks', /no trust store/],
  ['redissTrustStoreToken', '1234qwer', /no trust store/],
  ['parallelism', '1000', /environment/],
  ['timeWindow', '0', /queue\.windowSeconds/],
  ['countWindow', '56', /queue\.batchSize/],
  ['servableManagerConfPath', './servables-conf.yaml', /one model/],
  ['modelMetaDataList.type', 'ClusterServingMetaData', /one model/],
  ['modelMetaDataList.modelName', '"1"', /one model/],
  ['modelMetaDataList.modelVersion', '"1.0"', /content of the model/],
  ['modelMetaDataList.modelType', 'OpenVINO', /ONNX/],
  ['modelMetaDataList.weightPath', '/path/weights.bin', /ONNX/],
  ['modelMetaDataList.modelConCurrentNum', '1', /maximumConcurrency/],
  ['modelMetaDataList.inputCompileType', 'direct', /each value/],
  ['modelMetaDataList.features', '[a, b]', /bind by name/],
  ['modelMetaDataList.redisHost', 'localhost', /its own Redis/],
  ['modelMetaDataList.redisPort', '"6379"', /its own Redis/],
  ['modelMetaDataList.redisOutputQueue', '"cluster-serving_serving_stream:"', /<jobName>/],
  ['modelMetaDataList.timeWindow', '0', /queue\.windowSeconds/],
  ['modelMetaDataList.countWindow', '56', /queue\.batchSize/],
  ['modelMetaDataList.redisSecureEnabled', 'false', /TLS/],
  ['modelMetaDataList.redisTrustStorePath', '/keys/keystore.jks', /no trust store/],
  ['modelMetaDataList.redisTrustStoreToken', '1234qwer', /no trust store/],
];

const REFUSED = ['modelEncrypted', 'recordEncrypted', 'secure.model_encrypted', 'secure.record_encrypted'];

describe('a key of the old configs', () => {
  test('is in exactly one of the tables of this test, with the outcome that the code gives it', () => {
    const told = [
      ...WORKING.map(([key]) => [key, 'works']),
      ...REPLACED.map(([key]) => [key, 'replaced']),
      ...REFUSED.map((key) => [key, 'refused']),
    ];
    assert.deepEqual(
      told.map(String).toSorted(),
      [...LEGACY].map(([key, { outcome }]) => `${key},${outcome}`).toSorted(),
    );
  });

  test('that works sets only settings that there are', () => {
    for (const [key, rule] of LEGACY) {
      if (rule.outcome !== 'works') continue;
      for (const path of rule.sets.split(', ')) assert.ok(SETTINGS.has(path), `${key}: ${path}`);
    }
  });

  for (const [key, value, changes] of WORKING) {
    test(`${key}: ${value} sets ${Object.keys(changes).join(', ')}`, () => {
      assert.deepEqual(parseConfig(configOf(key, value), 'test'), jobWith(changes));
    });
  }

  for (const [key, value, expected] of REPLACED) {
    test(`${key} is accepted with one line that says what replaces it, and changes nothing`, () => {
      const { job, notes } = readConfigText(configOf(key, value), 'test');
      assert.deepEqual(job, DEFAULT_JOB);
      const about = notes.filter((note) => note.startsWith(`${key} (line `));
      assert.equal(about.length, 1, notes.join('\n'));
      assert.match(about[0] as string, expected);
      assert.doesNotMatch(about[0] as string, /\n/);
    });
  }

  for (const key of REFUSED) {
    test(`${key}: false is fine, true is refused with what to do, and anything else is not an answer`, () => {
      assert.deepEqual(readConfigText(configOf(key, 'false'), 'test'), { job: DEFAULT_JOB, notes: [] });
      assert.throws(() => parseConfig(configOf(key, 'TRUE'), 'test'), {
        code: 'bad_config',
        message: /not supported: (decrypt the model|send them as they are)/,
      });
      assert.throws(() => parseConfig(configOf(key, 'maybe'), 'test'), {
        message: /expected true or false, got "maybe"/,
      });
    });
  }

  test('without a value means the default, and needs no word', () => {
    for (const key of LEGACY.keys()) {
      if (key.startsWith('spark.')) continue;
      assert.deepEqual(readConfigText(configOf(key, ''), 'test'), { job: DEFAULT_JOB, notes: [] }, key);
    }
  });

  test('may hold a password, which no note repeats', () => {
    const { notes } = readConfigText('secureStructStorePassword: hunter2\nredisUrl: me:hunter2@host\n', 't');
    assert.equal(notes.length, 2);
    assert.doesNotMatch(notes.join('\n'), /hunter2/);
  });

  test('shares its line with the others that the same thing replaces', () => {
    const { notes } = readConfigText('redisHost: a\nport: 1\nredisPort: 2\n', 'test');
    assert.equal(notes.length, 2);
    assert.match(notes[0] as string, /^redisHost, redisPort \(lines 1, 3\): /);
  });
});

describe('the shape of an image in an old config', () => {
  const sizeOf = (data: string) => {
    const { width, height } = parseConfig(`data: {${data}}`, 'test').image;
    return [height, width];
  };

  test('is read with the channels first or last', () => {
    assert.deepEqual(sizeOf('image_shape: "3,10,20"'), [10, 20]);
    assert.deepEqual(sizeOf('image_shape: [1, 10, 20]'), [10, 20]);
    assert.deepEqual(sizeOf('image_shape: "10, 20, 3"'), [10, 20]);
    assert.deepEqual(sizeOf('image_shape: "3,224,3"'), [224, 3]);
  });

  test('is that of the input whose type is image, quoted or not', () => {
    assert.deepEqual(sizeOf('shape: [[1, 2], [3, 10, 20], [3, 4]], type: [tensor, image, tensor]'), [10, 20]);
    assert.deepEqual(sizeOf('shape: "[[1, 2], [3, 10, 20]]", type: "tensor, image"'), [10, 20]);
    assert.deepEqual(sizeOf('shape: "3,10,20", data_type: Image'), [10, 20]);
  });

  test('of several inputs without types is that of the input that can be an image', () => {
    assert.deepEqual(sizeOf('src: , shape: [[1],[3,224,448],[3]], filter: '), [224, 448]);
    assert.deepEqual(sizeOf('shape: "[[2,3],[10,20,1]]"'), [10, 20]);
    const { job } = readConfigText('data: {shape: [[1],[2,3]]}', 'test');
    assert.deepEqual(job, { ...DEFAULT_JOB, import: { shapes: [[1], [2, 3]] } });
    assert.throws(
      () => sizeOf('shape: [[3,10,20],[3,20,10]]'),
      /one size for all images of a record, got several/,
    );
  });

  test('reported: the shapes of the guide, and a key without a blank', async (t) => {
    for (const name of ['shape.yaml', 'shape-of-the-guide.yaml']) {
      const bytes = await fixture(t, `corpus/reported/guides/${name}`);
      if (!bytes) return;
      const { image, modelPath } = readConfigText(bytes.toString(), name).job;
      assert.deepEqual([image.height, image.width, modelPath], [224, 224, 'model']);
    }
    for (const name of ['noblank.yaml', 'nospace.yaml']) {
      const bytes = await fixture(t, `corpus/reported/guides/${name}`);
      assert.throws(
        () => readConfigText(String(bytes), name),
        /put a blank behind the colon, as in "modelPath: model"$/,
      );
    }
  });

  test('sets no size of images when no input is an image', () => {
    const { job, notes } = readConfigText('data: {shape: [1, 2], type: tensor}', 'test');
    assert.deepEqual(job, { ...DEFAULT_JOB, import: { shapes: [[1, 2]] } });
    assert.deepEqual(notes, ['data.type (line 1): read off each value and the model']);
  });

  test('is what an import takes where the file of a model says none', () => {
    const shapesOf = (data: string) => {
      const { shapesInOrder } = convertOptions(readConfigText(`data: {${data}}`, 'test').job.import);
      return shapesInOrder;
    };
    assert.deepEqual(shapesOf('shape: [[1],[3,224,448],[3]]'), [
      [1, 1],
      [1, 3, 224, 448],
      [1, 3],
    ]);
    assert.deepEqual(shapesOf('shape: "[[2,3],[10,20,1]]"'), [
      [1, 2, 3],
      [1, 10, 20, 1],
    ]);
    assert.deepEqual(shapesOf('shape: [3,224,224]'), [[1, 3, 224, 224]]);
    assert.deepEqual(shapesOf('image_shape: "3, 10, 20"'), [[1, 3, 10, 20]]);
    assert.deepEqual(shapesOf('tensor_shape: "4,5", data_type: tensor'), [[1, 4, 5]]);
    assert.deepEqual(shapesOf('image_shape: "3,10,20", tensor_shape: "4"'), undefined);
    assert.deepEqual(shapesOf('image_shape: "3,10,20", shape: [3,10,20]'), [[1, 3, 10, 20]]);
  });

  test('that is empty or holds other things is refused', () => {
    for (const shape of ['[]', '[[]]', '[[], [3]]', '[[1], [-2]]', '[[[1]]]', '[3, x]']) {
      const text = `data: {shape: ${shape}, type: tensor}`;
      assert.throws(
        () => readConfigText(text, 'test'),
        { code: 'bad_config', message: /data\.shape: expected / },
        shape,
      );
    }
  });

  test('must be one, of 1 or 3 channels, for all images', () => {
    for (const data of [
      'image_shape: "224,224"',
      'image_shape: "4,224,224"',
      'image_shape: "3,1,2,3"',
      'image_shape: {a: b}',
      'shape: [5]',
    ]) {
      assert.throws(
        () => sizeOf(data),
        { code: 'bad_config', message: /expected the shape of an image/ },
        data,
      );
    }
    assert.throws(() => sizeOf('image_shape: "3,0,224"'), {
      message: /data\.image_shape: expected a whole number from 1 to 16384, got "0"/,
    });
    assert.throws(() => sizeOf('shape: [[3, 8, 8], [3, 9, 9]], type: [image, image]'), {
      message: /one size for all images/,
    });
  });

  test('may agree with imageResize but not differ from it', () => {
    assert.deepEqual(parseConfig('imageResize: 10,20\ndata: {image_shape: "3,10,20"}', 't').image, {
      height: 10,
      width: 20,
    });
    assert.throws(() => parseConfig('imageResize: 10,20\ndata: {image_shape: "3,10,21"}', 't'), {
      message: /line 2: data\.image_shape: sets the same as imageResize on line 1/,
    });
  });
});

describe('a config of an old version', () => {
  const DEFAULT_NOTES: readonly RegExp[] = [];
  const noFilter = /^no filter: .*postProcessing: topN\(1\)/;

  const files: readonly (readonly [string, Readonly<Record<string, unknown>>, readonly RegExp[]])[] = [
    ['config-v0.7.0.yaml', { modelPath: 'model' }, [noFilter]],
    ['config-v0.8.1.yaml', { modelPath: 'model' }, [noFilter]],
    [
      'config-2020-07-06-e9744e1d4.yaml',
      { modelPath: 'model', 'image.height': 224, 'image.width': 224, 'import.shapes': [[3, 224, 224]] },
      [/^data\.type \(line 18\): /, noFilter],
    ],
    ['config-v0.9.0.yaml', { modelPath: '/path/to/model' }, [/^redis\.timeout \(line 25\): /]],
    ['config-v0.10.0.yaml', {}, DEFAULT_NOTES],
    ['config-v0.11.2.yaml', {}, DEFAULT_NOTES],
    ['config-bigdl-2.x.yaml', {}, DEFAULT_NOTES],
    ['config-master.yaml', {}, DEFAULT_NOTES],
    [
      'servables.yaml',
      { jobName: 'serving_stream' },
      [
        /^modelMetaDataList\.modelName /,
        /modelVersion /,
        /redisHost, modelMetaDataList\.redisPort \(lines 6, 7\)/,
        /redisOutputQueue /,
      ],
    ],
  ];
  for (const [file, changes, expected] of files) {
    test(`${file} is read unchanged`, async (t) => {
      const bytes = await fixture(t, `fixtures/zoo/config/${file}`);
      if (!bytes) return;
      const { job, notes } = readConfigText(bytes.toString(), file);
      assert.deepEqual(job, jobWith(changes));
      assert.equal(notes.length, expected.length, notes.join('\n'));
      for (const [i, pattern] of expected.entries()) assert.match(notes[i] as string, pattern);
    });
  }

  test('config-test.yaml is refused for its unknown key alone, and read without it', async (t) => {
    const bytes = await fixture(t, 'fixtures/zoo/config/config-test.yaml');
    if (!bytes) return;
    assert.throws(() => parseConfig(bytes.toString(), 'config-test.yaml'), {
      code: 'bad_config',
      message: /^config-test\.yaml:\n {2}line 7: wrong_config: unknown key; known are modelPath, [^\n]*$/,
    });
    const { job, notes } = readConfigText(bytes.toString().replace(/^wrong_config.*$/m, ''), 'fixture');
    assert.deepEqual(job, jobWith({ modelPath: '/path', inputAlreadyBatched: true }));
    assert.deepEqual(
      notes.map((note) => note.split(' ')[0]),
      ['modelParallelism', 'secureStructStorePassword'],
    );
  });

  for (const file of ['v0.10.0', 'v0.11.2', 'bigdl-2.x', 'master']) {
    test(`config-${file}.yaml has no key, commented out, that is unknown here`, async (t) => {
      const bytes = await fixture(t, `fixtures/zoo/config/config-${file}.yaml`);
      if (!bytes) return;
      const text = bytes.toString();
      const keys = [...text.matchAll(/^# (?!default:)(\w+):?( \/path\/to\/model)?$/gm)].map(
        (match) => match[1] as string,
      );
      assert.ok(keys.length >= 14, keys.join());
      assert.deepEqual(readConfigText(keys.map((key) => `${key}:\n`).join(''), file).job, DEFAULT_JOB);
    });
  }

  test('with the fields of two models is refused: a stack serves one', () => {
    assert.throws(() => parseConfig('modelMetaDataList:\n- {modelName: a}\n- {modelName: b}\n', 'two'), {
      message: /line 1: modelMetaDataList: 2 models: a stack serves one model/,
    });
  });

  test('of 0.8 with a filter keeps it and hears no word of it', () => {
    const { job, notes } = readConfigText('data: {filter: topN(2)}\nspark: {master:}\n', 'test');
    assert.equal(job.postProcessing, 'topN(2)');
    assert.deepEqual(notes, []);
  });
});
