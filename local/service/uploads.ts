/**
 * Bodies that clients upload, on one machine: its S3 listens to this machine alone, so the job's own API takes them, from all who may call it.
 * They are checked as they arrive, as S3 checks what a presigned URL says.
 */
import { createHash } from 'node:crypto';
import { badRequest } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { logError } from '../../lib/contract/log.ts';
import { readRequest } from '../../lib/http/request.ts';
import { json, respond } from '../../lib/http/response.ts';
import { isUploadId, type Upload, type UploadPlace } from '../../lib/http/uploads.ts';
import { type Declaration, partsOf } from '../../lib/openapi/declaration.ts';
import { object } from '../../lib/openapi/json-schema.ts';
import { answer, parameter } from '../../lib/openapi/operation.ts';
import { putBytes, type S3Client } from '../../lib/s3/objects.ts';
import { LIFE_SECONDS } from '../../lib/s3/presign.ts';
import { uploadAddress } from '../../lib/s3/uploads.ts';
import type { GatewayRoute } from '../gateway/routes.ts';

const ROUTE = '/uploads';
const PUT_MS = 30_000;

export const UPLOADS: Declaration = {
  routes: [`PUT ${ROUTE}/{id}`],
  operations: () => [
    {
      id: 'putUpload',
      tag: 'queue',
      summary: 'Takes the body of an upload',
      parameters: [parameter('id', 'path', { type: 'string', pattern: '^[0-9a-f]{64}$' })],
      body: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
      answers: { 200: answer('The body is there for a day.', object({})) },
      errors: ['bad_request', 'too_large', 'unsupported_media_type'],
    },
  ],
};

/** In place of a presigned URL; without a host, which is the one that the client called. */
export function localUploadPlace({ sha256 }: Upload): UploadPlace {
  return { url: `${ROUTE}/${sha256}`, headers: {}, expiresAt: Date.now() + LIFE_SECONDS * 1_000 };
}

export function uploadsRoute(
  s3: S3Client,
  place: { readonly bucket: string; readonly job: string },
): GatewayRoute {
  return {
    ...partsOf(UPLOADS.routes[0]),
    maxBytes: LIMITS.payloadBytes,
    handler: (event) =>
      respond(async () => {
        const request = readRequest(event);
        const { id } = request.parameters;
        if (!isUploadId(id)) throw badRequest('id: expected what POST /uploads answered with');
        const body = Buffer.from(request.body({ limit: 'frameBytes' }));
        if (createHash('sha256').update(body).digest('hex') !== id)
          throw badRequest('the body is not the one whose sha256 POST /uploads was told');
        const abortSignal = AbortSignal.timeout(PUT_MS);
        const address = uploadAddress(place, id, request.caller());
        await putBytes(s3, address, body, { type: 'application/json', abortSignal });
        return json(200, {});
      }, logError),
  };
}
