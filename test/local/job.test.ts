/** The routes that describe a job: its figures, and how it authenticates callers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testStack } from '../support/stack.ts';

test('a job tells its figures and its queue’s, and what its API is', async (t) => {
  const stack = await testStack(t, { preferEmbeddedRedis: true });
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(stack.url + path, { headers });
    assert.equal(response.status, 200, path);
    return response.text();
  };
  const figures = await get('/metrics', { accept: 'text/plain' });
  for (const state of ['waiting', 'running'])
    assert.match(figures, new RegExp(`^cluster_serving_queue_messages\\{state="${state}"\\} 0$`, 'm'));
  assert.match(figures, /^cluster_serving_workers [1-9]/m);
  const described = JSON.parse(await get('/openapi.json')) as { security?: unknown; paths: object };
  assert.equal(described.security, undefined);
  assert.ok('/predict' in described.paths);
  assert.match(await get('/docs'), /<html/);
});
