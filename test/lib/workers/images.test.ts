/** What an image is to a worker, by its `image_as`. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { EncodedImage } from '../../../lib/contract/worker-values.ts';
import { WITH_PILLOW, WITH_PYTHON } from '../../support/python.ts';
import { endWorkers, SDK, WorkerChild } from './child.ts';

afterEach(endWorkers);

/** A PNG of one red pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

const python = (form: string, predict: string, before = '') => `${before}
from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    image_as = ${form}
    def get_model(self, *args):
        pass
    def predict(self, model, input):
        return ${predict}
`;

async function outcomesOf(child: WorkerChild, items: readonly unknown[]) {
  const answer = await child.run(items);
  assert.ok(answer.type === 'result' && 'outcomes' in answer, JSON.stringify(answer));
  return answer.outcomes;
}

describe('images in Python', WITH_PILLOW, () => {
  test('pil makes a Pillow image, and a Pillow image in a result is sent as PNG', async () => {
    const predict = '[[image.size, image.mode, image.rotate(90)] for image in input]';
    const child = await WorkerChild.open('python', python('"pil"', predict));
    const [outcome] = await outcomesOf(child, [new EncodedImage(PNG)]);
    assert.ok(outcome && 'value' in outcome && Array.isArray(outcome.value));
    const [size, mode, image] = outcome.value;
    assert.deepEqual([[...size], mode], [[1, 1], 'RGB']);
    assert.ok(image instanceof EncodedImage);
    assert.equal(Buffer.from(image.bytes).toString('latin1', 1, 4), 'PNG');
  });

  test('an image that cannot be read fails its item alone', async () => {
    const child = await WorkerChild.open('python', python('"pil"', '[image.size[0] for image in input]'));
    const items = [new EncodedImage(PNG), new EncodedImage(PNG.subarray(0, 20)), new EncodedImage(PNG)];
    const [first, second, third] = await outcomesOf(child, items);
    assert.deepEqual([first, third], [{ value: 1 }, { value: 1 }]);
    assert.ok(second && 'error' in second);
  });
});

test('bytes makes bytes of an image in Python', WITH_PYTHON, async () => {
  const child = await WorkerChild.open(
    'python',
    python('"bytes"', '[type(input[0]).__name__, input[1]["a"]]'),
  );
  const [first, second] = await outcomesOf(child, [new EncodedImage(PNG), { a: new EncodedImage(PNG) }]);
  assert.deepEqual(first, { value: 'bytes' });
  assert.ok(second && 'value' in second && second.value instanceof Uint8Array);
  assert.deepEqual(Buffer.from(second.value), PNG);
});

test('without Pillow, an image says what to install, and other items run', WITH_PYTHON, async () => {
  const hidden = 'import sys; sys.modules["PIL"] = None';
  const child = await WorkerChild.open('python', python('"pil"', 'input', hidden));
  const [first, second] = await outcomesOf(child, [new EncodedImage(PNG), 2]);
  assert.ok(first && 'error' in first);
  assert.match(first.error.message, /Pillow is not installed: install it, or set image_as/);
  assert.deepEqual(second, { value: 2 });
});

for (const [language, source] of [
  ['python', python('"jpeg"', 'input')],
  ['typescript', `export class Worker { imageAs = 'pil'; getModel() {} predict() {} }`],
] as const) {
  const options = language === 'python' ? WITH_PYTHON : {};
  test(`a form of images that ${language} does not have fails the start`, options, async () => {
    const { answer } = await WorkerChild.open(language, source);
    assert.ok(answer.type === 'failed');
    assert.match(answer.error.message, /image_?[aA]s is/);
  });
}

test('bytes makes bytes of an image in TypeScript', async () => {
  const child = await WorkerChild.open(
    'typescript',
    `import { WKRHardWorker } from '${SDK}';
    export class Worker extends WKRHardWorker {
      override imageAs = 'bytes' as const;
      getModel() {}
      predict(_model: unknown, input: any) { return input.map((item: any) => item instanceof Uint8Array && item.length); }
    }`,
  );
  assert.ok(child.answer.type === 'ready' && child.answer.imageAs === 'bytes');
  assert.deepEqual(await outcomesOf(child, [new EncodedImage(PNG)]), [{ value: PNG.length }]);
});
