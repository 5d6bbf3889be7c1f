/** HTTP requests with any Host and any header, as a web page or another program may send them. */
import http from 'node:http';

export interface RawRequest {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

/** Sends exactly these headers to the port on 127.0.0.1, with `host: 127.0.0.1:<port>` unless another is given. */
export function rawRequest(port: number, request: RawRequest = {}): Promise<RawAnswer> {
  const { method = 'GET', path = '/', headers = {}, body } = request;
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const call = http.request(
      {
        port,
        host: '127.0.0.1',
        method,
        path,
        agent: false,
        headers: { host: `127.0.0.1:${port}`, ...length, ...headers },
      },
      (reply) => {
        const chunks: Buffer[] = [];
        reply.on('data', (chunk: Buffer) => chunks.push(chunk));
        reply.on('error', reject);
        reply.on('end', () =>
          resolve({
            status: reply.statusCode ?? 0,
            headers: reply.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    call.on('error', reject);
    call.end(body);
  });
}
