/** The model of S3: objects with ETags, conditional writes, ranges and listings, each call at one moment. */
import { createHash } from 'node:crypto';
import { awsError } from './aws.ts';

interface StoredObject {
  readonly body: Buffer;
  readonly etag: string;
  readonly modifiedMs: number;
  readonly sha256: string | undefined;
}

interface Input {
  readonly Key?: string;
  readonly Body?: Buffer | Uint8Array | string;
  readonly Range?: string;
  readonly IfMatch?: string;
  readonly IfNoneMatch?: string;
  readonly Prefix?: string;
  readonly Delimiter?: string;
  readonly StartAfter?: string;
  readonly ChecksumSHA256?: string;
  readonly ChecksumMode?: string;
  readonly Delete?: { readonly Objects?: readonly { readonly Key?: string }[] };
}

export class S3Model {
  readonly objects = new Map<string, StoredObject>();
  readonly #now: () => number;

  /** @param now in ms since 1970 */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** @throws as the SDK does */
  serve(operation: string, input: Input): object {
    switch (operation) {
      case 'GetObject':
        return this.#get(input);
      case 'PutObject':
        return this.#put(input);
      case 'HeadObject':
        return this.#head(input);
      case 'ListObjectsV2':
        return this.#list(input);
      case 'DeleteObjects':
        for (const { Key = '' } of input.Delete?.Objects ?? []) this.objects.delete(Key);
        return {};
      default:
        throw new Error(`the model of S3 has no ${operation}`);
    }
  }

  #found({ Key = '', IfMatch }: Input): StoredObject {
    const object = this.objects.get(Key);
    if (!object) throw awsError('NoSuchKey', 'The specified key does not exist.', 404);
    if (IfMatch !== undefined && IfMatch !== object.etag) throw preconditionFailed();
    return object;
  }

  #get(input: Input): object {
    const { body, etag } = this.#found(input);
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(input.Range ?? '') ?? [];
    if (first === undefined) return { Body: body, ETag: etag, ContentLength: body.length };
    if (Number(first) >= body.length)
      throw awsError('InvalidRange', 'The requested range is not satisfiable', 416);
    const part = body.subarray(Number(first), Number(last) + 1);
    return { Body: part, ETag: etag, ContentLength: part.length };
  }

  #put({ Key = '', Body = '', IfMatch, IfNoneMatch, ChecksumSHA256 }: Input): object {
    const held = this.objects.get(Key);
    if (IfNoneMatch === '*' && held) throw preconditionFailed();
    if (IfMatch !== undefined && !held) throw awsError('NoSuchKey', 'The specified key does not exist.', 404);
    if (IfMatch !== undefined && held?.etag !== IfMatch) throw preconditionFailed();
    const body = Buffer.from(Body as Buffer);
    const etag = `"${createHash('md5').update(body).digest('hex')}"`;
    this.objects.set(Key, { body, etag, modifiedMs: this.#now(), sha256: ChecksumSHA256 });
    return { ETag: etag };
  }

  #head(input: Input): object {
    const object = this.objects.get(input.Key ?? '');
    if (!object) throw awsError('NotFound', 'UnknownError', 404);
    const { body, etag, sha256 } = object;
    return {
      ContentLength: body.length,
      ETag: etag,
      ...(sha256 !== undefined && input.ChecksumMode === 'ENABLED' ? { ChecksumSHA256: sha256 } : {}),
    };
  }

  #list({ Prefix = '', Delimiter, StartAfter = '' }: Input): object {
    const below = [...this.objects.keys()].filter((key) => key.startsWith(Prefix) && key > StartAfter);
    const isInFolder = (key: string) => Delimiter !== undefined && key.includes(Delimiter, Prefix.length);
    const keys = below.filter((key) => !isInFolder(key)).sort();
    const folders = new Set(
      below
        .filter(isInFolder)
        .map((key) => key.slice(0, key.indexOf(Delimiter ?? '', Prefix.length) + 1))
        .sort(),
    );
    const page = keys.slice(0, 1_000);
    const Contents = page.map((key) => {
      const object = this.objects.get(key);
      return {
        Key: key,
        Size: object?.body.length,
        ETag: object?.etag,
        LastModified: new Date(object?.modifiedMs ?? 0),
      };
    });
    return {
      ...(page.length > 0 ? { Contents } : {}),
      ...(folders.size > 0 ? { CommonPrefixes: Array.from(folders, (folder) => ({ Prefix: folder })) } : {}),
      KeyCount: page.length + folders.size,
      IsTruncated: keys.length > page.length,
    };
  }
}

function preconditionFailed(): Error {
  return awsError('PreconditionFailed', 'At least one of the pre-conditions you specified did not hold', 412);
}
