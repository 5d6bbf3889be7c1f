import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { decodeInstances } from '../../../../lib/codecs/instances.ts';
import { openNumbers, parseInstances } from '../../../../lib/codecs/numbers/parse.ts';
import { contentOf, JsonNumbers, type JsonValue } from '../../../../lib/contract/json-numbers.ts';
import { jsonTensor } from '../../../../lib/pipeline/bind/numbers.ts';
import { compareReaders, differing } from '../../../support/json-numbers.ts';
import { BUILT, buildScanner } from '../../../support/scanner.ts';

test('mutated bodies have the answers and the errors that JSON.parse alone gives them', async () => {
  const { different, cut } = await compareReaders(7, 900);
  assert.deepEqual(different, []);
  assert.ok(cut > 100, `an array was cut out of ${cut} of them`);
});

test('numbers of many forms are read to the last bit as JSON.parse reads them', async () => {
  assert.equal(await differing(11, 100_000), 0);
});

test('the scanner in the repository is what its source makes', async () => {
  assert.equal(readFileSync(BUILT, 'utf8'), await buildScanner());
});

test('an array across windows of the text is whole, and so is a number longer than a window', async () => {
  const { Scanner } = await import('../../../../lib/codecs/numbers/scan.ts');
  const scanner = await Scanner.open();
  for (const digits of [1, 17, 100, 16_300, 40_000]) {
    const texts = Array.from({ length: 9_000 }, (_, i) =>
      i === 4_000 ? `0.${'1'.repeat(digits)}` : `${i}.5`,
    );
    const text = `[[${texts.join('],\n [')}]]`;
    scanner.text = `{"x": ${text}}`;
    const found = scanner.read(6);
    assert.ok(found?.numbers instanceof JsonNumbers);
    assert.deepEqual(found.numbers.shape, [9_000, 1]);
    assert.deepEqual([found.count, found.end], [9_000, 6 + text.length]);
    assert.deepEqual(
      found.numbers.parts('float64').flatMap((part) => [...part]),
      texts.map(Number),
    );
    assert.deepEqual(found.numbers.nested(), JSON.parse(text));
  }
});

test('a large array has all digits of its integers', async () => {
  await openNumbers();
  const numbers = Array.from({ length: 2_000 }, (_, i) => 2n ** 62n + BigInt(i));
  const body = `{"instances":[{"x":[${numbers.join(',')}]}]}`;
  const content = contentOf(decodeInstances(body, parseInstances)[0]?.get('x') as JsonValue);
  assert.deepEqual(jsonTensor(content, 'int64').data, BigInt64Array.from(numbers));
  assert.deepEqual(jsonTensor(content, 'float64').data, Float64Array.from(numbers, Number));
});

test('an array of many parts is one tensor, even if another dtype was wanted before', async () => {
  await openNumbers();
  const numbers = Array.from({ length: 3 * 50_000 }, (_, i) => i * 7);
  const rows = [0, 1, 2].map((row) => numbers.slice(row * 50_000, (row + 1) * 50_000));
  const body = JSON.stringify({ instances: [{ x: rows }] });
  for (const dtype of ['float32', 'float64', 'float32', 'int32', 'int64', 'float32', 'float32'] as const) {
    const content = contentOf(decodeInstances(body, parseInstances)[0]?.get('x') as JsonValue);
    assert.ok(content instanceof JsonNumbers);
    for (const again of [dtype, 'float32', 'float64'] as const) {
      const { shape, data } = jsonTensor(content, again);
      assert.deepEqual([again, shape], [again, [3, 50_000]]);
      assert.deepEqual(Array.from(data as ArrayLike<number | bigint>, Number), numbers);
    }
  }
});

test('other JSON than an array of numbers of one shape is left to JSON.parse', async () => {
  const { Scanner } = await import('../../../../lib/codecs/numbers/scan.ts');
  const scanner = await Scanner.open();
  // In a whole text, and where a window ends.
  for (const filler of [0, 16_100, 16_200, 16_250, 16_300, 16_380])
    for (const wrong of [
      '1.',
      '- 5',
      '1. 5',
      '1e+ 5',
      '01',
      '.5',
      '[1]',
      'null',
      '1e999',
      '1 2',
      '',
      '"',
      '+1',
      '0x1',
      '1]',
    ])
      for (const spaces of [0, 1, 3]) {
        scanner.text = `[${' '.repeat(filler)}1,${' '.repeat(spaces)}${wrong},2]${' '.repeat(200)}`;
        const found = scanner.read(0);
        assert.equal(
          wrong === '1]' ? found?.count : found,
          wrong === '1]' ? 2 : undefined,
          `${filler} ${wrong}`,
        );
      }
});

test('a text that is written like the mark of an array stays a text', async () => {
  await openNumbers();
  const numbers = JSON.stringify(Array.from({ length: 2_000 }, (_, i) => i));
  const read = (body: string) =>
    [...(decodeInstances(body, parseInstances)[0] ?? [])].map(([, value]) => value);
  assert.deepEqual(read(`{"instances":[{"x":${numbers},"x":"\\u00010"}]}`), [
    { kind: 'json', value: '\u00010' },
  ]);
  assert.deepEqual(read(`{"instances":[{"y":"\\u00010","x":${numbers}}]}`)[0], {
    kind: 'json',
    value: '\u00010',
  });
});

test('a number exactly between two doubles is the even one', async () => {
  const { Scanner } = await import('../../../../lib/codecs/numbers/scan.ts');
  const scanner = await Scanner.open();
  scanner.text = '[4503599.6273704975e9,4503599.6273704965e9,-4503599.6273704975e9]';
  assert.deepEqual(
    [...(scanner.read(0)?.numbers.parts('float64')[0] ?? [])],
    [4503599627370498, 4503599627370496, -4503599627370498],
  );
});
