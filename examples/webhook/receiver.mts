/** Receives what the service tells when records are done. The same event may come again: it is known by its id. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { ServingError, unwrap } from 'cluster-serving';

const { SECRET = '', PORT = '3000' } = process.env;
const BODY_BYTES = 1024 * 1024;
/** A database in production, where an id and what follows from it are written together. */
const handled = new Set<string>();

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES) return void response.writeHead(413).end();
    chunks.push(chunk);
  }
  try {
    const { id, type, data } = await unwrap(Buffer.concat(chunks), request.headers, SECRET);
    if (!handled.has(id)) console.log(`${type} ${data.uri}`);
    handled.add(id);
    // Within 5 seconds. Anything but 2xx is told again; 410 ends it.
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(error instanceof ServingError ? error.status : 400).end();
  }
}

const server = createServer((request, response) => void receive(request, response));
server.listen(Number(PORT), '127.0.0.1', () => console.log('ready'));
