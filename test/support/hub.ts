/**
 * A stand-in for the hub of Hugging Face, after its documented API: revisions, the tree with its pages, and files, of which
 * large ones are sent on to another host. It may be told to lie.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Hooks } from './runner.ts';

export interface HubRequest {
  readonly host: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly range: string | undefined;
}

/** @returns true where it has answered */
export type Lie = (request: HubRequest, response: ServerResponse) => boolean;

interface HubFiles {
  /** By path; those of `large` are in LFS. */
  readonly files: Readonly<Record<string, Uint8Array | string>>;
  readonly large?: readonly string[];
  readonly repo?: string;
  /** Files of a page of the tree. */
  readonly pageSize?: number;
  /** Asked for where a repository is private. */
  readonly token?: string;
  readonly lie?: Lie;
}

export interface StandInHub {
  readonly endpoint: string;
  readonly commit: string;
  readonly requests: HubRequest[];
  /** Another commit, with these files. */
  readonly commitFiles: (files: Readonly<Record<string, Uint8Array | string>>) => string;
  /** From now on. */
  readonly lie: (lie: Lie | undefined) => void;
}

const sha = (algorithm: string, ...parts: readonly (Uint8Array | string)[]) => {
  const hash = createHash(algorithm);
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
};

export async function startHub(t: Hooks, options: HubFiles): Promise<StandInHub> {
  const { repo = 'org/name', large = [], pageSize = 1_000, token } = options;
  const requests: HubRequest[] = [];
  const commits = new Map<string, Readonly<Record<string, Buffer>>>();
  let main = '';
  let lie = options.lie;
  const commitFiles: StandInHub['commitFiles'] = (files) => {
    const all = Object.entries(files).map(([path, content]) => [path, Buffer.from(content)] as const);
    main = sha('sha1', ...all.flatMap(([path, content]) => [path, content]));
    commits.set(main, Object.fromEntries(all));
    return main;
  };
  commitFiles(options.files);

  const entryOf = ([path, content]: readonly [string, Buffer]) => {
    const size = content.length;
    const oid = sha('sha1', `blob ${size}\0`, content);
    const lfs = { oid: sha('sha256', content), size, pointerSize: 134 };
    return { type: 'file', oid, size, path, ...(large.includes(path) ? { lfs } : {}) };
  };
  const sendBytes = (content: Buffer, { range }: HubRequest, response: ServerResponse) => {
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
    if (from === 0) return response.writeHead(200, { 'content-length': content.length }).end(content);
    const there = { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` };
    return response.writeHead(206, there).end(content.subarray(from));
  };
  const refuse = (response: ServerResponse, status: number, kind: string) =>
    response.writeHead(status, { 'x-error-code': kind }).end('{"error":"…"}');
  const answerHub = (request: HubRequest, url: URL, response: ServerResponse) => {
    if (token !== undefined && request.authorization !== `Bearer ${token}`)
      return refuse(response, 401, 'RepoNotFound');
    const revision = new RegExp(`^/api/models/${repo}/revision/(.+)$`).exec(url.pathname)?.[1];
    if (revision !== undefined) {
      const commit = revision === 'main' ? main : decodeURIComponent(revision);
      if (!commits.has(commit)) return refuse(response, 404, 'RevisionNotFound');
      const siblings = Object.keys(commits.get(commit) ?? {}).map((rfilename) => ({ rfilename }));
      return response.end(JSON.stringify({ id: repo, sha: commit, siblings }));
    }
    const tree = new RegExp(`^/api/models/${repo}/tree/([0-9a-f]{40})$`).exec(url.pathname)?.[1];
    if (tree !== undefined && commits.has(tree)) {
      const all = Object.entries(commits.get(tree) ?? {}).map(entryOf);
      const from = Number(url.searchParams.get('cursor') ?? 0);
      const next = `http://${request.host}${url.pathname}?recursive=true&cursor=${from + pageSize}`;
      if (from + pageSize < all.length) response.setHeader('link', `<${next}>; rel="next"`);
      return response.end(
        JSON.stringify([
          { type: 'directory', path: 'onnx', oid: main, size: 0 },
          ...all.slice(from, from + pageSize),
        ]),
      );
    }
    const [, commit = '', path = ''] =
      new RegExp(`^/${repo}/resolve/([0-9a-f]{40})/(.+)$`).exec(url.pathname) ?? [];
    const name = decodeURIComponent(path);
    const content = commits.get(commit)?.[name];
    if (content === undefined) return refuse(response, 404, 'EntryNotFound');
    if (!large.includes(name)) return sendBytes(content, request, response);
    const location = `${store}/${commit}/${path}?X-Amz-Signature=secret`;
    return response.writeHead(302, { location, 'x-linked-etag': `"${sha('sha256', content)}"` }).end();
  };
  const answerStore = (request: HubRequest, url: URL, response: ServerResponse) => {
    const [, commit = '', path = ''] = /^\/([0-9a-f]{40})\/(.+)$/.exec(url.pathname) ?? [];
    const content = commits.get(commit)?.[decodeURIComponent(path)];
    return content ? sendBytes(content, request, response) : response.writeHead(403).end();
  };
  const listen = async (answer: (request: HubRequest, url: URL, response: ServerResponse) => unknown) => {
    const server = createServer((message: IncomingMessage, response) => {
      const { host = '', authorization, range } = message.headers;
      const request = { host, path: message.url ?? '', authorization, range };
      requests.push(request);
      if (!lie?.(request, response)) answer(request, new URL(request.path, 'http://hub'), response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(async () => {
      server.close();
      server.closeAllConnections();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const store = await listen(answerStore);
  const endpoint = await listen(answerHub);
  return {
    endpoint,
    commit: main,
    requests,
    commitFiles,
    lie(next) {
      lie = next;
    },
  };
}
