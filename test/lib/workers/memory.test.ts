/** `worker.memoryMB`, on real processes. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { SDK } from './child.ts';

const WITH_PROC = { skip: process.platform === 'linux' ? false : 'needs /proc' };

const WORKER = `
import { WKRHardWorker } from './SDK';
export class Worker extends WKRHardWorker {
  getModel() {}
  async predict(_model, items) {
    if (items.includes('large')) {
      this.held = Buffer.alloc(400 * 1024 * 1024, 1);
      await new Promise(() => {});
    }
    return items;
  }
}`.replace('./SDK', SDK);

test('a process over its limit is ended, and its item fails alone with the reason', WITH_PROC, async (t) => {
  const directory = await temporaryFolder(t, 'cs-memory-');
  await writeFile(join(directory, 'server.ts'), WORKER);
  const config = 'worker:\n  class: server.Worker\n  memoryMB: 300\n';
  const stack = await testStack(t, { config, directory });
  const ask = async (item: string) => {
    const body = JSON.stringify({ instances: [{ x: item }] });
    const response = await fetch(`${stack.url}/predict`, { method: 'POST', body });
    return { status: response.status, text: await response.text() };
  };
  const answers = await Promise.all(['a', 'large', 'b', 'c'].map(ask));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 422, 200, 200],
    JSON.stringify(answers),
  );
  const used = Number(/used (\d+) MB, over worker\.memoryMB/.exec(answers[1]?.text ?? '')?.[1]);
  // Its 400 MB, of which a part may not be there yet, and what Node takes.
  assert.ok(used > 300 && used < 600, `${used} MB`);
  assert.equal((await ask('d')).status, 200);
});
