/** config.yaml as we write it: spelling, values, YAML's traps, rules between keys, files. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readConfig, readConfigText } from '../../../lib/config/file.ts';
import {
  axesOf,
  DEFAULT_JOB,
  type JobConfig,
  predictTimeoutSeconds,
  visibilityTimeoutSeconds,
} from '../../../lib/config/job.ts';
import { SETTINGS } from '../../../lib/config/schema.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { parseConfig, readConfigFile } from '../../support/config.ts';
import { temporaryFolder } from '../../support/runner.ts';

const HUB_ADDRESSES = [
  'hf://org/name',
  'hf://org/name@v1.0',
  'hf://org/name@refs/pr/1',
  'hf://org/name@a%2Fb/onnx/model_quantized.onnx',
];

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

function refusal(text: string): string {
  try {
    parseConfig(text, 'test');
  } catch (error) {
    assert.ok(error instanceof ServingError);
    assert.equal(error.code, 'bad_config');
    return error.message;
  }
  assert.fail(`was accepted: ${text.slice(0, 100)}`);
}

const lineOf = (text: string) => refusal(text).split('\n')[1];

/** Values for which no rule can be made. None of them is a default. */
const CHOSEN = {
  jobName: 'job-2',
  modelPath: '/models/2',
  postProcessing: 'pickTopN(2)',
  inputAlreadyBatched: true,
  batchSize: 7,
  batching: 'never',
  inputs: { state: { batchAxis: 1 }, __proto__: { batchAxis: 'none' } },
  outputs: { 'next:0': { batchAxis: 2 } },
  threadPerModel: 2,
  processes: 3,
  modelRefreshSeconds: 5,
  resultTtlSeconds: 60,
  notify: { shop: { url: 'https://shop.example/hooks', secret: '/shop/hook-secret', include: 'result' } },
  image: {
    width: 10,
    height: 20,
    channels: 'rgb',
    layout: 'hwc',
    scale: 0.5,
    mean: [1, 2.5, -3],
    std: [1e-7],
  },
  import: {
    inputs: { 'data:0': ['N', 3, 224, 224] },
    outputs: ['prob'],
    constants: { keep_prob: 1 },
    signature: 'predict',
    tags: ['serve', 'gpu'],
  },
  queue: {
    batchSize: 100,
    windowSeconds: 3,
    maximumConcurrency: 4,
    maxReceiveCount: 2,
    retentionSeconds: 7_200,
    recordTtlSeconds: 600,
    highShare: 0.25,
  },
  function: { memoryMB: 4096, timeoutSeconds: 20 },
  http: {
    tokenBucketEnabled: true,
    tokensPerSecond: 9,
    tokenAcquireTimeoutMs: 0,
    timeoutMs: 12_000,
    corsOrigins: ['https://example.com', 'http://localhost:3000'],
    allowedHosts: ['ml.example.com', 'box'],
  },
  capture: { share: 0.25, include: ['*', 'review'], leaveOut: ['name'] },
  release: { maxFlips: 0.005 },
  worker: {
    class: 'package.server.Worker',
    modelName: 'model.hdf5',
    numWorker: 3,
    batchGroupTimeout: 6,
    deviceMap: [0, -1],
    gpuMemoryFraction: 0.25,
    protocol: 'npy',
    tmpFolder: '/var/tmp',
    logDir: 'logs',
    logName: 'own',
    verbose: true,
    predictTimeout: 1_000,
    startTimeout: 2_000,
    stopTimeout: 0,
    maxBatches: 7,
    memoryMB: 4_096,
    python: 'venv/bin/python',
    allowImgHost: ['images.example.com', 'box:8443'],
    numWorkerExpanded: 4,
    deviceToExpand: -1,
    busyUtilThreshold: 0.5,
    durationExpand: 5_000,
    durationSqueeze: 6_000,
  },
  jobs: { maximumConcurrency: 3, buckets: ['lake'] },
  budget: { perDay: 2.5, perMonth: 50 },
  models: { folder: 'nets', memoryMB: 512, pinned: ['fraud'] },
} satisfies { readonly [Key in keyof JobConfig]: Partial<JobConfig[Key]> };

const WHOLE_JOB = wholeJob();

