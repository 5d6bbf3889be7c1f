/** CloudFormation that knows some stacks by their outputs, or refuses to tell. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Hooks } from './runner.ts';

export interface StandInStack {
  /** Default: UPDATE_COMPLETE. */
  readonly status?: string;
  readonly outputs: Readonly<Record<string, string>>;
}

/** An error of AWS, by its code. */
export interface StandInError {
  readonly code: string;
  readonly message: string;
}

export interface StandInCloudFormation {
  readonly url: string;
  /** The names that were asked for. */
  readonly asked: string[];
}

/** @param stacks by name; read at each request */
export async function startStandIn(
  t: Hooks,
  stacks: Readonly<Record<string, StandInStack | StandInError | 'silent'>>,
): Promise<StandInCloudFormation> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const fields = new URLSearchParams(await text(request));
      const name = fields.get('StackName') ?? '';
      asked.push(name);
      const found = stacks[name] ?? {
        code: 'ValidationError',
        message: `Stack with id ${name} does not exist`,
      };
      if (found === 'silent') return;
      response.setHeader('content-type', 'text/xml');
      if ('code' in found) {
        const error = `<Type>Sender</Type><Code>${found.code}</Code><Message>${found.message}</Message>`;
        response.writeHead(found.code.startsWith('Access') ? 403 : 400);
        return void response.end(`<ErrorResponse><Error>${error}</Error></ErrorResponse>`);
      }
      const { status = 'UPDATE_COMPLETE', outputs } = found;
      const members = Object.entries(outputs).map(
        ([key, value]) => `<member><OutputKey>${key}</OutputKey><OutputValue>${value}</OutputValue></member>`,
      );
      const stack =
        `<StackName>${name}</StackName><StackStatus>${status}</StackStatus>` +
        `<CreationTime>2026-11-23T00:00:00Z</CreationTime><Outputs>${members.join('')}</Outputs>`;
      response.end(
        `<DescribeStacksResponse><DescribeStacksResult><Stacks><member>${stack}</member></Stacks></DescribeStacksResult></DescribeStacksResponse>`,
      );
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}
