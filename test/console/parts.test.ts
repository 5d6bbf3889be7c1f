/** The memory of the console, and its page's handling of answers and forms, without a service and a browser. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOST_RECORDS, type PortFacts, STEP_MS, STEPS } from '../../console/api.ts';
import { barShare, indented, numberText, shownAnswer } from '../../console/try/answer.ts';
import { encodeLines, predictLines } from '../../console/try/code.ts';
import { exampleValues } from '../../console/try/example.ts';
import { bodyOf, exampleOf, fieldsOf } from '../../console/try/request.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Outcome } from '../../lib/contract/values.ts';
import { History } from '../../lib/observe/history.ts';
import { RecentRecords } from '../../lib/observe/recent.ts';
import { together } from '../../lib/observe/together.ts';
import type { FinishedRecord } from '../../lib/pipeline/decode.ts';
import { resultSink } from '../../lib/results/sink.ts';
import type { Results } from '../../lib/results/store.ts';
import { inputFacts, outputFacts, sharing } from '../../local/console/model.ts';

function openHistory() {
  const clock = { ms: 1_000 };
  const totals = { requests: 0, arrived: 0, finished: 0, failed: 0, batches: 0, batched: 0, batchMs: 0 };
  const history = new History({
    now: () => clock.ms,
    stepMs: STEP_MS,
    steps: STEPS,
    load: () => ({ workers: () => 3, depth: () => 7 }),
    totals: () => ({ ...totals }),
  });
  return { clock, totals, history };
}

const ranOne = (history: History, tookMs: number) =>
  history.recordsRan({ source: 'request', outcomes: [{ ok: true, outputs: [] }], tookMs });

test('a step is what the counters have grown by, with percentiles within 4.5 %', () => {
  const { clock, totals, history } = openHistory();
  const before = { requests: 5, arrived: 6, finished: 7, failed: 1, batches: 2, batched: 3, batchMs: 30 };
  Object.assign(totals, before);
  clock.ms += 10_000;
  assert.equal(history.steps().length, 1);
  const after = { requests: 7, arrived: 106, finished: 107, failed: 3, batches: 4, batched: 15, batchMs: 50 };
  Object.assign(totals, after);
  for (let ms = 1; ms <= 100; ms++) ranOne(history, ms);
  for (const records of [4, 8, 4]) history.runEnded({ records, tookMs: 1 });
  for (const tookMs of [30, 20]) history.stepEnded({ step: 'wait', tookMs });
  assert.equal(history.steps().length, 1);
  clock.ms += 10_000;
  const step = history.steps().at(-1);
  const { p50, p95, p99, util, ...rest } = step as NonNullable<typeof step>;
  assert.deepEqual(rest, {
    requests: 2,
    arrived: 100,
    finished: 100,
    failed: 2,
    batches: 2,
    batched: 12,
    largest: 8,
    waited: 30,
    depth: 7,
    workers: 3,
  });
  for (const [found, wanted] of [
    [p50, 50],
    [p95, 95],
    [p99, 99],
  ] as const) {
    assert.ok(Math.abs(Number(found) / wanted - 1) < 0.045, `${found} for ${wanted}`);
  }
  assert.ok(Math.abs(util - 20 / 30_000) < 1e-9);
});

test('an hour of steps is kept at any load, and an idle step shows that nothing was measured', () => {
  const { clock, totals, history } = openHistory();
  for (let step = 0; step < 500; step++) {
    totals.finished++;
    ranOne(history, 5);
    clock.ms += 10_000;
  }
  assert.equal(history.steps().length, 360);
  clock.ms += 20_000;
  const { p50, waited, finished, largest } = history.steps().at(-1) as NonNullable<
    ReturnType<History['steps']>[0]
  >;
  assert.deepEqual([p50, waited, finished, largest], [null, null, 0, 0]);
  clock.ms += 7 * 3_600_000;
  assert.equal(history.steps().length, 360);
  assert.ok(history.steps().every((step) => step.finished === 0));
});

function record(uri: string, outcome: Outcome) {
  return { id: uri, uri, enqueue: { identity: `i-${uri}`, sentAt: 1, replays: 0 }, outcome };
}

function vector(data: number[], labels?: string[]): Outcome {
  const output = {
    name: 'p',
    dtype: 'float32',
    shape: [data.length],
    data: Float32Array.from(data),
  } as const;
  return { ok: true, outputs: [{ ...output, ...(labels && { labels }) }] };
}

test('the last 200 records that were saved are remembered, with the beginning of their results', async () => {
  const recent = new RecentRecords({ most: MOST_RECORDS, now: () => 0 });
  const blocked = new ServingError('results_unavailable', 'the key holds something else');
  const results: Pick<Results, 'save'> = {
    async save(all, _model, _timers, onBlocked) {
      for (const { uri } of all) if (uri === 'lost') onBlocked?.(uri, blocked);
      return all.length;
    },
  };
  const sink = resultSink(results, { observer: together([recent], () => 0) });
  const save = (finished: readonly FinishedRecord[]) => sink.save(finished, 'v1');
  const failure = new ServingError('model_unavailable', 's3://secret cannot be read');
  assert.deepEqual(await save([record('lost', vector([1, 2])), record('a', vector([0.25, 0.75]))]), ['lost']);
  await save([record('b', { ok: false, error: failure }), record('c', vector([1, 3], ['x', '<b>y</b>']))]);
  const whole = {
    name: 'n',
    dtype: 'int64',
    shape: [1, 2],
    data: BigInt64Array.of(12_345_678_901_234_567n, 2n),
  } as const;
  await save([record('d', { ok: true, outputs: [whole] })]);
  const [d, c, b, a, ...others] = recent.list();
  assert.deepEqual(others, []);
  assert.equal(d?.result, 'n [1, 2]: 12345678901234567, 2');
  assert.equal(c?.result, 'p: <b>y</b> (3)');
  assert.deepEqual([b?.status, b?.code, b?.error], ['failed', 'model_unavailable', failure.publicMessage]);
  assert.deepEqual([a?.uri, a?.identity, a?.model, a?.result], ['a', 'i-a', 'v1', 'p: 1 (0.75)']);
  await save([record('e', vector([1e-7, 0.99999344])), record('f', vector([0.99999344, -0.5]))]);
  assert.equal(recent.list()[0]?.result, 'p: 0 (0.99999344)');
  assert.equal(recent.list()[1]?.result, 'p: 1 (0.99999344)');
  const many = Array.from({ length: 450 }, (_, i) => record(`m${i}`, vector([1, 2])));
  await save(many);
  assert.deepEqual(
    [recent.list().length, recent.list()[0]?.uri, recent.list().at(-1)?.uri],
    [200, 'm449', 'm250'],
  );
});

test('a sink that fails remembers nothing', async () => {
  const recent = new RecentRecords({ most: MOST_RECORDS, now: () => 0 });
  const results = { save: () => Promise.reject(new Error('down')) };
  const sink = resultSink(results, { observer: together([recent], () => 0) });
  await assert.rejects(sink.save([record('a', vector([1, 2]))], 'v1'), /down/);
  assert.deepEqual(recent.list(), []);
});

const NO_SETTINGS = { image: {}, inputAlreadyBatched: false };

test('an input takes pictures when its rows have one or three channels, or image settings say so', () => {
  const kindOf = (dtype: 'float32' | 'string', shape: (number | string)[], image = {}) =>
    inputFacts([{ name: 'x', dtype, shape }], { columns: {}, labels: {} }, { ...NO_SETTINGS, image })[0];
  assert.deepEqual(kindOf('float32', ['N', 3, 8, 6])?.image, { width: 6, height: 8, isGrey: false });
  assert.deepEqual(kindOf('float32', ['N', 8, 6, 1])?.image, { width: 6, height: 8, isGrey: true });
  assert.equal(kindOf('float32', ['N', 5, 7, 9])?.takes, 'numbers');
  assert.equal(kindOf('float32', ['N', 'a', 'b', 'c'])?.takes, 'numbers');
  assert.equal(kindOf('float32', ['N', 'a', 'b', 'c'], { layout: 'hwc' })?.takes, 'image');
  // Any size.
  const free = { width: 0, height: 0, isGrey: false };
  assert.deepEqual(kindOf('float32', ['N', 3, 'h', 'w'])?.image, free);
  assert.equal(kindOf('string', ['N', 1])?.takes, 'text');
  const batched = inputFacts(
    [{ name: 'x', dtype: 'int8', shape: ['N', 4] }],
    { columns: {}, labels: {} },
    {
      ...NO_SETTINGS,
      inputAlreadyBatched: true,
    },
  );
  assert.deepEqual(batched[0]?.row, ['N', 4]);
  const names = { columns: {}, labels: { y: ['a', 'b'] } };
  assert.deepEqual(outputFacts([{ name: 'y', dtype: 'float32', shape: ['N', 2] }], names)[0]?.names, [
    'a',
    'b',
  ]);
});

function port(
  name: string,
  takes: PortFacts['takes'],
  row: PortFacts['row'] = [],
  dtype = 'float32',
): PortFacts {
  return { name, takes, row, dtype, shape: ['N', ...row] };
}

test('records share runs where the rows of the model are independent', () => {
  assert.deepEqual([true, false].map(sharing), ['records share runs', 'records run one by one']);
});

test('a request has the numbers as they were typed, and names the input that is wrong', () => {
  const inputs = [
    port('n', 'numbers', [], 'int64'),
    port('"t"', 'text'),
    { ...port('o', 'text'), optional: true },
  ];
  const fields = fieldsOf(inputs, { n: { text: ' 12345678901234567890 ' }, '"t"': { text: 'a "b"' } });
  assert.equal(bodyOf(fields), String.raw`{"instances": [{"n": 12345678901234567890, "\"t\"": "a \"b\""}]}`);
  assert.throws(() => fieldsOf(inputs, { n: { text: '1,' } }), /^Error: n: a number is missing/);
  assert.throws(() => fieldsOf(inputs, { n: { text: '{1}' } }), /^Error: n: this is not JSON/);
  assert.throws(() => fieldsOf([port('p', 'image')], {}), /p: choose, drop or draw a picture/);
  assert.throws(() => fieldsOf([port('__proto__', 'numbers')], {}), /__proto__: give a value/);
  assert.equal(exampleOf({ row: [2, 'k'], dtype: 'bool' }), '[[false], [false]]');
  assert.equal(exampleOf({ row: [3, 224, 224], dtype: 'float32' }), undefined);
});

test('numbers may have commas, blanks, tabs and lines between them, with and without brackets', () => {
  const json = (text: string, row: PortFacts['row'] = [4]) =>
    fieldsOf([port('x', 'numbers', row)], { x: { text } })[0]?.json;
  const four = '[5.1, 3.5, 1.4, 0.2]';
  for (const text of [
    '5.1, 3.5, 1.4, 0.2',
    '5.1,3.5,1.4,0.2',
    '5.1 3.5  1.4 0.2',
    '5.1\t3.5\t1.4\t0.2',
    '5.1\n3.5\r\n1.4\n0.2\n',
    '5.1, 3.5 1.4\t0.2',
    '[5.1 3.5 1.4 0.2]',
    '[ 5.1, 3.5\n  1.4\t0.2 ]',
    four,
  ])
    assert.equal(json(text), four, text);
  const square = '[[1, 2], [3, 4]]';
  for (const text of ['1 2\n3 4', '1,2\n3,4', '1 2 3 4', '[1 2]\n[3 4]', '[1, 2], [3, 4]', '[[1 2]\n [3 4]]'])
    assert.equal(json(text, [2, 2]), square, text);
  assert.equal(json('1 2\n3 4', ['k', 'n']), square);
  assert.equal(json('1 2 3 4', ['k', 2]), square);
  assert.equal(json('5', []), '5');
  assert.equal(json('[0. -1. .5 +2e-3]'), '[0.0, -1.0, 0.5, 2e-3]');
  assert.equal(json('1 2', [2]), '[1, 2]');
  assert.equal(json('5,1', [2]), '[5, 1]');
  assert.equal(json('True false NULL', [3]), '[true, false, null]');
  assert.equal(json('12345678901234567890 1', [2]), '[12345678901234567890, 1]');
});

test('numbers that could be read in two ways, or do not fit, are refused with a sentence', () => {
  const read = (text: string, row: PortFacts['row'] = [4]) =>
    fieldsOf([port('x', 'numbers', row)], { x: { text } });
  for (const [text, row] of [
    ['5,1 3,5', [4]],
    ['5,1 3,5 1,4 0,2', [4]],
    ['5,1\t3,5', [4]],
    ['5,1\n3,5', [4]],
    ['[5,1 3,5]', [4]],
    ['5,1', []],
    ['5,1', [1]],
    ['1.234,5 2', [3]],
    ['1,234 2', [3]],
    ['1,234,567 2', [4]],
  ] as const)
    assert.throws(() => read(text, row), /x: is [\d.,]+ one number or more\? Write a decimal point/, text);
  for (const text of ['5,1; 3,5', '5.1; 3.5; 1; 2', 'nan 1 2 3', '1 2 ... 4', '1 2 3 −4'])
    assert.throws(() => read(text), /x: .* is not a number\. Write numbers such as/, text);
  for (const text of ['1,,3,4', ', 1, 2, 3, 4', '1\t\t3\t4', '[1 2, , 3 4]'])
    assert.throws(() => read(text), /x: a number is missing/, text);
  assert.throws(() => read('1 2 3'), /x: expected 4 numbers, such as 5\.1, 3\.5, 1\.4, 0\.2; got 3/);
  assert.throws(() => read('1 2\n3 4\n5 6', [2, 3]), /expected 3 numbers in each line/);
  assert.throws(() => read('1 2\n3', ['k', 'n']), /expected as many numbers in each line/);
  assert.throws(() => read('1 2 3 4', ['k', 'n']), /brackets around each row/);
  assert.throws(() => read('1 2 3', ['k', 2]), /a multiple of 2 numbers/);
  assert.throws(() => read('[1 2'), /the brackets do not match/);
});

test('an example fills each kind of input, and is shown as JSON where the form cannot hold it to the last digit', () => {
  const fill = (instance: string, inputs: readonly PortFacts[], isGolden = true) =>
    exampleValues({ body: `{"instances": [${instance}]}`, isGolden }, inputs, () => 'DRAWN');
  const row = { ...port('x', 'numbers', [2]), names: ['age', 'fare'] };
  assert.deepEqual(fill('{"x": [1.5, null]}', [row]), { x: { text: '[1.5,null]' } });
  assert.deepEqual(fill('{"fare": 2, "age": 1}', [row]), { x: { text: '[1,2]' } });
  assert.deepEqual(fill('[1, 2]', [row]), { x: { text: '[1,2]' } });
  assert.equal(fill('{"age": 1}', [row]), undefined);
  assert.equal(fill('{"x": [-0.0, 1]}', [row]), undefined);
  assert.equal(fill('{"x": [12345678901234567890, 1]}', [row]), undefined);
  const text = port('t', 'text', [1]);
  assert.deepEqual(fill('{"t": ["a"]}', [text]), { t: { text: 'a' } });
  assert.equal(fill('{"t": ["a", "b"]}', [text]), undefined);
  const picture = port('p', 'image', [1, 1, 1]);
  const file = { text: 'AAAA', fileName: 'example.png' };
  assert.deepEqual(fill('{"p": {"b64": "AAAA"}}', [picture]), { p: file });
  assert.deepEqual(fill('{"p": "AAAA"}', [picture]), { p: file });
  assert.deepEqual(fill('{"p": [[[1]]]}', [picture]), { p: { text: '[[[1]]]', isNumbers: true } });
  assert.deepEqual(fill('{"p": [[[1]]]}', [picture], false), { p: { ...file, text: 'DRAWN' } });
  const optional = { ...port('o', 'text'), optional: true };
  assert.deepEqual(fill('{"t": "a"}', [text, optional]), { t: { text: 'a' } });
});

test('an answer of scores becomes bars with labels, and every other answer a table or a text', () => {
  const answer = (...texts: string[]) => JSON.stringify({ predictions: texts });
  const scores = { ...port('p', 'numbers', [3]), names: ['a', '<i>b</i>', 'c'] };
  const [bars] = shownAnswer(answer('{value={"data":[0.1,0.7,0.2],"shape":[3]}}'), [scores]);
  assert.ok(bars?.kind === 'bars');
  assert.deepEqual(
    bars.bars.map(({ label }) => label),
    ['<i>b</i>', 'c', 'a'],
  );
  assert.equal(barShare(0.7, bars.bars), 0.7);
  assert.deepEqual([0.123456789, 0.99999994, 1, 1.618e-5, 123456.99999].map(numberText), [
    '0.123457',
    '0.9999999',
    '1',
    '1.618e-5',
    '123456.99999',
  ]);
  assert.equal(
    barShare(5, [
      { label: 'x', value: 5 },
      { label: 'y', value: 10 },
    ]),
    0.5,
  );
  const [ids] = shownAnswer(answer('{value={"data":[12345678901234567890,2],"shape":[2]}}'), [
    port('ids', 'numbers', [2], 'int64'),
  ]);
  assert.ok(ids?.kind === 'table');
  assert.deepEqual(ids.rows, [['12345678901234567890', '2']]);
  const [embedding] = shownAnswer(answer('{value={"data":[0.5,-0.5],"shape":[2]}}'), [
    port('embedding', 'numbers', [2]),
  ]);
  assert.ok(embedding?.kind === 'table');
  const [filtered] = shownAnswer(answer('{value=[[4,5.0],[3,4.0,"dog"]]}'), [scores]);
  assert.ok(filtered?.kind === 'bars');
  assert.deepEqual(filtered.bars, [
    { label: '4', value: 5 },
    { label: 'dog', value: 4 },
  ]);
  const two = shownAnswer(answer('{value=[{"data":[null],"shape":[1]},{"data":["x"],"shape":[1]}]}'), [
    scores,
  ]);
  assert.deepEqual(
    two.map((one) => one.kind === 'table' && one.rows),
    [[['null']], [['x']]],
  );
  assert.equal(shownAnswer(answer(...Array.from({ length: 12 }, () => '{value="t"}')), []).length, 11);
  assert.throws(() => shownAnswer('{}', []), /another form/);
  assert.equal(indented('{"a":[1,2],"b":"[\\n ]"}'), '{\n  "a": [1, 2],\n  "b": "[\\n ]"\n}');
});

test('the lines of each language quote what a person typed', () => {
  const asked = { caller: { auth: 'token' }, url: 'http://localhost:1' } as const;
  const fields = fieldsOf([port("it's", 'numbers')], { "it's": { text: 'true' } });
  assert.equal(
    predictLines('curl', asked, fields),
    [
      "curl 'http://localhost:1/predict'",
      "-H 'content-type: application/json'",
      '-H "Authorization: Bearer $TOKEN"',
      String.raw`-d '{"instances": [{"it'\''s": true}]}'`,
    ].join(' \\\n  '),
  );
  assert.match(predictLines('Python', asked, fields), /client\.predict\(\{"it's": True\}\)\.outputs/);
  assert.match(
    predictLines('TypeScript', asked, fields),
    /token: process\.env\.TOKEN[\s\S]*\{ "it's": true \}/,
  );
  const picture = fieldsOf([port('p', 'image')], { p: { text: 'AAAA', fileName: "a'b.png" } });
  assert.match(predictLines('curl', asked, picture), /base64 < 'a'\\''b\.png'/);
  const deployed = {
    caller: { auth: 'iam', stack: 'my-stack', region: 'eu-west-1' },
    url: 'https://x',
  } as const;
  assert.match(predictLines('curl', deployed, picture), /--aws-sigv4 "aws:amz:eu-west-1:execute-api"/);
  assert.match(predictLines('TypeScript', deployed, picture), /connect\(\{ stack: 'my-stack' \}\)/);
  assert.match(encodeLines('Python', asked, '{"a": null}'), /client\.encode\(\{"a": None\}\)/);
});
