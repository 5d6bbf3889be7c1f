/** OpenTelemetry's variables, as its specification defines them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tracesOf } from '../../../lib/config/environment.ts';
import type { TraceContext } from '../../../lib/contract/trace.ts';
import type { Variables } from '../../../lib/contract/variables.ts';
import { readTraceSettings } from '../../../lib/trace/settings.ts';

const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const settingsOf = (variables: Variables) =>
  readTraceSettings({ [ENDPOINT]: 'http://localhost:4318', ...variables }, 'job');

test('nothing is traced without a receiver, or when OpenTelemetry is off', () => {
  assert.equal(tracesOf({ OTEL_SERVICE_NAME: 'a', [ENDPOINT]: '' }), undefined);
  assert.equal(tracesOf({ [ENDPOINT]: 'http://a', OTEL_SDK_DISABLED: 'true' }), undefined);
  assert.equal(tracesOf({ [ENDPOINT]: 'http://a', OTEL_TRACES_EXPORTER: 'none' }), undefined);
  for (const name of [ENDPOINT, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'])
    assert.ok(tracesOf({ [name]: 'http://a' }));
});

test('the address of all signals is continued, that of traces is taken unchanged', () => {
  assert.equal(settingsOf({}).url, 'http://localhost:4318/v1/traces');
  assert.equal(settingsOf({ [ENDPOINT]: 'https://a/b/' }).url, 'https://a/b/v1/traces');
  const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = 'https://c/';
  assert.equal(settingsOf({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT }).url, 'https://c/');
});

test('headers, resource and service are read', () => {
  const { headers, resource } = settingsOf({
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20a%3D, x-b = c=d,',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=dev,service.name=theirs',
    OTEL_SERVICE_NAME: 'ours',
  });
  assert.deepEqual(headers, { authorization: 'Basic a=', 'x-b': 'c=d', 'content-type': 'application/json' });
  assert.deepEqual(resource, { 'service.name': 'ours', 'deployment.environment.name': 'dev' });
  assert.deepEqual(settingsOf({}).resource, { 'service.name': 'job' });
});

const CHOSEN = `${'0'.repeat(18)}${'0'.repeat(14)}`;
const PASSED_OVER = `${'0'.repeat(18)}${'f'.repeat(14)}`;
const parent = (isSampled: boolean): TraceContext => ({ traceId: CHOSEN, spanId: '1', isSampled });

test('a sampler decides for new traces, and one that follows its parent for no other', () => {
  for (const [name, argument, decisions] of [
    [undefined, undefined, [true, true, true, false]],
    ['always_on', undefined, [true, true, true, true]],
    ['always_off', undefined, [false, false, false, false]],
    ['traceidratio', '0.5', [true, false, true, true]],
    ['parentbased_always_off', undefined, [false, false, true, false]],
    ['parentbased_traceidratio', '0.5', [true, false, true, false]],
    ['parentbased_traceidratio', '0', [false, false, true, false]],
    ['parentbased_traceidratio', '1', [true, true, true, false]],
  ] as const) {
    const { isSampled } = settingsOf({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: argument });
    const made = [
      isSampled(CHOSEN, undefined),
      isSampled(PASSED_OVER, undefined),
      isSampled(CHOSEN, parent(true)),
      isSampled(CHOSEN, parent(false)),
    ];
    assert.deepEqual(made, decisions, `${name} ${argument}`);
  }
});

test('what makes no sense is refused, and no secret is quoted', () => {
  for (const [variables, message] of [
    [{ [ENDPOINT]: 'localhost:4318' }, /ENDPOINT/],
    [{ [ENDPOINT]: 'https://user:secret@host' }, /ENDPOINT/],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /PROTOCOL "grpc": expected http\/json/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: 'secret' }, /HEADERS/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: 'a=secret%0a' }, /HEADERS/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: 'a b=secret' }, /HEADERS/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: 'a=%secret' }, /HEADERS/],
    [{ OTEL_EXPORTER_OTLP_TIMEOUT: '0' }, /TIMEOUT/],
    [{ OTEL_EXPORTER_OTLP_TIMEOUT: '1h' }, /TIMEOUT/],
    [{ OTEL_TRACES_SAMPLER: 'xray' }, /SAMPLER/],
    [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }, /SAMPLER/],
  ] as const)
    assert.throws(
      () => settingsOf(variables),
      ({ message: text }: Error) => message.test(text) && !text.includes('secret'),
    );
});
