/**
 * Compresses the answers of those who ask for it. Errors are not compressed: Triton's clients read them without
 * decompressing.
 */
import { promisify } from 'node:util';
import { constants, deflate, gzip } from 'node:zlib';
import { assertAnswer } from '../predictions.ts';
import type { HttpResponse } from '../response.ts';

const ENCODERS = { gzip: promisify(gzip), deflate: promisify(deflate) };

/**
 * @param accepted the header accept-encoding. One coding alone is a wish. Several are what HTTP libraries send by themselves,
 * and a client that did not choose them would wait longer: tensors compress badly.
 * @throws too_large when it exceeds Lambda's limit, compressed or not
 */
export async function compressed(
  response: HttpResponse,
  accepted: string | undefined,
): Promise<HttpResponse> {
  const encoding = accepted?.trim().toLowerCase();
  if (encoding !== 'gzip' && encoding !== 'deflate') return response;
  const { headers, body = '', isBase64Encoded } = response;
  const bytes = Buffer.from(body, isBase64Encoded ? 'base64' : 'utf8');
  const less = await ENCODERS[encoding](bytes, { level: constants.Z_BEST_SPEED });
  return {
    ...response,
    headers: { ...headers, 'content-encoding': encoding },
    body: assertAnswer(less.toString('base64')),
    isBase64Encoded: true,
  };
}
