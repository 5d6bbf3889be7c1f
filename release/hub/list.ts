/** Lists the files of one commit of a repository of the hub, with their sizes and digests. */
import type { HubAddress } from '../../lib/config/model-path.ts';
import { badModel, modelUnavailable } from '../../lib/contract/errors.ts';
import { isCount } from '../../lib/contract/present.ts';
import type { ListedFile } from '../../onnx-import/index.ts';
import type { HubClient } from './client.ts';

/** The digest of a large file is its SHA-256; a small one has the SHA-1 of git, whose head counts, too. */

/** Files of a repository of the hub, of which a model needs a few. Refused with `bad_model`. */
const MAX_LISTED = 20_000;
const MAX_PAGES = 100;
const COMMIT = /^[0-9a-f]{40}$/;
const SHA256 = /^[0-9a-f]{64}$/;

type Fields = Readonly<Record<string, unknown>>;

/** The commit of a revision, which never changes. */
export async function commitOf(client: HubClient, { repo, revision }: HubAddress): Promise<string> {
  if (COMMIT.test(revision)) return revision;
  const { value } = await client.json(`/api/models/${repo}/revision/${encodeURIComponent(revision)}`);
  const { sha } = fieldsOf(value);
  if (typeof sha === 'string' && COMMIT.test(sha)) return sha;
  throw modelUnavailable(`the hub gives no commit for revision ${revision} of ${repo}; check HF_ENDPOINT`);
}

/** @throws bad_model for names that lead out of a folder */
export async function listFiles(client: HubClient, repo: string, commit: string): Promise<ListedFile[]> {
  const files: ListedFile[] = [];
  let page: string | undefined = `/api/models/${repo}/tree/${commit}?recursive=true`;
  for (let pages = 0; page !== undefined; pages++) {
    if (pages === MAX_PAGES || files.length > MAX_LISTED)
      throw badModel(`${repo}: more than ${MAX_LISTED} files; a repository with one model is expected`);
    const { value, next } = await client.json(page);
    if (!Array.isArray(value)) throw modelUnavailable(`the hub gives no list of the files of ${repo}`);
    files.push(...value.flatMap((entry) => fileOf(fieldsOf(entry)) ?? []));
    page = next;
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function fileOf({ type, path, size, oid, lfs }: Fields): ListedFile | undefined {
  if (type !== 'file') return undefined;
  assertPath(path);
  const large = lfs === undefined || lfs === null ? undefined : fieldsOf(lfs);
  const bytes = large?.['size'] ?? size;
  const digest = large ? large['oid'] : oid;
  const isDigest = typeof digest === 'string' && (large ? SHA256 : COMMIT).test(digest);
  if (!isDigest || !isCount(bytes))
    throw modelUnavailable(`the hub gives no size and digest for ${JSON.stringify(path)}`);
  return { path, bytes, digest: large ? { sha256: digest } : { gitSha1: digest } };
}

/** Git holds no such name, so the list is not of a repository. */
function assertPath(path: unknown): asserts path is string {
  const isText = typeof path === 'string' && path.length > 0 && path.length <= 4_096;
  if (isText && !/\\|[^ -\u{10ffff}]/u.test(path) && path.split('/').every((name) => !/^\.{0,2}$/.test(name)))
    return;
  throw badModel(`the hub lists a file that leads out of its folder: ${JSON.stringify(path).slice(0, 200)}`);
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
