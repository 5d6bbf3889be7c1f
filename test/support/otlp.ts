/** A receiver of spans in this process, which takes what the JSON form of OTLP allows and refuses everything else. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Hooks } from './runner.ts';
import { until } from './until.ts';

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code?: number; readonly message?: string };
  /** By key, as text. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
}

export interface Receiver {
  readonly url: string;
  /** In the order in which they came. */
  readonly spans: readonly ReceivedSpan[];
  /** The headers of each request. */
  readonly requests: readonly NodeJS.Dict<string | string[]>[];
  /** Waits for spans of a trace, as many as were named, and gives them by name. */
  trace(traceId: string, ...names: string[]): Promise<Readonly<Record<string, ReceivedSpan>>>;
}

/** @param answer default: takes them all */
export async function startReceiver(
  t: Hooks,
  answer: (response: ServerResponse) => void = (response) => response.end('{}'),
): Promise<Receiver> {
  const spans: ReceivedSpan[] = [];
  const requests: NodeJS.Dict<string | string[]>[] = [];
  let problem: unknown;
  const server = createServer((request, response) => {
    void (async () => {
      requests.push(request.headers);
      try {
        assert.deepEqual(
          [request.method, request.url, request.headers['content-type']],
          ['POST', '/v1/traces', 'application/json'],
        );
        spans.push(...readBody(JSON.parse(await text(request))));
      } catch (error) {
        problem ??= error;
      }
      answer(response);
    })();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => {
      server.close(resolve);
    });
    if (problem) throw problem;
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    async trace(traceId, ...names) {
      const found = () => spans.filter((span) => span.traceId === traceId);
      await until(() => problem !== undefined || found().length >= names.length);
      if (problem) throw problem;
      assert.deepEqual(
        found()
          .map(({ name }) => name)
          .sort(),
        [...names].sort(),
      );
      return Object.fromEntries(found().map((span) => [span.name, span]));
    },
  };
}

type Json = Readonly<Record<string, unknown>>;

/** Also checks that there are no other fields, because a receiver may refuse fields outside the protocol. */
function fields(value: unknown, required: readonly string[], optional: readonly string[] = []): Json {
  assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), JSON.stringify(value));
  const names = Object.keys(value);
  assert.deepEqual(
    required.filter((name) => !names.includes(name)),
    [],
  );
  assert.deepEqual(
    names.filter((name) => !required.includes(name) && !optional.includes(name)),
    [],
  );
  return value as Json;
}

function list<T>(value: unknown, read: (item: unknown) => T): T[] {
  assert.ok(Array.isArray(value));
  return value.map((item) => read(item));
}

function readBody(body: unknown): ReceivedSpan[] {
  const { resourceSpans } = fields(body, ['resourceSpans']);
  return list(resourceSpans, (one) => {
    const { resource, scopeSpans } = fields(one, ['resource', 'scopeSpans']);
    const of = attributes(fields(resource, ['attributes'])['attributes']);
    return list(scopeSpans, (some) => {
      const { scope, spans } = fields(some, ['scope', 'spans']);
      assert.equal(typeof fields(scope, ['name'])['name'], 'string');
      return list(spans, (span) => ({ ...readSpan(span), resource: of }));
    }).flat();
  }).flat();
}

const CONTEXT = ['traceId', 'spanId', 'flags'];

function readSpan(value: unknown): Omit<ReceivedSpan, 'resource'> {
  const span = fields(
    value,
    [...CONTEXT, 'name', 'kind', 'startTimeUnixNano', 'endTimeUnixNano', 'attributes', 'status'],
    ['parentSpanId', 'traceState', 'links', 'droppedLinksCount'],
  );
  readContext(span);
  if ('parentSpanId' in span) assert.match(String(span['parentSpanId']), /^[0-9a-f]{16}$/);
  assert.ok(Number.isInteger(span['kind']) && Number(span['kind']) >= 1 && Number(span['kind']) <= 5);
  for (const name of ['startTimeUnixNano', 'endTimeUnixNano']) {
    assert.ok(typeof span[name] === 'string');
    assert.match(span[name], /^\d{19}$/);
  }
  assert.ok(BigInt(String(span['startTimeUnixNano'])) <= BigInt(String(span['endTimeUnixNano'])));
  const { code = 0, message = '' } = fields(span['status'], [], ['code', 'message']);
  assert.ok([0, 1, 2].includes(code as number) && typeof message === 'string');
  const links = list(span['links'], (link) => readContext(fields(link, CONTEXT, ['traceState'])));
  return { ...span, attributes: attributes(span['attributes']), links } as unknown as ReceivedSpan;
}

function readContext(value: Json): Json {
  assert.match(String(value['traceId']), /^(?!0+$)[0-9a-f]{32}$/);
  assert.match(String(value['spanId']), /^(?!0+$)[0-9a-f]{16}$/);
  assert.ok(Number.isInteger(value['flags']));
  return value;
}

function attributes(value: unknown): Record<string, string> {
  const pairs = list(value, (item) => {
    const { key, value: of } = fields(item, ['key', 'value']);
    const { stringValue, intValue } = fields(of, [], ['stringValue', 'intValue']);
    assert.ok(typeof key === 'string' && (stringValue === undefined) !== (intValue === undefined));
    // 64-bit integers are texts in the JSON form of protobuf.
    assert.equal(typeof (stringValue ?? intValue), 'string');
    if (intValue !== undefined) assert.match(intValue as string, /^-?\d+$/);
    return [key, (stringValue ?? intValue) as string] as const;
  });
  assert.equal(new Set(pairs.map(([key]) => key)).size, pairs.length);
  return Object.fromEntries(pairs);
}
