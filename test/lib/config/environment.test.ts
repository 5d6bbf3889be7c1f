/** The settings of a deployment of another version: its variable lacks what this version added, or has more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { GROUPS, SETTINGS } from '../../../lib/config/schema.ts';

const jobOf = (settings: unknown) =>
  readEnvironment({ CLUSTER_SERVING_CONFIG: JSON.stringify(settings) }).job;

/** DEFAULT_JOB without one setting. */
function without(path: string): object {
  const job = structuredClone(DEFAULT_JOB) as unknown as Record<string, Record<string, unknown>>;
  const [first = '', second] = path.split('.');
  if (second === undefined) delete job[first];
  else delete job[first]?.[second];
  return job;
}

test('a variable that lacks any one setting gives its default, and nothing else changes', () => {
  assert.ok(SETTINGS.size > 50);
  for (const path of SETTINGS.keys()) assert.deepEqual(jobOf(without(path)), DEFAULT_JOB, path);
});

test('a variable that lacks a group, or has an empty or null one, gives the defaults of the group', () => {
  for (const group of Object.keys(GROUPS).filter(Boolean)) {
    const { [group as keyof typeof DEFAULT_JOB]: _, ...others } = DEFAULT_JOB;
    for (const settings of [others, { ...others, [group]: {} }, { ...others, [group]: null }])
      assert.deepEqual(jobOf(settings), DEFAULT_JOB, JSON.stringify(settings));
  }
  assert.deepEqual(jobOf({}), DEFAULT_JOB);
});

test('each single setting of the variable is kept beside the defaults of all others', () => {
  for (const [path, { defaultValue }] of SETTINGS) {
    const [group = '', key] = path.split('.');
    const isMap = typeof defaultValue === 'object' && !Array.isArray(defaultValue);
    const value = isMap ? { other: { batchAxis: 1 } } : 'other';
    const settings = key === undefined ? { [group]: value } : { [group]: { [key]: value } };
    const own = key === undefined ? value : { ...Object(Object(DEFAULT_JOB)[group]), [key]: value };
    assert.deepEqual(jobOf(settings), { ...DEFAULT_JOB, [group]: own }, path);
  }
});

test('no default is a map with keys, which would be merged with the one that a job sets', () => {
  for (const [path, { defaultValue }] of SETTINGS)
    if (typeof defaultValue === 'object' && !Array.isArray(defaultValue))
      assert.deepEqual(defaultValue, {}, path);
});

test('what the variable sets is kept, in every group', () => {
  const {
    http,
    function: functions,
    worker,
    queue,
    image,
  } = jobOf({
    http: { tokensPerSecond: 7, corsOrigins: ['https://a.example'] },
    function: { memoryMB: 512 },
    worker: { class: 'server.Worker', deviceMap: [0, 1] },
    queue: { windowSeconds: 0 },
    image: { mean: [1, 2, 3] },
  });
  assert.deepEqual(http, {
    ...DEFAULT_JOB.http,
    tokensPerSecond: 7,
    corsOrigins: ['https://a.example'],
  });
  assert.deepEqual(functions, { memoryMB: 512, timeoutSeconds: 30 });
  assert.deepEqual(worker, { ...DEFAULT_JOB.worker, class: 'server.Worker', deviceMap: [0, 1] });
  assert.deepEqual(queue, DEFAULT_JOB.queue);
  assert.deepEqual(image, { mean: [1, 2, 3] });
});

test('settings and groups of a later version do not disturb', () => {
  const groups = Object.entries(DEFAULT_JOB).map(([key, value]) => {
    return [key, key in GROUPS ? { ...Object(value), later: { deep: [1] } } : value];
  });
  const job = jobOf({ ...Object.fromEntries(groups), jobName: 'digits', later: 1, laterGroup: { a: 1 } });
  assert.equal(job.jobName, 'digits');
  for (const path of SETTINGS.keys()) {
    const valueIn = (from: object) => path.split('.').reduce<unknown>((at, key) => Object(at)[key], from);
    if (path !== 'jobName') assert.deepEqual(valueIn(job), valueIn(DEFAULT_JOB), path);
  }
});

test('a variable that is not JSON is named', () => {
  assert.throws(() => readEnvironment({ CLUSTER_SERVING_CONFIG: '{' }).job, {
    code: 'bad_config',
    message: /^CLUSTER_SERVING_CONFIG is not JSON: /,
  });
});
