/**
 * A separate process that sends a load (JSON) and prints the outcome of every request as JSON. Each request is sent
 * at its scheduled time, and its latency counts from then; a generator that waits for slow answers would measure only
 * the fast ones.
 */
import { Agent, type IncomingMessage, request } from 'node:http';
import type { Load, LoadReport } from './load.ts';

const MAX_SOCKETS = 4_000;
const ANSWER_WITHIN_MS = 60_000;

async function run(load: Load): Promise<LoadReport> {
  const agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS, maxFreeSockets: MAX_SOCKETS });
  const statuses: Record<string, number> = {};
  const acceptedMs: number[] = [];
  const refusedMs: number[] = [];
  const uris: string[] = [];
  const wrong: string[] = [];
  const lateMs: number[] = [];
  let withoutRetryAfter = 0;
  const total = Math.round(load.requestsPerSecond * load.seconds);
  const startedMs = performance.now();
  const dueMs = (i: number) => startedMs + (i * 1000) / load.requestsPerSecond;

  const tell = (i: number, status: string, headers: IncomingMessage['headers'], text: string) => {
    const tookMs = performance.now() - dueMs(i);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status === '200' || status === '202') {
      acceptedMs.push(tookMs);
      if (load.endpoint === 'predict' && !text.includes(`${load.rounds}`)) wrong.push(text.slice(0, 200));
      if (load.endpoint === 'queue') uris.push((JSON.parse(text) as { uri: string }).uri);
    } else {
      if (status === '429') refusedMs.push(tookMs);
      if (status === '429' && !(Number(headers['retry-after']) >= 1)) withoutRetryAfter++;
      if (status !== '429') wrong.push(text.slice(0, 200));
    }
  };
  const ask = (i: number) =>
    new Promise<void>((done) => {
      lateMs.push(performance.now() - dueMs(i));
      const uri = `${load.name}-${i}`;
      const instances = [{ rounds: load.rounds }];
      const body = JSON.stringify(load.endpoint === 'queue' ? { uri, instances } : { instances });
      const end = (status: string, headers: IncomingMessage['headers'], text: string) => {
        tell(i, status, headers, text);
        done();
      };
      const call = request(
        load.url + (load.endpoint === 'queue' ? '/predictions' : '/predict'),
        {
          method: 'POST',
          agent,
          timeout: ANSWER_WITHIN_MS,
          headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => (text += chunk));
          response.on('end', () => end(String(response.statusCode), response.headers, text));
          response.on('error', (error) => end('broken', {}, error.message));
        },
      );
      call.on('timeout', () => call.destroy(new Error('no answer')));
      call.on('error', (error) => end('broken', {}, error.message));
      call.end(body);
    });

  const asked: Promise<void>[] = [];
  while (asked.length < total) {
    while (asked.length < total && dueMs(asked.length) <= performance.now()) asked.push(ask(asked.length));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(asked);
  agent.destroy();
  return {
    sent: total,
    statuses,
    withoutRetryAfter,
    wrong: wrong.slice(0, 5),
    lateMs,
    acceptedMs,
    refusedMs,
    uris,
  };
}

process.on('message', (load: Load) => {
  void run(load).then((report) => process.send?.(report, () => process.exit(0)));
});