/** CHOSEN, and for each other setting with a default the other word, or the end of its range that is not the default. */
function wholeJob(): object {
  const job: Record<string, unknown> = structuredClone(CHOSEN);
  for (const [path, { expected, defaultValue }] of SETTINGS) {
    const [group = '', key = group] = path.split('.');
    const place = path === key ? job : (job[group] as Record<string, unknown>);
    if (defaultValue === undefined || Object.hasOwn(place, key)) continue;
    const ends = /^a whole number from (\d+) to (\d+)/.exec(expected)?.slice(1).map(Number);
    const others = typeof defaultValue === 'boolean' ? [true, false] : ends;
    const chosen = others?.find((value) => value !== defaultValue);
    place[key] = chosen ?? assert.fail(`CHOSEN needs a value of ${path}`);
  }
  return job;
}

describe('a config', () => {
  test('can say everything that a job is, and nothing is lost', () => {
    assert.deepEqual(parseConfig(JSON.stringify(WHOLE_JOB), 'test'), WHOLE_JOB);
    assert.deepEqual(parseConfig(JSON.stringify(DEFAULT_JOB), 'test'), DEFAULT_JOB);
    const paths = (job: object) =>
      Object.entries(job).flatMap(([key, value]) =>
        [
          'image',
          'import',
          'models',
          'queue',
          'function',
          'http',
          'budget',
          'capture',
          'release',
          'worker',
        ].includes(key)
          ? Object.entries(value as object).map(([inner, leaf]) => [`${key}.${inner}`, leaf] as const)
          : [[key, value as unknown] as const],
      );
    const defaults = new Map(paths(DEFAULT_JOB));
    for (const [path, value] of paths(WHOLE_JOB)) assert.notDeepEqual(value, defaults.get(path), path);
  });

  test('that is empty, a comment, or keys without values is all defaults', () => {
    for (const text of [
      '',
      '\n',
      '# nothing\n',
      '---\n',
      '---\n...\n',
      '~',
      'jobName:\nqueue:\nimage: ~\n',
    ]) {
      assert.deepEqual(readConfigText(text, 'test'), { job: DEFAULT_JOB, notes: [] }, JSON.stringify(text));
    }
  });

  test('names every problem in one message, by line, with the name of the file', () => {
    assert.equal(
      refusal('batchSize: 0\njobNmae: x\nqueue:\n  windowSeconds: 301\n  batchsize: ten\n'),
      [
        'test:',
        '  line 1: batchSize: expected a whole number from 1 to 10000, got "0"',
        '  line 2: jobNmae: unknown key; did you mean jobName?',
        '  line 4: queue.windowSeconds: expected a whole number from 0 to 300, got "301"',
        '  line 5: queue.batchsize: expected a whole number from 1 to 10000, got "ten"',
      ].join('\n'),
    );
  });

  test('shows 50 problems and counts the others', () => {
    const lines = refusal(Array.from({ length: 80 }, (_, i) => `what${i}: 1\n`).join('')).split('\n');
    assert.equal(lines.length, 52);
    assert.equal(lines[51], '  and 30 more');
  });
});

