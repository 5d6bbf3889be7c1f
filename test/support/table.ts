/**
 * A table for a test, as the stack makes it: in dynalite, or in another server of DynamoDB at an address. dynalite has no TTL, which
 * this store does not rely on.
 */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import dynalite from 'dynalite';
import { parse } from 'yaml';
import { callAws } from '../../lib/aws/call.ts';
import { TableConnection, type TablePlace } from '../../lib/table/connection.ts';
import type { Hooks } from './runner.ts';

const RESOURCES = new URL('../../infra/stack/redis/dynamodb.yml', import.meta.url);
const TABLE = 'results';
const MS = 60_000;
export const ROLE = {
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test', sessionToken: undefined },
};

/** @returns the address of a DynamoDB that ends after the test */
export async function startDynamo(t: Hooks): Promise<string> {
  const server = dynalite({ createTableMs: 0 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export function placeOf(endpoint: string, tableName = TABLE): TablePlace {
  return { tableName, role: ROLE, tableEndpoint: endpoint };
}

export const connectTo = (endpoint: string) =>
  new TableConnection(placeOf(endpoint), { commandTimeoutMs: MS });

/** Makes the table of the stack in the DynamoDB at this address. */
export async function createTable(endpoint: string, tableName = TABLE): Promise<void> {
  const text = (await readFile(RESOURCES, 'utf8')).replaceAll(/\$\{[^}]*\}/g, 'Delete');
  const { Properties } = (
    parse(text, { logLevel: 'silent' }) as {
      readonly Resources: Readonly<Record<string, { readonly Properties: object }>>;
    }
  ).Resources['ResultTable'] ?? { Properties: {} };
  const { TimeToLiveSpecification: _, ...table } = Properties as Readonly<Record<string, unknown>>;
  const ask = async (operation: string, input: object) => {
    const answer = await callAws(
      { ...ROLE, endpoint },
      {
        service: 'dynamodb',
        headers: {
          'content-type': 'application/x-amz-json-1.0',
          'x-amz-target': `DynamoDB_20120810.${operation}`,
        },
        body: JSON.stringify({ TableName: tableName, ...input }),
        limitMs: MS,
      },
    );
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.text;
  };
  await ask('CreateTable', table);
  const endAt = performance.now() + MS;
  while (!/"TableStatus": ?"ACTIVE"/.test(await ask('DescribeTable', {})))
    if (performance.now() > endAt) throw new Error('the table is not ready');
}
