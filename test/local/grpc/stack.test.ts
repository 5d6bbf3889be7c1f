/** A whole local service with two jobs, over gRPC. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { status } from '@grpc/grpc-js';
import type { LiveFacts } from '../../../console/api.ts';
import { bytes } from '../../onnx-import/support/protobuf.ts';
import { parseConfig } from '../../support/config.ts';
import { startReceiver } from '../../support/otlp.ts';
import { SAMPLE, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { connect, inferMessage } from './client.ts';

test('one port serves every job by its name, with the model, the figures, the traces and the statistics of HTTP', async (t) => {
  const receiver = await startReceiver(t);
  process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = receiver.url;
  const config = 'jobName: other\nimageResize: 8,8';
  const more = [{ job: parseConfig(config, 'other'), modelDirectory: join(SAMPLE, 'model') }];
  const stack = await testStack(t, { hasGrpc: true, more });
  const call = connect(t, stack.grpcPort as number);
  const raw = new Uint8Array(4 * 3 * 8 * 8);
  const image = { name: 'image', datatype: 'FP32', shape: [1, 3, 8, 8], raw };
  const route = '/inference.GRPCInferenceService/ModelInfer';
  for (const [i, { job, url, model }] of stack.jobs.entries()) {
    const traceId = String(i + 1).repeat(32);
    const metadata = { traceparent: `00-${traceId}-b7ad6b7169203331-01` };
    const answer = await call('ModelInfer', inferMessage(job, [image]), { metadata });
    const span = (await receiver.trace(traceId, `POST ${route}`))[`POST ${route}`];
    assert.deepEqual(
      [span?.parentSpanId, span?.attributes['http.route'], span?.attributes['http.response.status_code']],
      ['b7ad6b7169203331', route, '200'],
    );
    const headers = { 'inference-header-content-length': '0', 'content-type': 'application/octet-stream' };
    const rest = await fetch(`${url}/v2/models/${job}/infer`, { method: 'POST', headers, body: raw });
    const body = Buffer.from(await rest.arrayBuffer());
    const numbers = body.subarray(Number(rest.headers.get('inference-header-content-length')));
    // Ten numbers are the last field: its tag, its length and its bytes.
    assert.deepEqual(answer.subarray(-42), Buffer.concat([Buffer.of(0x32, 40), numbers]));
    assert.ok(answer.includes(model));
    const metrics = await (
      await fetch(`${url}/metrics`, { headers: { accept: 'text/plain; version=0.0.4' } })
    ).text();
    assert.match(
      metrics,
      new RegExp(`^cluster_serving_requests_total\\{method="POST",route="${route}",status="200"\\} 1$`, 'm'),
    );
    assert.match(metrics, /^cluster_serving_records_total\{source="request",outcome="succeeded"\} 2$/m);
    // A request is counted once its connection has let it go.
    await until(async () => {
      const { total } = (await (await fetch(`${url}/console/api/live`)).json()) as LiveFacts;
      return total.requests === 2 && total.finished === 2 && total.failed === 0;
    });
    const stats = (await (await fetch(`${url}/v2/models/${job}/stats`)).json()) as {
      model_stats: { inference_count: number }[];
    };
    assert.equal(stats.model_stats[0]?.inference_count, 2);
  }
  assert.equal((await call('RepositoryIndex')).toString('latin1').match(/READY/g)?.length, 2);
  await assert.rejects(call('ModelInfer', inferMessage('third', [image])), { code: status.NOT_FOUND });
  await assert.rejects(call('ModelMetadata', bytes(1, 'third')), { code: status.NOT_FOUND });
});
