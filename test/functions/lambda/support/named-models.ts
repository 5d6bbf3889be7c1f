/**
 * Further models behind the packaged function: requests in random order, each answered by the model that it names, within the budget of
 * memory.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { modelPrefix } from '../../../../lib/contract/names.ts';
import { publishModel } from '../../../../lib/registry/publish.ts';
import { addModel, modelFolder, numberOf } from '../../../local/swap/models.ts';
import { seeded, whole } from '../../../support/faults/seeds.ts';
import { packagedFunctions } from '../../../support/faults/worker.ts';
import { type HttpAnswer, httpEvent, JOB, LOCATION, openScene } from './scene.ts';

/** Each of these models is counted with 2 MB. */
const BUDGET_MB = 64;
/** Memory beside the open models: results, and pages that a process keeps after it has closed a model. */
const SLACK_MB = 96;
const MB = 1024 * 1024;

const nameOf = (number: number) => `model-${number}`;

function residentMB(pid: number): number {
  const [, kB] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return (Number(kB) * 1024) / MB;
}

interface Amounts {
  readonly models: number;
  readonly requests: number;
}

export async function askNamedModels(t: TestContext, { models, requests }: Amounts): Promise<void> {
  const { bucket, start } = await openScene(t, await packagedFunctions(), {
    models: { memoryMB: BUDGET_MB },
  });
  await publishModel(bucket, LOCATION, await modelFolder(t, addModel(0)));
  for (let number = 1; number <= models; number++) {
    const location = { bucket: LOCATION.bucket, prefix: modelPrefix(JOB, nameOf(number)) };
    await publishModel(bucket, location, await modelFolder(t, addModel(number)));
  }
  const environment = start('predict');
  await environment.ready;
  const random = seeded(7);
  let firstMB = 0;
  let mostMB = 0;
  for (let i = 0; i < requests; i++) {
    const number = whole(random, 0, models);
    const x = whole(random, 0, 999);
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
}
