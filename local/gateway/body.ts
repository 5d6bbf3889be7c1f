/**
 * Reads the body of a node:http request, or reports why it cannot. Answering while the client still sends would reset
 * the connection before the client reads the answer, so the rest of a refused body is read and dropped, up to a
 * limit.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** The body of a request to the local gateway, as to API Gateway. Answered with 413 before any function runs. */
export const MAX_BODY_BYTES = 10 * 1024 * 1024;
/** How much of a refused body is read before the connection is cut. */
export const MAX_DROPPED_BYTES = 4 * MAX_BODY_BYTES;

type ReadBody =
  | { readonly kind: 'body'; readonly bytes: Buffer | undefined }
  | { readonly kind: 'too_large' }
  /** `hold` returned false. */
  | { readonly kind: 'no_room' }
  | { readonly kind: 'gone' };

/**
 * @param announcedBytes undefined for a chunked body
 * @param maxBytes of the body
 * @param hold asked before each chunk is kept
 */
export function readBody(
  request: IncomingMessage,
  announcedBytes: number | undefined,
  maxBytes: number,
  hold: (bytes: number) => boolean,
): Promise<ReadBody> {
  if (announcedBytes === 0) return Promise.resolve({ kind: 'body', bytes: undefined });
  if (announcedBytes !== undefined && announcedBytes > maxBytes) {
    return Promise.resolve({ kind: 'too_large' });
  }
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const end = (read: ReadBody) => {
      request.off('data', onData);
      resolve(read);
    };
    const onData = (chunk: Buffer) => {
      length += chunk.length;
      if (length > maxBytes) end({ kind: 'too_large' });
      else if (!hold(chunk.length)) end({ kind: 'no_room' });
      else chunks.push(chunk);
    };
    const onEnd = () => end({ kind: 'body', bytes: joined(chunks, length) });
    // Node closes a request after its error and after its end.
    const onGone = () => end({ kind: 'gone' });
    request.on('data', onData).on('end', onEnd).on('close', onGone);
  });
}

/** Ends the response when the client has sent its whole body. Beyond the limit the connection is cut. */
export function endAfterBody(request: IncomingMessage, response: ServerResponse): void {
  let dropped = 0;
  request.on('error', () => undefined);
  request.on('data', (chunk: Buffer) => {
    dropped += chunk.length;
    if (dropped > MAX_DROPPED_BYTES) request.socket.destroy();
  });
  request.once('end', () => response.end());
  request.resume();
}

/** A single chunk, the usual case, is not copied. */
function joined(chunks: readonly Buffer[], length: number): Buffer | undefined {
  if (length === 0) return undefined;
  const only = chunks.length === 1 ? chunks[0] : undefined;
  return only ?? Buffer.concat(chunks, length);
}