describe('a key', () => {
  test('is taken in any case and with any _ and -', () => {
    for (const key of ['threadPerModel', 'thread_per_model', 'THREAD-PER-MODEL', 'threadpermodel']) {
      assert.equal(parseConfig(`${key}: 1`, 'test').threadPerModel, 1, key);
    }
    assert.equal(parseConfig('Queue:\n  max_receive_count: 3', 'test').queue.maxReceiveCount, 3);
    assert.equal(readConfigText('redisMaxmemory: 8g', 'test').notes.length, 1);
  });

  test('that comes twice is an error, in one spelling or in two, with a value or without', () => {
    assert.equal(
      lineOf('jobName: a\njobName: a\n'),
      '  line 2: jobName: the same key as jobName on line 1; keep one',
    );
    assert.equal(
      lineOf('threadPerModel: 1\nbatchSize: 2\nthread_per_model:\n'),
      '  line 3: thread_per_model: the same key as threadPerModel on line 1; keep one',
    );
    assert.match(lineOf('queue: {batchSize: 2}\nQueue: {}') ?? '', /line 2: Queue: the same key as queue/);
    assert.match(lineOf('queue: {batchSize: 2, BatchSize: 2}') ?? '', /queue\.BatchSize: the same key/);
  });

  test('that sets what another key sets is an error only when they differ', () => {
    assert.equal(parseConfig('jobName: a\nmodel: {name: a}', 'test').jobName, 'a');
    assert.equal(
      lineOf('jobName: a\nmodel: {name: b}'),
      '  line 2: model.name: sets the same as jobName on line 1; keep one',
    );
    assert.match(lineOf('params: {batch_size: 4, core_number: 8}') ?? '', /core_number: sets the same as/);
    assert.match(lineOf('top_n: 4') ?? '', /did you mean params\.top_n\?/);
    assert.match(
      lineOf('imageResize: 8,8\nimage: {width: 9, height: 8}') ?? '',
      /image\.width: sets the same/,
    );
  });

  const meant: readonly (readonly [text: string, key: string, nested?: string])[] = [
    ['jobname2: x', 'jobName'],
    ['modle: {path: x}', 'model'],
    ['queue: {windowsSeconds: 1}', 'queue.windowSeconds'],
    ['memoryMB: 1', 'function.memoryMB', 'function: {memoryMB: …}'],
    ['params: {threadPerModel: 1}', 'threadPerModel'],
    ['path: x', 'modelPath', 'model: {path: …}'],
    ['filter: topN(1)', 'postProcessing', 'data: {filter: …}'],
    ['src: localhost:6379', 'data.src', 'data: {src: …}'],
    ['core_number: 4', 'batchSize', 'params: {core_number: …}'],
    ['CoreNumber: 4', 'batchSize', 'params: {core_number: …}'],
    ['top_n: 4', 'params.top_n', 'params: {top_n: …}'],
    ['spark: {shape: 3}', 'data.shape', 'data: {shape: …}'],
    ['redisURI: x', 'redisUrl'],
    ['http: {tokensPerSec: 1}', 'http.tokensPerSecond'],
  ];
  for (const [text, key, nested] of meant) {
    test(`in ${JSON.stringify(text)} was probably meant to be ${key}`, () => {
      const form = nested === undefined ? '' : ` The nested form is "${nested}"`;
      assert.ok(lineOf(text)?.endsWith(`unknown key; did you mean ${key}?${form}`), lineOf(text));
    });
  }

  test('without a blank behind its colon is said to lack it, wherever it stands', () => {
    for (const text of [
      'threadPerModel:4',
      'jobName: a\nredisUrl:localhost:6379',
      'thread_per_model:4\njobName: a',
      '"modelPath":/a',
      'modelPath:"/a"',
      'modelPath :/a',
      'image:torch',
      'queue:\n  batchSize:10',
      'queue:\n  batchSize: 10\n  windowSeconds:1',
      'model:\n  path:s3://bucket/prefix',
      'inputs:{a: {batchAxis: 1}}',
    ]) {
      assert.match(refusal(text), /; put a blank behind the colon, as in "modelPath: model"$/, text);
    }
    assert.doesNotMatch(refusal('http://localhost:6379'), /blank/);
    assert.doesNotMatch(refusal('a text'), /blank/);
  });

  test('that resembles nothing brings the list of what there is', () => {
    assert.match(
      lineOf('zzzzzzz: 1') ?? '',
      /known are modelPath, jobName, .*, image, import, queue, jobs, function, http, budget, models, capture, release, worker$/,
    );
    assert.match(lineOf('function: {zzzzzzz: 1}') ?? '', /known are memoryMB, timeoutSeconds$/);
  });

  test('with a dot in it gets the advice to put it under its group', () => {
    assert.match(lineOf('queue.batchSize: 5') ?? '', /write batchSize on a line of its own under queue:$/);
  });

  test('of a group must have keys under it', () => {
    assert.equal(
      lineOf('function: 5'),
      '  line 1: function: expected keys under it (memoryMB, timeoutSeconds), got text',
    );
    assert.match(lineOf('queue: [1]') ?? '', /expected keys under it .* got a list/);
    assert.match(lineOf('modelMetaDataList: []') ?? '', /expected keys under it .* got a list/);
    assert.match(lineOf('jobName: {a: b}') ?? '', /jobName: expected text, got keys with values/);
  });

  test('named like a part of every JavaScript object is an unknown key', () => {
    for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype']) {
      assert.ok(lineOf(`${key}: {jobName: x}`)?.startsWith(`  line 1: ${key}: unknown key`), key);
      assert.ok(lineOf(`queue: {${key}: 1}`)?.startsWith(`  line 1: queue.${key}: unknown key`), key);
    }
    assert.equal(({} as Record<string, unknown>)['jobName'], undefined);
  });
});

