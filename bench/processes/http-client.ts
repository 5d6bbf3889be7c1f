/**
 * In: a server's address and requests. Out: what load/ measures, from a process that is not the server's.
 * Trap: the first answer to each request is handed to the parent, which compares it with raw; from then on an answer
 * is right when it has the same bytes.
 */
import { type ClosedLoad, type ClosedReport, driveClosed } from '../load/closed.ts';
import { Connection, type Exchange, type RequestSpec, requestBytes } from '../load/connection.ts';
import { driveOpen, type OpenLoad, type OpenReport } from '../load/open.ts';
import { serveParent } from './child.ts';

export type HttpQuestion =
  | {
      readonly kind: 'learn';
      readonly id: string;
      readonly port: number;
      readonly requests: readonly RequestSpec[];
    }
  | ({ readonly kind: 'closed'; readonly id: string } & ClosedLoad)
  | ({ readonly kind: 'open'; readonly id: string } & OpenLoad);

export interface HttpAnswers {
  /** The body of each answer. */
  readonly learn: Uint8Array[];
  readonly closed: ClosedReport;
  readonly open: OpenReport;
}

async function learn(port: number, requests: readonly RequestSpec[]): Promise<Exchange[]> {
  const connection = new Connection(port);
  const exchanges: Exchange[] = [];
  try {
    for (const spec of requests) {
      const request = requestBytes(spec);
      exchanges.push({ request, expected: Buffer.from(await connection.ask(request)) });
    }
  } finally {
    connection.close();
  }
  return exchanges;
}

if (process.send) {
  const learned = new Map<string, Exchange[]>();
  const of = (id: string) => {
    const exchanges = learned.get(id);
    if (!exchanges) throw new Error(`nothing was learned of ${id}`);
    return exchanges;
  };
  serveParent(async (asked) => {
    const question = asked as HttpQuestion;
    if (question.kind === 'closed') return driveClosed(of(question.id), question);
    if (question.kind === 'open') return driveOpen(of(question.id), question);
    const exchanges = await learn(question.port, question.requests);
    learned.set(question.id, exchanges);
    return exchanges.map(({ expected }) => expected);
  });
}
