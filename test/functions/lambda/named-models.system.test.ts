/**
 * 200 further models behind the packaged function: 2,000 requests in random order, each answered by the model that it names, within the
 * budget of memory; each model is opened once at a time.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { namedModelPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { addModel, modelFolder, numberOf } from '../../local/swap/models.ts';
import { type Bundles, packagedFunctions } from '../../support/faults/worker.ts';
import { type HttpAnswer, httpEvent, JOB, LOCATION, openScene } from './support/scene.ts';

const MODELS = 200;
const REQUESTS = 2_000;
/** Each of these models is counted with 2 MB. */
const BUDGET_MB = 64;
/** Memory beside the open models: results, and pages that a process keeps after it has closed a model. */
const SLACK_MB = 96;
const MB = 1024 * 1024;

const nameOf = (number: number) => `model-${number}`;

/** Numbers from 0 to below 1, always the same. */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function residentMB(pid: number): number {
  const [, kB] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return (Number(kB) * 1024) / MB;
}

describe('the packaged function with many models', () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  test('answers 2,000 requests in random order over 200 models, each right, within the budget of memory', async (t) => {
    const { bucket, start } = await openScene(t, bundles, { models: { memoryMB: BUDGET_MB } });
    await publishModel(bucket, LOCATION, await modelFolder(t, addModel(0)));
    for (let number = 1; number <= MODELS; number++) {
      const location = { bucket: LOCATION.bucket, prefix: namedModelPrefix(JOB, nameOf(number)) };
      await publishModel(bucket, location, await modelFolder(t, addModel(number)));
    }
    const environment = start('predict');
    await environment.ready;
    const random = randoms(7);
    let firstMB = 0;
    let mostMB = 0;
    for (let i = 0; i < REQUESTS; i++) {
      const number = Math.floor(random() * (MODELS + 1));
      const x = Math.floor(random() * 1_000);
      const name = number === 0 ? undefined : nameOf(number);
      const path = `/predict?form=plain${name === undefined ? '' : `&model=${name}`}`;
      const event = httpEvent('POST', path, {}, { instances: [{ x: [x] }] });
      const { statusCode, body } = await environment.invoke<HttpAnswer>(event);
      assert.equal(statusCode, 200, body);
      assert.equal(numberOf(x, Number(/"y":\[\[([\d.]+)/.exec(body)?.[1])), number, body);
      const residentNow = residentMB(environment.pid);
      if (i === 0) firstMB = residentNow;
      mostMB = Math.max(mostMB, residentNow);
    }
    t.diagnostic(`${firstMB.toFixed(0)} MB after the first request, ${mostMB.toFixed(0)} MB at most`);
    assert.ok(mostMB - firstMB < BUDGET_MB + SLACK_MB, `${firstMB} MB, then up to ${mostMB} MB`);
  });
});