describe('a value', () => {
  test('may be quoted, for any value', () => {
    const job = parseConfig('batchSize: "4"\nqueue: {windowSeconds: \'0\'}\nimage: {scale: "0.5"}', 'test');
    assert.deepEqual([job.batchSize, job.queue.windowSeconds, job.image.scale], [4, 0, 0.5]);
  });

  test('is true or false as YAML 1.1 and 1.2 write it', () => {
    for (const word of ['true', 'True', 'TRUE', '"true"', 'yes', 'Yes', 'on', '!!bool true']) {
      assert.equal(parseConfig(`inputAlreadyBatched: ${word}`, 'test').inputAlreadyBatched, true, word);
    }
    for (const word of ['false', '"False"', 'no', 'OFF']) {
      const text = `http: {tokenBucketEnabled: ${word}}`;
      assert.equal(parseConfig(text, 'test').http.tokenBucketEnabled, false, word);
    }
    for (const word of ['1', '"0"', 'y', '""', 'truee', '[true]'])
      assert.match(refusal(`inputAlreadyBatched: ${word}`), /expected true or false, got/);
  });

  test('of an empty, null or ~ key is the default; a quoted null is a text', () => {
    for (const word of ['', 'null', 'Null', '~', '# nothing'])
      assert.equal(parseConfig(`jobName: ${word}`, 'test').jobName, 'serving_stream');
    assert.equal(parseConfig('jobName: "null"', 'test').jobName, 'null');
  });

  test('that is a number for YAML stays the text that was written where a text is meant', () => {
    for (const word of ['123456', '007', '1e3', '0x10', '1_000', 'true', 'no'])
      assert.equal(parseConfig(`jobName: ${word}`, 'test').jobName, word);
    assert.equal(parseConfig('modelPath: 1.0', 'test').modelPath, '1.0');
  });

  test('is a number only in decimal digits', () => {
    for (const word of ['4', '4.0', '+4', '0.4e1'])
      assert.equal(parseConfig(`batchSize: ${word}`, 't').batchSize, 4);
    for (const word of [
      '0x4',
      '0o4',
      '1_0',
      '1,5',
      '4.5',
      '.inf',
      '.nan',
      '1e999',
      '""',
      'four',
      '[4]',
      '-1',
    ])
      assert.match(refusal(`batchSize: ${word}`), /batchSize: expected a whole number from 1 to 10000, got/);
    assert.match(refusal('image: {scale: NaN}'), /image\.scale: expected a number, got "NaN"/);
  });

  test('is cut in messages', () => {
    assert.ok(refusal(`batchSize: ${'x'.repeat(10_000)}`).length < 300);
    assert.ok(refusal(`${'x'.repeat(10_000)}: 1`).length < 400);
    assert.ok(refusal(`image: {mean: [${'x,'.repeat(5_000)}]}`).length < 300);
  });

  test('for each channel is one number or three, and a standard deviation is never 0', () => {
    assert.deepEqual(parseConfig('image: {mean: 0.5, std: [1, 2, 3]}', 't').image, {
      mean: [0.5],
      std: [1, 2, 3],
    });
    assert.match(
      refusal('image: {mean: [1, 2]}'),
      /image\.mean: expected a number, or a list of 3, got \["1", "2"\]/,
    );
    assert.match(refusal('image: {std: [1, 0, 1]}'), /image\.std: expected a number that is not 0/);
    assert.match(refusal('image: {mean: []}'), /image\.mean: expected/);
  });

  test('of inputs and outputs is an axis for each name', () => {
    const text =
      'inputs:\n  state: {batch_axis: 1}\n  "no": {batchAxis: none}\noutputs: {y:0: {batchAxis: 0}}';
    assert.deepEqual(axesOf(parseConfig(text, 't')), {
      batchAxes: { state: 1, no: 'none' },
      outputAxes: { 'y:0': 0 },
    });
    assert.deepEqual(axesOf(parseConfig('inputs:\noutputs: {}', 't')), { batchAxes: {}, outputAxes: {} });
    for (const [wrong, message] of [
      ['inputs: [state]', 'inputs: expected axes by name: {state: {batchAxis: 1}, rate: {batchAxis: none}}'],
      ['inputs: {state: 1}', 'inputs: expected axes by name'],
      ['inputs: {state: {batchAxes: 1}}', 'inputs: state: batchAxes: unknown key; did you mean batchAxis?'],
      ['outputs: {y: {shape: 1}}', 'outputs: y: shape: unknown key; known is batchAxis'],
      [
        'inputs: {x: {batchAxis: -1}}',
        'inputs: x: batchAxis: expected a whole number from 0 to 15, or none, got "-1"',
      ],
      ['inputs: {x: {batchAxis: 16}}', 'inputs: x: batchAxis: expected a whole number from 0 to 15'],
      ['inputs: {x: {batchAxis: 1.5}}', 'inputs: x: batchAxis: expected a whole number from 0 to 15'],
      [
        'inputs: {x: {batchAxis: }}',
        'inputs: x: batchAxis: expected a whole number from 0 to 15, or none, got nothing',
      ],
      ['inputs: {x: {}}', 'inputs: x: batchAxis: expected a whole number from 0 to 15, or none, got nothing'],
      ['inputs: {x: {batchAxis: 1, batch_axis: 1}}', 'inputs: x: batchAxis is there twice; keep one'],
      ['inputs:\n  x: {batchAxis: 1}\n  x: {batchAxis: 2}', 'inputs: x is there twice; keep one'],
      ['input: {x: {batchAxis: 1}}', 'input: unknown key; did you mean inputs?'],
    ]) {
      assert.ok(refusal(wrong as string).includes(message as string), refusal(wrong as string));
    }
  });

  test('of modelPath is a folder on this machine or an address in S3 or of the hub, never empty, never another address', () => {
    for (const path of ['s3://bucket/model', 's3://bucket', 's3://bucket/a b/model.pt', ...HUB_ADDRESSES])
      assert.equal(parseConfig(`modelPath: ${path}`, 't').modelPath, path);
    for (const path of [
      '""',
      's3://Bucket/model',
      's3://',
      'hdfs://host/model',
      'hf://name',
      'hf://org/name@',
      'hf://datasets/org/name',
      'hf://org/../name',
      'hf://org/name/../model.onnx',
      '[a]',
      '"a\\0b"',
      '"s3://bucket/a\\0"',
    ])
      assert.match(refusal(`modelPath: ${path}`), /modelPath: expected the path of a folder on this machine/);
  });

  test('modelPath of a worker is not an address of the hub', () => {
    assert.match(
      refusal('modelPath: hf://org/name\nworker: {class: a.B}'),
      /line 1: modelPath: of the hub only what an import needs is copied/,
    );
  });

  test('of imageResize is a height and a width', () => {
    assert.deepEqual(parseConfig('imageResize: 10,20', 't').image, { height: 10, width: 20 });
    assert.deepEqual(parseConfig('imageResize: [10, 20]', 't').image, { height: 10, width: 20 });
    assert.deepEqual(parseConfig('imageResize: ""', 't').image, {});
    for (const value of ['10', '10x20', '1,2,3', '[1]', '{a: 1}'])
      assert.match(refusal(`imageResize: ${value}`), /imageResize: expected "height,width", got/);
    assert.match(
      refusal('imageResize: 0,20'),
      /imageResize: expected a whole number from 1 to 16384, got "0"/,
    );
  });

  test('of jobName and postProcessing is checked as they are used', () => {
    assert.match(refusal('jobName: a:b'), /jobName: job name "a:b": expected 1 to 60 letters/);
    assert.match(refusal('jobName: ""'), /jobName: job name ""/);
    assert.match(refusal('postProcessing: topN(0)'), /postProcessing: filter "topN\(0\)": expected/);
    assert.match(refusal('params: {top_n: some}'), /params\.top_n: expected a whole number >= 1, got "some"/);
  });

  test('of allowedHosts is one name or a list, in lower case and without port or pattern', () => {
    const read = (value: string) => parseConfig(`http: {allowedHosts: ${value}}`, 'test').http.allowedHosts;
    assert.deepEqual(read('ml.example.com'), ['ml.example.com']);
    assert.deepEqual(read('[a, 192.0.2.7]'), ['a', '192.0.2.7']);
    for (const value of ['a:80', 'A', 'https://a', '"*"', '"*.a"', '""', '[a, [b]]', '.a', 'a/b', '"a b"'])
      assert.throws(() => read(value), { message: /http\.allowedHosts: expected at most 20 names/ }, value);
    assert.throws(() => read(JSON.stringify(Array(21).fill('a'))), { code: 'bad_config' });
  });

  test('of corsOrigins is one origin or a list, without path or trailing slash', () => {
    const read = (value: string) => parseConfig(`http: {corsOrigins: ${value}}`, 'test').http.corsOrigins;
    assert.deepEqual(read('https://example.com'), ['https://example.com']);
    assert.deepEqual(read('["*"]'), ['*']);
    assert.deepEqual(read('[]'), []);
    for (const value of [
      'https://example.com/',
      'example.com',
      'null',
      '"https://*.example.com/x"',
      '[[a]]',
      'file:///x',
    ]) {
      if (value === 'null') assert.deepEqual(read(value), []);
      else
        assert.throws(
          () => read(value),
          { message: /http\.corsOrigins: expected at most 20 origins/ },
          value,
        );
    }
    assert.throws(() => read(JSON.stringify(Array(21).fill('https://example.com'))), { code: 'bad_config' });
    assert.throws(() => read('["*", "https://example.com"]'), { message: /"\*" is every origin/ });
  });
});

