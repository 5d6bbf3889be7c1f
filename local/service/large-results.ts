/**
 * Results that are too large for Redis, on one machine: its S3 listens to this machine alone and knows no presigned URLs, so
 * the job's own API answers with their objects, to all who may call it; and no lifecycle removes them.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { logError } from '../../lib/contract/log.ts';
import { largeResultPrefix, uploadPrefix } from '../../lib/contract/names.ts';
import { readRequest } from '../../lib/http/request.ts';
import { binary, jsonText, respond } from '../../lib/http/response.ts';
import { type Declaration, partsOf } from '../../lib/openapi/declaration.ts';
import { ref } from '../../lib/openapi/inputs.ts';
import { parameter } from '../../lib/openapi/operation.ts';
import { getBytes, type S3Client } from '../../lib/s3/objects.ts';
import { listPages, removeObjects } from '../../lib/s3/pages.ts';
import type { GatewayRoute } from '../gateway/routes.ts';

interface LocalLargeResults {
  readonly bucket: string;
  readonly job: string;
}

const ROUTE = '/large-results';
const SWEEP_MS = 3_600_000;

export const LARGE_RESULTS: Declaration = {
  routes: [`GET ${ROUTE}/{name}`],
  operations: () => [
    {
      id: 'getLargeResult',
      tag: 'queue',
      summary: 'The object of a large result',
      parameters: [parameter('name', 'path', { type: 'string', pattern: '^[0-9a-f-]{36}(\\.json)?$' })],
      answers: {
        200: {
          description: 'The result, as JSON or as the bytes of a worker.',
          content: {
            'application/json': { schema: ref('Result') },
            'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
          },
        },
      },
      errors: ['not_found', 'too_large'],
    },
  ],
};

/** In place of a presigned URL; without a host, which is the one that the client called. */
export function localLocation(key: string): string {
  return `${ROUTE}/${key.slice(key.lastIndexOf('/') + 1)}`;
}

export function largeResultsRoute(s3: S3Client, { bucket, job }: LocalLargeResults): GatewayRoute {
  return {
    ...partsOf(LARGE_RESULTS.routes[0]),
    maxBytes: LIMITS.largeAnswerBytes,
    handler: (event) =>
      respond(async () => {
        const name = readRequest(event).parameters['name'] ?? '';
        const key = largeResultPrefix(job) + name;
        if (!/^[0-9a-f-]{36}(\.json)?$/.test(name)) throw gone();
        const bytes = await getBytes(s3, { bucket, key }, LIMITS.largeAnswerBytes).catch((error: Error) => {
          throw error.name === 'NoSuchKey' ? gone() : error;
        });
        const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        const headers = { 'cache-control': 'no-store' };
        return name.endsWith('.json')
          ? jsonText(200, body.toString(), headers)
          : binary(200, body.toString('base64'), headers);
      }, logError),
  };
}

function gone(): ServingError {
  return new ServingError('not_found', 'there is no such large result (any more)');
}

/** Removes what outlived its pointer, and uploads after a day, now and every hour. @returns a function that ends it */
export function sweepLargeResults(
  s3: S3Client,
  { bucket, job, ttlSeconds }: LocalLargeResults & { readonly ttlSeconds: number },
): () => Promise<void> {
  const sweep = async () => {
    // Like a day of S3's lifecycle: a client may still be reading.
    await removeOld(largeResultPrefix(job), ttlSeconds + 86_400);
    await removeOld(uploadPrefix(job), 86_400);
  };
  const removeOld = async (prefix: string, seconds: number) => {
    const before = Date.now() - seconds * 1_000;
    for await (const page of listPages(s3, bucket, prefix)) {
      const old = page.filter(({ modifiedAt }) => modifiedAt < before);
      await removeObjects(
        s3,
        bucket,
        old.map(({ key }) => key),
      );
    }
  };
  const safely = () => sweep().catch((error: unknown) => logError(error, { phase: 'large results' }));
  let sweeping = safely();
  const timer = setInterval(() => {
    sweeping = sweeping.then(safely);
  }, SWEEP_MS).unref();
  return async () => {
    clearInterval(timer);
    await sweeping;
  };
}
