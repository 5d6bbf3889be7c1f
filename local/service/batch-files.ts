/** The bytes of files of OpenAI's API on one machine: they are written to and read from its S3 as they come, so that memory stays flat. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { batchService } from '../../lib/compose/batch-service.ts';
import { s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { asError, badRequest, type ServingError } from '../../lib/contract/errors.ts';
import { logError } from '../../lib/contract/log.ts';
import { PIECE_BYTES, pieceKey } from '../../lib/contract/pieces.ts';
import { assertFields, filenameOf, fileTooLarge } from '../../lib/http/openai/endpoint.ts';
import { openAIError } from '../../lib/http/openai/error.ts';
import { json, respond } from '../../lib/http/response.ts';
import { JobObjects } from '../../lib/s3/job-store.ts';
import type { GatewayRoute } from '../gateway/routes.ts';

const MiB = 1024 * 1024;
const FILE_BYTES = 512 * MiB;
/** A body has more than its file. */
const FORM_BYTES = MiB;
/** A client that takes nothing of its answer for so long is disconnected. */
const STALLED_MS = 30_000;
const LIMITS = { files: 1, fields: 8, fieldSize: 1024, fieldNameSize: 100, fileSize: FILE_BYTES };

export function batchFileRoutes(scope: Scope): GatewayRoute[] {
  const { bucket } = scope.environment;
  const { files } = scope.get(batchService);
  const store = new JobObjects(scope.get(s3Client), bucket);
  const unused = () => Promise.reject(new TypeError('this route streams'));
  const upload = async (request: IncomingMessage) => {
    if (Number(request.headers['content-length'] ?? 0) > FILE_BYTES + FORM_BYTES)
      throw fileTooLarge(FILE_BYTES);
    const next = files.next('');
    try {
      const { filename, bytes } = await readForm(request, (content) =>
        writePieces(store, { bucket, key: next.key }, content),
      );
      return await files.keep({ ...next, filename, bytes });
    } catch (error) {
      await files.drop(next.key);
      throw error;
    }
  };
  return [
    {
      method: 'POST',
      path: '/v1/files',
      functionName: 'predictions',
      maxBytes: FILE_BYTES + FORM_BYTES,
      handler: unused,
      stream: (request) => respond(async () => json(200, await upload(request)), logError, openAIError),
    },
    {
      method: 'GET',
      path: '/v1/files/{id}/content',
      functionName: 'predictions',
      handler: unused,
      async stream(_, response, { pathParameters }) {
        let file: Awaited<ReturnType<typeof files.kept>> | undefined;
        const found = async () => {
          file = await files.kept(pathParameters?.['id'] ?? '');
          return json(200, {});
        };
        const refused = await respond(found, logError, openAIError);
        if (!file) return refused;
        response.socket?.setTimeout(STALLED_MS);
        const type = { 'content-type': 'application/octet-stream', 'x-content-type-options': 'nosniff' };
        response.writeHead(200, { ...type, 'content-length': file.bytes });
        await pipeline(Readable.from(piecesOf(file)), response).catch((error: unknown) => logError(error));
        return undefined;
      },
    },
  ];

  async function* piecesOf(file: Awaited<ReturnType<typeof files.kept>>): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < file.bytes; at += PIECE_BYTES)
      yield await files.read(file, at, Math.min(file.bytes, at + PIECE_BYTES));
  }
}

/** @param write takes the bytes of the file. @throws bad_request, too_large, once nothing is written any more */
async function readForm(
  request: IncomingMessage,
  write: (content: AsyncIterable<Buffer>) => Promise<number>,
): Promise<{ readonly filename: string; readonly bytes: number }> {
  const fields = new Map<string, string>();
  let filename: string | undefined;
  let file: Readable | undefined;
  let writing: Promise<number> | undefined;
  const parser = parserOf(request);
  const parsed = new Promise<void>((resolve, reject) => {
    parser.on('field', (name, value) => void fields.set(name, value));
    parser.on('file', (name, content, given) => {
      if (name !== 'file') {
        content.resume();
        fields.set(name, '');
        return;
      }
      filename = given;
      file = content;
      content.on('limit', () => reject(fileTooLarge(FILE_BYTES)));
      writing = write(content);
      writing.catch(reject);
    });
    for (const limit of ['filesLimit', 'fieldsLimit', 'partsLimit'] as const)
      parser.on(limit, () => reject(badRequest('the form has more fields than "file" and "purpose"')));
    parser.on('finish', () => resolve());
    parser.on('error', (error) => reject(malformed(error)));
    request.on('close', () => {
      if (!request.complete) reject(badRequest('the form was cut off'));
    });
    request.pipe(parser);
  });
  try {
    await parsed;
    assertFields(fields);
    if (!writing) throw badRequest("'file' is a required field");
    return { filename: filenameOf(filename), bytes: await writing };
  } catch (error) {
    request.unpipe(parser);
    parser.destroy();
    file?.destroy(asError(error));
    await writing?.catch(() => undefined);
    throw error;
  }
}

function parserOf({ headers }: IncomingMessage): Busboy {
  const { 'content-type': type = '' } = headers;
  if (!/^\s*multipart\/form-data\b/i.test(type))
    throw badRequest('expected a multipart form with the fields "file" and "purpose"');
  try {
    return new Busboy({ headers: { ...headers, 'content-type': type }, limits: LIMITS });
  } catch (error) {
    throw malformed(error);
  }
}

function malformed(error: unknown): ServingError {
  return badRequest(`the multipart form cannot be read: ${asError(error).message}`);
}

/** @returns how many bytes there were */
async function writePieces(
  store: JobObjects,
  { bucket, key }: { readonly bucket: string; readonly key: string },
  content: AsyncIterable<Buffer>,
): Promise<number> {
  let place = 0;
  let bytes = 0;
  let waiting: Buffer[] = [];
  let size = 0;
  const write = async (piece: Buffer) => store.putObject({ bucket, key: pieceKey(key, place++) }, piece);
  for await (const chunk of content) {
    waiting.push(chunk);
    size += chunk.length;
    bytes += chunk.length;
    if (size < PIECE_BYTES) continue;
    const all = Buffer.concat(waiting);
    await write(all.subarray(0, PIECE_BYTES));
    waiting = [Buffer.from(all.subarray(PIECE_BYTES))];
    size -= PIECE_BYTES;
  }
  await write(Buffer.concat(waiting));
  return bytes;
}
