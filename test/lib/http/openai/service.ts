/** Files and batches in the form of OpenAI's API through the handler, with the objects of jobs in memory. */
import assert from 'node:assert/strict';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { Batches } from '../../../../lib/jobs/openai/batches.ts';
import { BatchFiles } from '../../../../lib/jobs/openai/files.ts';
import { seeded } from '../../../support/faults/seeds.ts';
import { predictionsWith } from '../../../support/predictions.ts';
import { BUCKET, JOB, NO_FAULTS, World } from '../../jobs/world.ts';

export const START_MS = Date.UTC(2030, 0, 1);

type Body = Readonly<Record<string, unknown>> & { readonly data?: readonly { readonly id: string }[] };
export type Part = readonly [name: string, content: string | Buffer, filename?: string];

function form(parts: readonly Part[]): Buffer {
  const texts = parts.flatMap(([name, content, filename]) => [
    Buffer.from(
      `--edge\r\ncontent-disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n`,
    ),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...texts, Buffer.from('--edge--\r\n')]);
}

/** A service whose clock stands still, and which counts what is made instead of choosing at random. */
export function openService() {
  const world = new World(seeded(1), NO_FAULTS);
  const clock = { now: START_MS };
  let made = 0;
  const random = () => String(++made).padStart(12, '0');
  const place = { job: JOB, bucket: BUCKET, store: world.store(), now: () => clock.now, random };
  const files = new BatchFiles(place);
  const batches = new Batches(place, files);
  const handler = predictionsWith({
    batchService: async () => ({ files, batches }),
    locate: (key) => `https://s3.example/${key}`,
  });
  const call = async (route: string, body?: Buffer | object, type = 'application/json') => {
    const [method, url = ''] = route.split(' ');
    const [rawPath, query = ''] = url.split('?');
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body === undefined ? '' : JSON.stringify(body));
    const event = {
      rawPath,
      rawQueryString: query,
      queryStringParameters: Object.fromEntries(new URLSearchParams(query)),
      headers: { 'content-type': type },
      requestContext: { http: { method } },
      body: bytes.toString('base64'),
      isBase64Encoded: true,
    };
    return handler(event as unknown as APIGatewayProxyEventV2);
  };
  const ask = async (route: string, body?: Buffer | object, type?: string) => {
    const answer = await call(route, body, type);
    return { status: answer.statusCode, body: JSON.parse(answer.body ?? 'null') as Body };
  };
  const sendForm = (...parts: Part[]) =>
    ask('POST /v1/files', form(parts), 'multipart/form-data; boundary=edge');
  const upload = async (text = '{}', name = 'a.jsonl') =>
    String((await sendForm(['purpose', 'batch'], ['file', text, name])).body['id']);
  /** @returns the status and the message of an error */
  const refusal = async (answer: Promise<{ status: number | undefined; body: Body }>) => {
    const { status = 0, body } = await answer;
    const { message, ...rest } = body['error'] as { message: string };
    assert.deepEqual(rest, {
      type: 'invalid_request_error',
      param: null,
      code: { 400: 'bad_request', 404: 'not_found', 409: 'conflict', 413: 'too_large' }[status],
    });
    return [status, message];
  };
  const batch = async (id: string) => (await ask(`GET /v1/batches/${id}`)).body;
  return { world, clock, call, ask, sendForm, upload, refusal, batch };
}
