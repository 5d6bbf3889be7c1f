/** A service's description of itself in /openapi.json, and requests to it that are compared with that. */
import assert from 'node:assert/strict';
import { schemaChecks } from './json-schema.ts';

export interface Media {
  readonly schema: object;
  readonly example?: unknown;
}
export interface Described {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, Media>> }>>;
}
export interface Document {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

export interface DescribedService {
  readonly document: Document;
  readonly check: ReturnType<typeof schemaChecks>;
  /**
   * Sends a request and compares status and body with what the operation declares.
   * @param described the path in the document. Default `path`
   * @returns the text of the answer
   */
  readonly ask: (
    method: string,
    path: string,
    status: number,
    init?: RequestInit,
    described?: string,
  ) => Promise<string>;
}

export async function describedService(url: string): Promise<DescribedService> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const check = schemaChecks(document);
  return {
    document,
    check,
    async ask(method, path, status, init = {}, described = path) {
      const pattern = described.split('?')[0] as string;
      const operation = document.paths[pattern]?.[method.toLowerCase()] ?? assert.fail(pattern);
      const response = await fetch(`${url}${path}`, { method, redirect: 'manual', ...init });
      const text = await response.text();
      assert.equal(response.status, status, text);
      const declared = operation.responses[status]?.content ?? assert.fail(`${method} ${pattern}: ${status}`);
      const type = response.headers.get('content-type')?.split(';')[0] ?? '';
      const { schema } = declared[type] ?? assert.fail(`${method} ${pattern}: ${status} as ${type}`);
      // TensorFlow Serving's API has three words that JSON has not.
      const plain = pattern.startsWith('/v1/models')
        ? text.replaceAll(/-?\b(?:NaN|Infinity)\b/g, 'null')
        : text;
      if (type === 'application/json') check(schema, JSON.parse(plain), `${method} ${path}`);
      return text;
    },
  };
}
