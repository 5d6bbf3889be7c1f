/** POST /uploads says where a body over the gateway's limit is uploaded, to be named by another request. */
import { readJson } from '../../codecs/instances.ts';
import { LIMITS } from '../../contract/limits.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { object, TEXT } from '../../openapi/json-schema.ts';
import { answer } from '../../openapi/operation.ts';
import type { Handle } from '../handle.ts';
import { json } from '../response.ts';
import { readUpload, type Upload, type UploadPlace } from '../uploads.ts';

export interface UploadsDeps {
  readonly placeUpload: (upload: Upload, caller: string) => UploadPlace | Promise<UploadPlace>;
}

export const handle: Handle<UploadsDeps> = async (request, { placeUpload }) => {
  const upload = readUpload(readJson(request.body(), '{"bytes": 7340032, "sha256": "…"}').parsed);
  const { expiresAt, ...place } = await placeUpload(upload, request.caller());
  const times = { expiresAt: new Date(expiresAt).toISOString() };
  return json(201, { id: upload.sha256, ...place, ...times }, { 'cache-control': 'no-store' });
};

export const declaration: Declaration = {
  routes: ['POST /uploads'],
  function: 'submit',
  operations: () => [
    {
      id: 'upload',
      tag: 'queue',
      summary: 'Where a body of up to 32 MiB is uploaded',
      body: {
        'application/json': {
          schema: {
            ...object({
              bytes: { type: 'integer', minimum: 1, maximum: LIMITS.payloadBytes },
              sha256: { ...TEXT, pattern: '^[0-9a-f]{64}$' },
            }),
            additionalProperties: false,
          },
        },
      },
      answers: {
        201: answer(
          'PUT the body to `url` with `headers`; then `{"payload": id}` stands for it in a request of the same caller.',
          object({
            id: TEXT,
            url: { ...TEXT, description: 'Absolute, or a path of this API.' },
            headers: { type: 'object', additionalProperties: TEXT },
            expiresAt: { ...TEXT, format: 'date-time' },
          }),
        ),
      },
      errors: ['bad_request', 'too_large', 'unsupported_media_type'],
    },
  ],
};