describe('YAML', () => {
  test('with Windows lines and a byte order mark is read as any other', () => {
    const job = parseConfig('\uFEFF# config\r\njobName: a\r\nqueue:\r\n  batchSize: 3\r\n', 'test');
    assert.deepEqual([job.jobName, job.queue.batchSize], ['a', 3]);
  });

  const broken: readonly (readonly [string, string, RegExp])[] = [
    ['a list', '- jobName: x', /expected keys with values, e\.g\. "modelPath: model", got a list/],
    ['a text', 'jobName', /expected keys with values, .* got text/],
    ['a missing space', 'jobName:x', /expected keys with values, .* got text/],
    ['a second document', 'jobName: a\n---\njobName: b\n', /line 2: a second YAML document starts here/],
    ['a tab', 'queue:\n\tbatchSize: 1\n', /line 2: not YAML: Tabs are not allowed as indentation/],
    [
      'keys without a blank behind the colon',
      'jobName: a\nthreadPerModel:4\n',
      /line 2: not YAML: .*; put a blank behind the colon, as in "modelPath: model"$/,
    ],
    [
      'one in a group',
      'image:\n  width:3\n',
      /line 1: image: expected .*got text; put a blank behind the colon/,
    ],
    ['one in braces', '{jobName:a}', /line 1: "jobName:a": unknown key; put a blank behind the colon/],
    ['one in quotes', '"jobName":a\n"modelPath":b', /line 1: not YAML: .*; put a blank behind the colon/],
    ['an address alone', 's3://bucket/model', /got text$/],
    ['a key without a colon', 'jobName: a\nthreadPerModel\n', /line 2: not YAML: a key without ":"/],
    [
      'a key without a colon at the top',
      'threadPerModel\njobName: a\n',
      /line 1: not YAML: a key without ":"/,
    ],
    ['an open quote', 'jobName: "a\n', /not YAML: Missing closing "quote/],
    ['an open bracket', 'image: {mean: [1, 2', /not YAML: /],
    ['a key that is a list', '? [a]\n: b', /line 1: a key is one word/],
    ['a key that is missing', ': b', /line 1: a key is one word/],
    [
      'an alias of nothing',
      'jobName: *x',
      /line 1: an alias of nothing; a text that starts with \* needs quotes/,
    ],
    ['an unknown tag', 'jobName: !secret x', /line 1: a tag that means nothing here/],
    ['a binary tag', 'jobName: !!binary aGk=', /line 1: a tag that means nothing here/],
    ['a tagged map', 'queue: !!set {a}', /line 1: a tag that means nothing here/],
    ['a circle of aliases', 'image: &a {mean: *a}', /an alias of nothing|nested deeper than 8 levels/],
    ['deep nesting', `image: {mean: ${'['.repeat(20)}${']'.repeat(20)}}`, /nested deeper than 8 levels/],
  ];
  for (const [what, text, expected] of broken) {
    test(`with ${what} is refused in words that say so`, () => assert.match(refusal(text), expected));
  }

  test('aliases work, and a bomb of them does not go off', () => {
    const job = parseConfig('image:\n  mean: &three [1, 2, 3]\n  std: *three\n', 'test');
    assert.deepEqual(job.image.std, [1, 2, 3]);
    const bomb = ['a: &a0 [x, x]'];
    for (let i = 1; i < 30; i++) bomb.push(`a${i}: &a${i} [*a${i - 1}, *a${i - 1}]`);
    assert.match(refusal(bomb.join('\n')), /over the limit of 100 YAML aliases|nested deeper than 8 levels/);
    assert.match(refusal(`a: &a x\nb: [${'*a, '.repeat(101)}]`), /over the limit of 100 YAML aliases/);
  });

  test('a merge key does not bypass the check of keys', () => {
    assert.match(refusal('%YAML 1.1\n---\nbase: &b {batchSize: 0}\n<<: *b\n'), /"<<": unknown key/);
  });

  test('over 1 MiB, or with more than 20,000 tokens, is refused before it is parsed', () => {
    assert.match(refusal(`# ${'x'.repeat(1024 * 1024)}`), /over the limit of 1048576 bytes/);
    assert.deepEqual(parseConfig(`# ${'x'.repeat(1024 * 1024 - 2)}`, 'test'), DEFAULT_JOB);
    assert.match(refusal('['.repeat(1_000_000)), /over the limit of 20000 YAML tokens/);
  });

  test('that is broken beside a password does not show the password', () => {
    for (const value of [
      '"hunter2',
      '"x" hunter2',
      '*hunter2',
      '!hunter2 x',
      '{hunter2',
      '@hunter2',
      'x: hunter2',
      '|hunter2',
      '[a, b] hunter2',
      '"\\hunter2"',
      '%hunter2',
      '"a\n  b"hunter2',
    ]) {
      const message = refusal(`jobName: x\nredisSecureTrustStorePassword: ${value}\n`);
      assert.doesNotMatch(message, /hunter/, value);
    }
  });
});

describe('between keys', () => {
  test('more than 10 records of a batch need a window', () => {
    assert.match(
      refusal('queue: {batchSize: 11}'),
      /line 1: queue\.batchSize: 11 needs queue\.windowSeconds >= 1/,
    );
    assert.equal(parseConfig('queue: {batchSize: 11, windowSeconds: 1}', 't').queue.batchSize, 11);
    assert.equal(parseConfig('queue: {batchSize: 10}', 't').queue.batchSize, 10);
  });

  test('a width needs a height', () => {
    assert.match(refusal('image: {width: 5}'), /image\.width: image\.width and image\.height go together/);
    assert.match(refusal('image:\n  height: 5'), /line 2: image\.height: /);
  });

  test('a grey image has one mean and one standard deviation', () => {
    const message = refusal('image: {channels: grey, mean: [1, 2, 3], std: [1, 2, 3]}');
    assert.match(message, /image\.mean: 3 numbers do not fit[\s\S]*image\.std: 3 numbers do not fit/);
  });

  test('waiting for a token ends before the request does', () => {
    const text = (wait: number) =>
      `http: {tokenBucketEnabled: true, tokenAcquireTimeoutMs: ${wait}, timeoutMs: 1500}`;
    // Lambda counts whole seconds: 1500 ms are 2 s.
    assert.match(refusal(text(2_000)), /2000 ms of waiting leave nothing of the 2000 ms/);
    assert.equal(parseConfig(text(1_999), 't').http.tokenAcquireTimeoutMs, 1_999);
    assert.match(
      refusal('function: {timeoutSeconds: 3}\nhttp: {tokenBucketEnabled: true, tokenAcquireTimeoutMs: 3000}'),
      /leave nothing of the 3000 ms/,
    );
  });

  test('POST /predict ends before API Gateway gives up, after 30 s', () => {
    assert.match(
      refusal('http: {timeoutMs: 30000}'),
      /http\.timeoutMs: expected a whole number from 1 to 29000/,
    );
    assert.equal(predictTimeoutSeconds(parseConfig('function: {timeoutSeconds: 900}', 't')), 29);
    assert.equal(predictTimeoutSeconds(parseConfig('function: {timeoutSeconds: 5}', 't')), 5);
    assert.equal(predictTimeoutSeconds(parseConfig('http: {timeoutMs: 29000}', 't')), 29);
    assert.equal(predictTimeoutSeconds(parseConfig('http: {timeoutMs: 1}', 't')), 1);
  });

  test('the longest function and window keep the visibility timeout below the 43,200 s of SQS', () => {
    const longest = parseConfig('function: {timeoutSeconds: 900}\nqueue: {windowSeconds: 300}', 'test');
    assert.ok(visibilityTimeoutSeconds(longest) <= 43_200);
    assert.match(refusal('function: {timeoutSeconds: 901}'), /from 3 to 900/);
    assert.match(refusal('queue: {windowSeconds: 301}'), /from 0 to 300/);
  });

  test('a function has the time to start the process in which it runs records that came back', () => {
    assert.equal(parseConfig('function: {timeoutSeconds: 3}', 't').function.timeoutSeconds, 3);
    assert.match(
      refusal('function: {timeoutSeconds: 2}'),
      /line 1: function\.timeoutSeconds: expected a whole number from 3 to 900 \(records that came back run in a process of their own, which has to start first\), got "2"/,
    );
  });

  test('settings of a token bucket that is off are noted', () => {
    const { notes } = readConfigText('tokensPerSecond: 5\nhttp: {tokenAcquireTimeoutMs: 5}', 'test');
    assert.deepEqual(notes, [
      'tokensPerSecond (line 1): no effect without http.tokenBucketEnabled: true',
      'http.tokenAcquireTimeoutMs (line 2): no effect without http.tokenBucketEnabled: true',
    ]);
    assert.deepEqual(readConfigText('tokensPerSecond: 5\ntokenBucketEnabled: yes', 'test').notes, []);
  });

  test('a worker neither captures nor is tried', () => {
    const worker = 'worker: {class: digits.Digits}';
    const { notes } = readConfigText(`capture: {share: 5%}\nrelease: {trials: true}\n${worker}`, 'test');
    assert.deepEqual(
      notes.map((note) => note.replace(/^(\S+).*: no effect/, '$1: no effect')),
      [
        'capture.share: no effect with a worker: only what a model answers is captured',
        'release.trials: no effect with a worker, whose versions are not tried',
      ],
    );
  });

  test('more threads than vCPUs are noted', () => {
    assert.match(readConfigText('threadPerModel: 8', 't').notes[0] as string, /8 threads, but .* 1\.0 vCPUs/);
    assert.deepEqual(readConfigText('threadPerModel: 4\nfunction: {memoryMB: 7076}', 't').notes, []);
    assert.deepEqual(readConfigText('threadPerModel: 1\nfunction: {memoryMB: 128}', 't').notes, []);
  });
});

describe('a config file', () => {
  test('is read with its notes, and readConfigFile and parseConfig give the same job', async (t) => {
    const path = join(await temporaryFolder(t), 'config.yaml');
    await writeFile(path, 'jobName: a\nredisUrl: localhost:6379\n');
    const { job, notes } = readConfig(path);
    assert.deepEqual(job, { ...DEFAULT_JOB, jobName: 'a' });
    assert.equal(notes.length, 1);
    assert.deepEqual(readConfigFile(path), job);
    assert.deepEqual(parseConfig('jobName: a', 'test'), job);
  });

  test('with a problem is named by its path', async (t) => {
    const path = join(await temporaryFolder(t), 'mine.yaml');
    await writeFile(path, 'jobNmae: a\n');
    assert.throws(
      () => readConfig(path),
      (error: ServingError) => error.message.startsWith(`${path}:\n`),
    );
  });

  test('that is missing, a folder, not UTF-8 or over 1 MiB is refused with the reason', async (t) => {
    const folder = await temporaryFolder(t);
    const write = async (name: string, content: Uint8Array | string) => {
      await writeFile(join(folder, name), content);
      return join(folder, name);
    };
    await mkdir(join(folder, 'folder'));
    const cases = [
      [join(folder, 'absent'), /config .*absent cannot be read: ENOENT/],
      [join(folder, 'folder'), /config .*folder cannot be read: EISDIR/],
      [
        await write('utf16', Buffer.from('\uFEFFjobName: a', 'utf16le')),
        /utf16: is UTF-16; save it as UTF-8/,
      ],
      [
        await write('latin1', Buffer.from('jobName: ä', 'latin1')),
        /latin1: line 1 is not valid UTF-8; save it as UTF-8/,
      ],
      // 1 MiB and one byte cuts the last letter in two.
      [await write('large', `# ${'ä'.repeat(600_000)}`), /large: over the limit of 1048576 bytes/],
    ] as const;
    for (const [path, message] of cases)
      assert.throws(() => readConfig(path), { code: 'bad_config', message });
    const edge = await write('edge', `#${' '.repeat(1024 * 1024 - 1)}`);
    assert.deepEqual(readConfigFile(edge), DEFAULT_JOB);
    const bom = await write('bom', '\uFEFFjobName: a\r\n');
    assert.equal(readConfigFile(bom).jobName, 'a');
  });
});

test('no function loads more of lib/config than the job, its defaults and the environment', async () => {
  const seen = new Set<string>();
  const visit = async (file: string): Promise<void> => {
    if (seen.has(file)) return;
    seen.add(file);
    const code = await readFile(join(ROOT, file), 'utf8');
    const targets = [
      ...code.matchAll(/^(?:import|export)\s(?!type\s)[^;]*?'(\.[^']+\.ts)'|\bimport\('(\.[^']+\.ts)'\)/gm),
    ];
    for (const [, from, dynamic] of targets) {
      await visit(relative(ROOT, resolve(ROOT, dirname(file), (from ?? dynamic) as string)));
    }
  };
  for (const name of await readdir(join(ROOT, 'functions'))) await visit(join('functions', name));
  assert.deepEqual([...seen].filter((file) => file.startsWith('lib/config/')).toSorted(), [
    'lib/config/defaults.ts',
    'lib/config/environment.ts',
    'lib/config/job.ts',
  ]);
});
